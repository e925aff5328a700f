"""Collectives of the ranks of a job, over all NICs and circuits of their servers.

A rank is a process; its server's runtime (``lightloomd runtime serve``) owns the NICs, and the two
share memory. `Rank` connects, and has the collectives on NumPy arrays::

    from lightloom.runtime import Rank
    with Rank() as rank:          # RANK, WORLD_SIZE and LIGHTLOOM_RUNTIME are in the environment
        ours = rank.empty(1000, "float32")
        ours[:] = rank.rank
        rank.all_reduce(ours)

``lightloom testbed run -- python job.py`` starts such processes.
"""

from __future__ import annotations

from lightloom.runtime.arena import Arena
from lightloom.runtime.rank import Rank
from lightloom.runtime.work import Work

__all__ = ["Arena", "Rank", "Work"]
