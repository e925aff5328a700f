"""Collectives of the ranks of a job, over all NICs and circuits of their servers.

A rank is a process; its server's runtime (``lightloomd runtime serve``) owns the NICs, and the two
share memory. `Rank` connects, and has the collectives on NumPy arrays::

    from lightloom.runtime import Rank
    with Rank() as rank:          # RANK, WORLD_SIZE and LIGHTLOOM_RUNTIME are in the environment
        ours = rank.empty(1000, "float32")
        ours[:] = rank.rank
        rank.all_reduce(ours)

``lightloom testbed run -- python job.py`` starts such processes. `lightloom.runtime.pytorch` is the
backend of PyTorch on it; importing this package registers it if PyTorch is loaded, and loads it
never.
"""

from __future__ import annotations

import sys
from importlib import import_module

from lightloom.runtime.arena import Arena
from lightloom.runtime.rank import Rank
from lightloom.runtime.shim import Shim
from lightloom.runtime.work import Work

__all__ = ["Arena", "Rank", "Shim", "Work"]

if "torch" in sys.modules:
    import_module("lightloom.runtime.pytorch")
