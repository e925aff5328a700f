"""RailX's Figures 14 to 17 as pictures, panel by panel, from finished rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lightloom.report.plots import STYLE

# Okabe and Ito's hues (2008).
HUES = ("#0072b2", "#c77f00", "#00805c", "#5b3cc4", "#b9588f", "#4d5663", "#56b4e9")
SHAPES = ("o", "s", "v", "D", "^", "P", "X")
# Title, what is along each axis, and its scale, by figure and panel.
_PANELS: dict[tuple[int, str], tuple[str, str, str, str]] = {}

Rows = Sequence[dict[str, Any]]


def draw(number: int, rows: Rows) -> Figure:
    """Draw one figure: a panel beside the other, a line a series."""
    panels = list(dict.fromkeys(str(row["panel"]) for row in rows))
    with rc_context(STYLE):
        figure = Figure((5.6 * len(panels), 4.2))
        figure.set_layout_engine("constrained")
        for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels,
                               strict=True):  # fmt: skip
            _lines(axes, [row for row in rows if str(row["panel"]) == panel])
            title, x, y, scales = _PANELS.get((number, panel), (f"{number}{panel}", "", "", ""))
            axes.set_title(f"({panel}) {title}" if panel else title)
            axes.set_xlabel(x)
            axes.set_ylabel(y)
            if "x" in scales:
                axes.set_xscale("log")
            if "y" in scales:
                axes.set_yscale("log")
            else:
                axes.set_ylim(bottom=0)
            axes.legend(fontsize=8)
    return figure


def _lines(axes: Axes, rows: Rows) -> None:
    series = list(dict.fromkeys(str(row["series"]) for row in rows))
    for at, name in enumerate(series):
        points = [(row["x"], row["y"]) for row in rows
                  if row["series"] == name and row["y"] is not None]  # fmt: skip
        if points:
            axes.plot(*zip(*points, strict=True), label=name, color=HUES[at % len(HUES)],
                      marker=SHAPES[at % len(SHAPES)], markersize=3.5, linewidth=1.4)  # fmt: skip
    axes.grid(axis="y")
