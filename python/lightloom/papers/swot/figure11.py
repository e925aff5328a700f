"""Figure 11: what share of the completion is overhead, by reconfiguration time and size."""

from __future__ import annotations

from collections.abc import Sequence

from lightloom.papers.part import Line, Part, Picture, grouped
from lightloom.papers.swot.points import (
    CURVES,
    MB,
    SIZES,
    TITLES,
    Point,
    Rows,
    panel,
    size_text,
)

NUMBER = 11
TITLE = "Reconfiguration time"
LARGE = (*SIZES, *(1000 * MB << i for i in range(1, 5)))
DELAYS = ("20 us", "200 us", "2 ms", "20 ms")
"""Of four orders of magnitude; the text has lost which, but names 0.2 and 20 ms."""


def parts(sizes: Sequence[int] | None = None, effort: str = "normal") -> tuple[Part, ...]:
    """Return a panel an algorithm."""
    return tuple(
        panel(f"11 {algorithm}",
              (Point(algorithm, 256, size, reconfiguration=delay)
               for delay in DELAYS for size in sizes or LARGE), effort)
        for algorithm in CURVES.values()
    )  # fmt: skip


def lines(rows: Rows) -> list[Line]:
    """Return the size from which on overhead is below one half."""
    done = grouped(rows, "panel")
    return [
        Line(11, f"{name}, 256 nodes, 4 planes", "overhead below one half from",
             "larger sizes with slower switches; Bruck first",
             _inflection(done[f"11 {algorithm}"]))
        for name, algorithm in CURVES.items()
    ]  # fmt: skip


def _inflection(rows: Rows) -> str:
    """Return the smallest size whose overhead is below half, for each reconfiguration time."""
    texts = []
    for delay in dict.fromkeys(row.reconfiguration_us for row in rows):
        some = [row for row in rows if row.reconfiguration_us == delay]
        sizes = [row.size_bytes for row in some]
        below = [row.size_bytes for row in some if row.overhead < 0.5]
        where = size_text(min(below)) if below else f"above {size_text(max(sizes))}"
        texts.append(f"{delay / 1000:g} ms: {'all' if len(below) == len(sizes) else where}")
    return ", ".join(texts)


def draw(rows: Rows) -> Picture:
    """Draw a panel an algorithm, a curve a reconfiguration time, and lockstep's dashed."""
    from lightloom.papers.swot.plots import shares
    from lightloom.style.figures import legend, page
    from lightloom.style.palette import HUES, SHAPES

    done = grouped(rows, "panel")
    with page(13, 4) as figure:
        grid = figure.subplots(1, len(done), sharey=True)
        for axes, every in zip(grid, done.values(), strict=True):
            delays = sorted({row.reconfiguration_us for row in every})
            for delay, name, color, shape in zip(delays, DELAYS, HUES, SHAPES, strict=False):
                some = [row for row in every if row.reconfiguration_us == delay]
                sizes = [row.size_bytes for row in some]
                axes.plot(sizes, [row.overhead for row in some], color=color, marker=shape,
                          markersize=3.5, linewidth=1.4, label=f"SWOT, {name}")  # fmt: skip
                axes.plot(sizes, [1 - row.ideal_us / row.lockstep_us for row in some], color=color,
                          linewidth=0.9, linestyle=(0, (2, 1.5)),
                          label=f"lockstep, {name}")  # fmt: skip
            axes.set_title(TITLES[every[0].algorithm])
            shares(axes, every)
        grid[0].set_ylabel("(completion - ideal) / completion")
        legend(figure, grid[0])
    return figure
