"""What the pictures of SWOT's figures share: completion times, axes over sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from lightloom.papers.swot.points import KB, MB, Row, Rows, size_text
from lightloom.style.figures import every_x
from lightloom.style.palette import GREEN, GREY, ORANGE, VIOLET

# A colour, a dash pattern and a marker each.
STYLES: dict[str, dict[str, Any]] = {
    "one-shot": {"color": GREY[0], "linestyle": (0, (2.5, 1)), "marker": "o"},
    "lockstep": {"color": ORANGE[0], "linestyle": (0, (5, 1.5)), "marker": "v"},
    "SWOT": {"color": VIOLET[0], "linestyle": "-", "marker": "s"},
    "ideal": {"color": GREEN[0], "linestyle": (0, (1.2, 1.2)), "marker": ""},
}
VALUES: dict[str, Callable[[Row], float | None]] = {
    "one-shot": lambda row: row.one_shot_us,
    "lockstep": lambda row: row.lockstep_us,
    "SWOT": lambda row: row.swot_us,
    "ideal": lambda row: row.ideal_us,
}
_TICKS = (64 * KB, 256 * KB, MB, 4 * MB, 16 * MB, 64 * MB, 256 * MB, 1000 * MB, 4000 * MB,
          16000 * MB)  # fmt: skip


def completions(axes: Axes, rows: Rows, x: Callable[[Row], int]) -> None:
    """Draw a curve a scheduler."""
    for name, value in VALUES.items():
        points = [(x(row), time) for row in rows if (time := value(row)) is not None]
        if points:
            axes.plot(*zip(*points, strict=True), label=name, markersize=3.5, linewidth=1.4,
                      **STYLES[name])  # fmt: skip
    axes.grid(axis="y")


def shares(axes: Axes, rows: Rows, least: float = 0) -> None:
    """Make the axes those of shares over sizes."""
    axes.set_ylim(least, 1)
    axes.yaxis.set_major_formatter(PercentFormatter(1))
    over_sizes(axes, rows)
    axes.grid(axis="y")


def over_sizes(axes: Axes, rows: Rows, *, label: bool = True) -> None:
    """Make the horizontal axis one of sizes, and a vertical one of times logarithmic."""
    sizes = [row.size_bytes for row in rows]
    axes.set_xscale("log")
    if axes.get_yscale() == "linear" and axes.get_ylim()[1] > 2:  # times, not shares
        axes.set_yscale("log")
    ticks = [tick for tick in _TICKS if min(sizes) <= tick <= max(sizes)]
    every_x(axes, ticks, lambda size: size_text(round(size)))
    axes.tick_params(axis="x", labelsize=7.5, rotation=35)
    if label:
        axes.set_xlabel("buffer of a node")
