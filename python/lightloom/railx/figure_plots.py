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
Rows = Sequence[dict[str, Any]]


def draw(rows: Rows) -> Figure:
    """Draw one figure: a panel beside the other, a line a series.

    A panel's title and axes are what its first row says: ``title``, ``x_axis``, ``y_axis``, and
    ``log``, which of the axes "x", "y" or "xy" are logarithmic; none needs be there.
    """
    panels = list(dict.fromkeys(str(row["panel"]) for row in rows))
    with rc_context(STYLE):
        figure = Figure((5.8 * max(1, len(panels)), 4.3))
        figure.set_layout_engine("constrained")
        for at, panel in enumerate(panels):
            axes = figure.add_subplot(1, len(panels), at + 1)
            _panel(axes, panel, [row for row in rows if str(row["panel"]) == panel])
    return figure


def _panel(axes: Axes, panel: str, rows: Rows) -> None:
    says = rows[0]
    series = list(dict.fromkeys(str(row["series"]) for row in rows))
    for at, name in enumerate(series):
        points = [(row["x"], row["y"]) for row in rows
                  if row["series"] == name and row["y"] is not None]  # fmt: skip
        if points:
            axes.plot(*zip(*points, strict=True), label=name, color=HUES[at % len(HUES)],
                      marker=SHAPES[at % len(SHAPES)], markersize=3.5, linewidth=1.4)  # fmt: skip
    axes.set_title(f"({panel}) {says.get('title', '')}" if panel else says.get("title", ""))
    axes.set_xlabel(says.get("x_axis", ""))
    axes.set_ylabel(says.get("y_axis", ""))
    log = str(says.get("log") or "")
    if "x" in log:
        axes.set_xscale("log")
    if "y" in log:
        axes.set_yscale("log")
    elif all(row["y"] is None or row["y"] >= 0 for row in rows):
        axes.set_ylim(bottom=0)
    axes.grid(axis="y")
    if len(series) > 1:
        axes.legend(fontsize=8)
