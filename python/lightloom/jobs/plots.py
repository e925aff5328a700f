"""The picture of a `JobsResult`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from lightloom.style.figures import legend, page, title
from lightloom.style.palette import BLUE, GREEN, ORANGE, PAPER

if TYPE_CHECKING:
    from lightloom.jobs.result import JobsResult

_COLOURS = {"alone": BLUE[0], "together": ORANGE[0], "apart": GREEN[0]}


def bars(result: JobsResult) -> Figure:
    """Plot each job's iteration [s]: alone, together, and moved apart if that can be."""
    rows = result.rows
    shown = [kind for kind in _COLOURS if rows[0][f"{kind}_s"] is not None]
    width = 0.8 / len(shown)
    with page(max(4.8, 1.1 * len(rows) + 2), 3.8) as figure:
        axes = figure.subplots()
        for at, kind in enumerate(shown):
            places = [number + (at - (len(shown) - 1) / 2) * width for number in range(len(rows))]
            heights = [row[f"{kind}_s"] for row in rows]
            axes.bar(places, heights, width, color=_COLOURS[kind], label=kind, edgecolor=PAPER)
        axes.set_xticks(range(len(rows)), [row["job"] for row in rows])
        axes.set_ylabel("iteration time [s]")
        axes.set_ylim(bottom=0)
        title(axes, result.title)
        axes.grid(axis="y")
        legend(figure, axes)
    return figure
