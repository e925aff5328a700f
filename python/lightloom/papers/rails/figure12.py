"""Figure 12: Mixtral 8x7B's all-to-alls in four phases of its training, placed densely.

RailS, Section VI-F.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from lightloom.papers.part import Line, Part, Picture, grouped
from lightloom.papers.rails.compared import Rows, by_scheme, compared, cut, span
from lightloom.rails.workloads import PHASES, Workload

NUMBER = 12
TITLE = "Mixtral 8x7B, dense"
SHORTER = ("19.5 to 34.9 %", "8.9 to 19.2 %", "25.3 to 31.2 %", "17.9 to 44.3 %")


def phase_parts(placement: str, **settings: Any) -> tuple[Part, ...]:
    """Return a piece a phase, with experts placed as ``dense`` or ``sparse`` says.

    >>> [part.name for part in phase_parts("dense")][0]
    'mixtral:start:dense'
    """
    return tuple(compared(f"mixtral:{phase}:{placement}", **settings) for phase in PHASES)


def phase_lines(
    number: int, placement: str, alltoalls: Sequence[str], iterations: str, rows: Rows
) -> list[Line]:
    """Return how much shorter all-to-alls and iterations are than with the other schemes."""
    done = grouped(rows, "workload")
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


parts = partial(phase_parts, "dense")
lines = partial(phase_lines, NUMBER, "dense", SHORTER, "up to 18 %")


def draw(rows: Rows) -> Picture:
    """Draw the all-to-all beside the iteration, a bar a phase and scheme."""
    import numpy as np

    from lightloom.rails.plots import STYLES
    from lightloom.style.figures import legend, page

    done = grouped(rows, "workload")
    names = [Workload.parse(name).phase for name in done]
    schemes = list(by_scheme(next(iter(done.values()))))
    width = 0.8 / len(schemes)
    with page(10.5, 3.8) as figure:
        left, right = figure.subplots(1, 2)
        for at, scheme in enumerate(schemes):
            x = np.arange(len(done)) + (at - (len(schemes) - 1) / 2) * width
            mine = [each for each in rows if each.row.scheme == scheme]
            color = STYLES[scheme].light
            left.bar(x, [1e3 * each.row.completion_s for each in mine], width * 0.92,
                     color=color, label=scheme)  # fmt: skip
            right.bar(x, [each.iteration_s for each in mine], width * 0.92, color=color)
        for axes, what in ((left, "all-to-all [ms]"), (right, "iteration [s]")):
            axes.set_xticks(range(len(done)), names)
            axes.grid(axis="y")
            axes.set_ylabel(what)
        left.set_title("(a) all-to-all")
        right.set_title("(b) iteration")
        legend(figure, left)
    return figure
