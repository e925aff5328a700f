"""Figure 9: mean and tail completion times, on the workloads of Figure 7."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lightloom.papers.part import Line, Picture, grouped
from lightloom.papers.rails import figure07
from lightloom.papers.rails.compared import SPARSE, Rows, by_scheme, cut

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NUMBER = 9
TITLE = "Completion times"
parts = figure07.parts


def lines(rows: Rows) -> list[Line]:
    """Return how much shorter the paper says that RailS's all-to-alls are."""
    done = grouped(rows, "workload")
    even = done["uniform"]
    shorter = "all-to-all shorter than the others'"
    return [
        Line("9a", "uniform", "all-to-all shorter than MinRTT's", "3.8 %", cut(even, "min-rtt")),
        Line("9a", "uniform", "all-to-all shorter than PLB's", "15.3 %", cut(even, "plb")),
        Line("9b", SPARSE[1], shorter, "33.3 % (1.5 times)", cut(done[SPARSE[1]])),
        *(Line(f"9{letter}", name, shorter, "17 to 78 %", cut(done[name]))
          for letter, name in zip("cde", SPARSE[2:], strict=True)),
    ]  # fmt: skip


def draw(rows: Rows) -> Picture:
    """Draw a panel a workload, a bar a scheme and percentile."""
    from lightloom.papers.rails.plots import side_by_side
    from lightloom.style.figures import legend

    with side_by_side(rows) as (figure, panels):
        for axes, some in panels:
            _times(axes, some, label=axes is panels[0][0])
        legend(figure, panels[0][0])
    return figure


def _times(axes: Axes, rows: Rows, *, label: bool) -> None:
    import numpy as np

    from lightloom.rails.plots import STYLES

    unit = by_scheme(rows)["rails"].cct_p99_s
    width = 0.8 / len(rows)
    for at, each in enumerate(rows):
        row = each.row
        values = (row.cct_mean_s, row.cct_p80_s, row.cct_p95_s, row.cct_p99_s)
        axes.bar(np.arange(4) + (at - (len(rows) - 1) / 2) * width,
                 [value / unit for value in values], width * 0.92,
                 color=STYLES[row.scheme].light, label=row.scheme)  # fmt: skip
    axes.set_xticks(range(4), ["mean", "p80", "p95", "p99"])
    axes.grid(axis="y")
    if label:
        axes.set_ylabel("completion time over RailS's p99")
