"""How a paper's own values are drawn beside ours: a hollow diamond, in every figure the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lightloom.style.palette import INK, PAPER

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def published(axes: Axes, points: Sequence[tuple[float, float]], label: str = "the paper") -> None:
    """Draw what a paper says at these places; the legend names it once."""
    if points:
        x, y = zip(*points, strict=True)
        axes.plot(x, y, linestyle="", marker="D", markersize=6, markerfacecolor=PAPER,
                  markeredgecolor=INK, markeredgewidth=1.4, zorder=5, label=label)  # fmt: skip


def number_of(said: object) -> float | None:
    """Return what a paper says as a number, if it is one.

    >>> number_of("0.8"), number_of("1.4x"), number_of("above 1"), number_of("+ 3.2 %")
    (0.8, 1.4, None, 3.2)
    """
    text = str(said).strip("x% ").replace("\u00d7", "").replace("+ ", "")
    try:
        return float(text)
    except ValueError:
        return None
