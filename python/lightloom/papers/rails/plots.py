"""What the pictures of RailS's figures share: a panel a workload, bars of bandwidth."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lightloom.papers.part import grouped
from lightloom.papers.rails.compared import Rows, by_scheme
from lightloom.rails.plots import STYLES
from lightloom.rails.runs import BASELINE
from lightloom.style.figures import page


@contextmanager
def side_by_side(rows: Rows) -> Iterator[tuple[Figure, list[tuple[Axes, Rows]]]]:
    """Yield a picture with a panel a workload, and each panel's axes and rows."""
    done = grouped(rows, "workload")
    with page(14.5, 3.3) as figure:
        panels = list(zip(figure.subplots(1, len(done)), done.values(), strict=True))
        for axes, some in panels:
            axes.set_title(some[0].workload)
        yield figure, panels


def bandwidths(axes: Axes, rows: Rows, *, label: bool = True) -> None:
    """Draw each scheme's bus bandwidth over ECMP's."""
    base = by_scheme(rows)[BASELINE].bus_bandwidth_gbps
    for x, each in enumerate(rows):
        gain = each.row.bus_bandwidth_gbps / base
        axes.bar(x, gain, color=STYLES[each.row.scheme].light, width=0.72)
        axes.text(x, gain, f"{gain:.2f}", ha="center", va="bottom", fontsize=8)
    axes.set_xticks(range(len(rows)), [each.row.scheme for each in rows], fontsize=8)
    axes.grid(axis="y")
    axes.margins(y=0.12)
    if label:
        axes.set_ylabel("bus bandwidth over ECMP's")
