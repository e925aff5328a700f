"""Figure 10: how far SWOT is below lockstep on 2, 4 and 8 planes, over sizes."""

from __future__ import annotations

from collections.abc import Sequence

from lightloom.papers.part import Line, Part, Picture, grouped
from lightloom.papers.swot.points import (
    CURVES,
    PLANES,
    SIZES,
    TITLES,
    Point,
    Rows,
    panel,
)

NUMBER = 10
TITLE = "Planes"


def parts(sizes: Sequence[int] | None = None, effort: str = "normal") -> tuple[Part, ...]:
    """Return a panel an algorithm."""
    return tuple(
        panel(f"10 {algorithm}",
              (Point(algorithm, 256, size, k) for k in PLANES for size in sizes or SIZES), effort)
        for algorithm in CURVES.values()
    )  # fmt: skip


def lines(rows: Rows) -> list[Line]:
    """Return what more planes gain."""
    done = grouped(rows, "panel")
    return [
        Line(10, f"{name}, 256 nodes", "points gained by more planes",
             "diminishing; 8 below 4 from some size on" if name != "Bruck" else "diminishing",
             _gained(done[f"10 {algorithm}"]))
        for name, algorithm in CURVES.items()
    ]  # fmt: skip


def _gained(rows: Rows) -> str:
    """Return what 4 and 8 planes gain over half as many [points], from least to most."""
    shares = {(row.planes, row.size_bytes): 100 * row.below_lockstep for row in rows}
    texts = []
    for k in PLANES[1:]:
        steps = [share - shares[k // 2, size] for (at, size), share in shares.items() if at == k]
        low, high = (round(points, 1) + 0.0 for points in (min(steps), max(steps)))  # never -0.0
        texts.append(f"{k // 2} to {k}: {low:+.1f} to {high:+.1f}")
    return "; ".join(texts)


def draw(rows: Rows) -> Picture:
    """Draw a panel an algorithm, a curve a number of planes."""
    from lightloom.papers.swot.plots import shares
    from lightloom.style.figures import legend, page
    from lightloom.style.palette import HUES, SHAPES

    done = grouped(rows, "panel")
    with page(13, 4) as figure:
        grid = figure.subplots(1, len(done), sharey=True)
        for axes, every in zip(grid, done.values(), strict=True):
            for k, color, shape in zip(PLANES, HUES, SHAPES, strict=False):
                some = [row for row in every if row.planes == k]
                axes.plot([row.size_bytes for row in some], [row.below_lockstep for row in some],
                          color=color, marker=shape, markersize=3.5, linewidth=1.4,
                          label=f"k = {k}")  # fmt: skip
            axes.set_title(TITLES[every[0].algorithm])
            shares(axes, every, least=-0.02)
        grid[0].set_ylabel("shorter than lockstep")
        legend(figure, grid[0])
    return figure
