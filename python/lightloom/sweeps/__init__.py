"""Sweeps: one job over axes of its specification.

`lightloom.sweep` (in `lightloom.sweeps.job`) resolves every point of the axes, runs each distinct
one once on `lightloom.runs`, and returns a `Sweep`: tables, pictures, the best point. Where runs
are performed is an executor of `lightloom.runs`; those of a Ray cluster and of Slurm live here.
"""

from __future__ import annotations

from lightloom.lazy import TYPE_CHECKING, lazy

if TYPE_CHECKING:
    from lightloom.sweeps.result import Sweep

__all__ = ["Sweep"]

__getattr__, __dir__ = lazy(__name__, {"Sweep": "lightloom.sweeps.result"})
