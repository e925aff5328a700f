"""Figure 8: completion times over the number of nodes, on 4 planes.

The paper gives neither sizes nor latency: 40 MB (all-reduce) and 32 MB (all-to-all) at 1 us met its
four percentages when they were sought.
"""

from __future__ import annotations

from collections.abc import Sequence

from lightloom.papers.part import Line, Part, Picture, grouped
from lightloom.papers.swot.points import MB, TITLES, Point, Rows, panel, size_text

NUMBER = 8
TITLE = "Scaling with the number of nodes"
REDUCE, EXCHANGE = "rabenseifner-allreduce", "pairwise-alltoall"


def parts(sizes: Sequence[int] | None = None, effort: str = "normal") -> tuple[Part, ...]:
    """Return the all-reduce and the all-to-all, whatever the sizes of the other figures.

    >>> [part.name for part in parts()]
    ['8a', '8b']
    """
    del sizes
    powers = (Point(REDUCE, 2**i, 40 * MB, latency="1 us") for i in range(2, 10))
    others = (Point(EXCHANGE, n, 32 * MB, latency="1 us") for n in range(3, 17))
    return panel("8a", powers, effort), panel("8b", others, effort)


def lines(rows: Rows) -> list[Line]:
    """Return how far SWOT is below lockstep, and the most nodes that one-shot serves."""
    done = grouped(rows, "panel")
    made = []
    for name, job, nodes, paper in (
        ("8a", "all-reduce 40 MB", 64, "39.6 %"), ("8a", "all-reduce 40 MB", 512, "46.9 %"),
        ("8b", "pairwise 32 MB", 5, "26.0 %"), ("8b", "pairwise 32 MB", 10, "45.5 %"),
    ):  # fmt: skip
        (row,) = (row for row in done[name] if row.nodes == nodes)
        setting = f"{job}, {nodes} nodes, 4 planes, 1 us"
        made.append(
            Line(name, setting, "shorter than lockstep", paper, f"{row.below_lockstep:.1%}")
        )
    for name, job, paper in (("8a", "all-reduce", "16"), ("8b", "pairwise", "5")):
        most = max(row.nodes for row in done[name] if row.one_shot_us is not None)
        made.append(Line(name, f"{job}, 4 planes", "most nodes of one-shot", paper, str(most)))
    return made


def draw(rows: Rows) -> Picture:
    """Draw the all-reduce beside the all-to-all."""
    from lightloom.papers.swot.plots import STYLES, completions
    from lightloom.style.figures import every_x, legend, page
    from lightloom.style.palette import MUTED

    with page(11, 4) as figure:
        for axes, some in zip(figure.subplots(1, 2), grouped(rows, "panel").values(), strict=True):
            first = some[0]
            completions(axes, some, lambda row: row.nodes)
            axes.set_title(f"{TITLES[first.algorithm]}, {size_text(first.size_bytes)}")
            axes.set_xlabel("nodes")
            axes.set_ylabel("completion [us]")
            axes.set_ylim(bottom=0)
            if first.algorithm != EXCHANGE:
                axes.set_xscale("log", base=2)
            every_x(axes, [row.nodes for row in some])
            for row in some:
                axes.annotate(f"-{row.below_lockstep:.0%}", (row.nodes, row.swot_us), (0, -12),
                              textcoords="offset points", ha="center", fontsize=7.5,
                              color=STYLES["SWOT"]["color"])  # fmt: skip
            few = max((row.nodes for row in some if row.one_shot_us is not None), default=None)
            if few is not None:
                axes.axvline(few, color=MUTED, linewidth=0.7, linestyle=(0, (1, 2)))
                axes.text(few, axes.get_ylim()[1], " one-shot ends", va="top", fontsize=8,
                          color=MUTED)  # fmt: skip
        legend(figure, figure.axes[0])
    return figure
