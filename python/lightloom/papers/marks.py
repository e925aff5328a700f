"""How a paper's own values are drawn beside ours: a hollow diamond, in every figure the same."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING

from lightloom.papers.part import Line
from lightloom.style.palette import BLUE, INK, MUTED, PAPER

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def published(axes: Axes, points: Sequence[tuple[float, float]], label: str = "the paper") -> None:
    """Draw what a paper says at these places; a legend names it once."""
    if points:
        x, y = zip(*points, strict=True)
        axes.plot(x, y, linestyle="", marker="D", markersize=6, markerfacecolor=PAPER,
                  markeredgecolor=INK, markeredgewidth=1.4, zorder=5, label=label)  # fmt: skip


def number_of(said: str) -> float | None:
    """Return what a paper says as a number, if it is one.

    Examples
    --------
    >>> number_of("0.8"), number_of("1.4x"), number_of("above 1"), number_of("+3.2 %")
    (0.8, 1.4, None, 3.2)
    """
    text = said.replace(",", "").strip("x% +")
    try:
        return float(text)
    except ValueError:
        return None


def compared(lines: Sequence[Line]) -> list[tuple[Line, float]]:
    """Return the lines that have numbers of the paper and ours, and ours over the paper's.

    Examples
    --------
    >>> compared([Line(1, "", "gain", "2x", "1.5x"), Line(1, "", "trend", "falls", "falls")])
    [(Line(figure=1, setting='', what='gain', paper='2x', ours='1.5x'), 0.75)]
    """
    numbers = ((line, number_of(line.paper), number_of(line.ours)) for line in lines)
    return [(line, ours / paper) for line, paper, ours in numbers if paper and ours is not None]


def beside(title: str, lines: Sequence[Line]) -> Figure | None:
    """Draw each number of the paper's text, and ours over it; None if the text has none."""
    from lightloom.style.figures import categories, legend, page

    found = compared(lines)
    if not found:
        return None
    names = [
        fill(f"{line.figure} {line.setting}, {line.what}".replace(" ,", ""), 56)
        for line, _ in found
    ]
    most = 1 + max(name.count("\n") for name in names)
    with page(8.6, 1.6 + (0.18 + 0.12 * most) * len(names), title) as figure:
        axes = figure.subplots()
        places = range(len(found))
        ratios = [ratio for _, ratio in found]
        published(axes, [(1.0, y) for y in places])
        axes.plot(ratios, places, linestyle="", marker="o", markersize=6, color=BLUE[0],
                  label="here", zorder=6)  # fmt: skip
        low, high = min(1.0, *ratios), max(1.0, *ratios)
        room = max(high - low, 0.1)
        for y, (line, ratio) in enumerate(found):
            axes.plot([1.0, ratio], [y, y], color=MUTED, linewidth=1.0, zorder=1)
            axes.text(high + 0.12 * room, y, f"{line.ours} (paper: {line.paper})", va="center",
                      fontsize=8)  # fmt: skip
        categories(axes, names)
        axes.set_xlim(low - 0.1 * room, high + 0.6 * room)
        axes.set_xlabel("here over the paper [1]")
        legend(figure, axes)
    return figure
