"""What Figures 12 and 13 share: the phases of Mixtral 8x7B's training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lightloom.papers.part import Line, Part
from lightloom.papers.rails.compared import Rows, by_workload, compared, cut, span
from lightloom.rails.workloads import PHASES


def phase_parts(placement: str, settings: Mapping[str, Any]) -> tuple[Part, ...]:
    """Return a piece a phase, with experts placed as ``dense`` or ``sparse`` says.

    >>> [part.name for part in phase_parts("dense", {})][0]
    'mixtral:start:dense'
    """
    return tuple(compared(f"mixtral:{phase}:{placement}", **settings) for phase in PHASES)


def phase_lines(
    number: int, placement: str, rows: Rows, alltoalls: Sequence[str], iterations: str
) -> list[Line]:
    """Return how much shorter all-to-alls and iterations are than with the other schemes."""
    done = by_workload(rows)
    made = [
        Line(f"{number}a", name, "all-to-all shorter than the others'", paper, cut(some))
        for (name, some), paper in zip(done.items(), alltoalls, strict=True)
    ]
    cuts = []
    for some in done.values():
        times = {each.row.scheme: each.iteration_s or 0.0 for each in some}
        cuts += [1 - times["rails"] / time for scheme, time in times.items() if scheme != "rails"]
    what = "iteration shorter than with the others'"
    return [*made, Line(f"{number}b", f"mixtral, {placement}", what, iterations, span(cuts))]
