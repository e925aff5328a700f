"""Figure 7: completion times over sizes, for as many nodes as one-shot can serve.

Where the paper is silent: one configuration a plane, with k = 2, 4 and 8 planes. Where it gives a
largest value, so do we, over the sizes and planes of a panel, whichever they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lightloom.papers.part import Line, Part, Picture, grouped
from lightloom.papers.swot.points import (
    PLANES,
    SIZES,
    TITLES,
    Point,
    Row,
    Rows,
    best,
    panel,
    size_text,
)

NUMBER = 7
TITLE = "Completion time over the size of the message"
PANELS = {"a": "reduce-scatter", "b": "all-reduce", "c": "pairwise", "d": "Bruck"}
"""In the order of `TITLES`."""
# SWOT, Section 4.2. Its text gives 72.7 and 89.7 % to pairwise and Bruck; its captions and its
# remarks on both fit the reverse, which is possible.
ONE_SHOT = ("84.0 %", "83.7 %", "89.7 %", "72.7 %")
LOCKSTEP = ("89.1 %", "87.1 %", "85.4 or 89.1 %", "89.1 or 85.4 %")


def parts(sizes: Sequence[int] | None = None, effort: str = "normal") -> tuple[Part, ...]:
    """Return a panel an algorithm and number of planes.

    >>> [part.name for part in parts()][:4]
    ['7a k=2', '7a k=4', '7a k=8', '7b k=2']
    """
    return tuple(
        panel(f"7{letter} k={k}",
              (Point(algorithm, _nodes(algorithm, k), size, k) for size in sizes or SIZES), effort)
        for letter, algorithm in zip(PANELS, TITLES, strict=True)
        for k in PLANES
    )  # fmt: skip


def _nodes(algorithm: str, k: int) -> int:
    return k + 1 if algorithm == "pairwise-alltoall" else 2**k


def lines(rows: Rows) -> list[Line]:
    """Return the most that SWOT is shorter than either baseline."""
    compared: tuple[tuple[str, Sequence[str], Callable[[Row], float | None]], ...] = (
        ("shorter than one-shot, up to", ONE_SHOT, lambda row: row.below_one_shot),
        ("shorter than lockstep, up to", LOCKSTEP, lambda row: row.below_lockstep),
    )
    made = []
    for what, papers, share in compared:
        for (letter, name), paper in zip(PANELS.items(), papers, strict=True):
            nodes = "k + 1 nodes" if letter == "c" else "2^k nodes"
            some = [row for row in rows if row.panel.startswith(f"7{letter}")]
            ours = _largest(some, share)
            if ours:
                made.append(Line(f"7{letter}", f"{name}, {nodes}", what, paper, ours))
    return made


def _largest(rows: Rows, share: Callable[[Row], float | None]) -> str:
    """Say the largest share, and where it is."""
    row = best(rows, lambda row: None if (value := share(row)) is None else -value)
    if row is None:
        return ""
    return f"{share(row) or 0.0:.1%} ({size_text(row.size_bytes)}, k = {row.planes})"


def draw(rows: Rows) -> Picture:
    """Draw a column an algorithm, a line of panels a number of planes."""
    from lightloom.papers.swot.plots import completions, over_sizes
    from lightloom.style.figures import legend, page
    from lightloom.style.palette import MUTED

    with page(14, 8.4) as figure:
        grid = figure.subplots(len(PLANES), len(TITLES), sharex=True, squeeze=False)
        for at, some in enumerate(grouped(rows, "panel").values()):
            column, line = divmod(at, len(PLANES))
            axes, first = grid[line][column], some[0]
            completions(axes, some, lambda row: row.size_bytes)
            over_sizes(axes, some, label=line == len(PLANES) - 1)
            if line == 0:
                axes.set_title(f"({'abcd'[column]}) {TITLES[first.algorithm]}")
            axes.text(0.03, 0.94, f"{first.planes} planes, {first.nodes} nodes",
                      transform=axes.transAxes, va="top", color=MUTED)  # fmt: skip
            if column == 0:
                axes.set_ylabel("completion [us]")
        legend(figure, grid[0][0])
    return figure
