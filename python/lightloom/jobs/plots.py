"""The picture of a `JobsResult`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib import rc_context
from matplotlib.figure import Figure

from lightloom.report.plots import STYLE

if TYPE_CHECKING:
    from lightloom.jobs.result import JobsResult

# Colours that remain apart without red or green.
_COLOURS = {"alone": "#56b4e9", "together": "#d55e00", "apart": "#009e73"}


def bars(result: JobsResult) -> Figure:
    """Plot each job's iteration [s]: alone, together, and moved apart if that can be."""
    rows = result.rows
    shown = [kind for kind in _COLOURS if rows[0][f"{kind}_s"] is not None]
    width = 0.8 / len(shown)
    with rc_context(STYLE):
        figure = Figure((max(4.8, 1.1 * len(rows) + 2), 3.8))
        figure.set_layout_engine("constrained")
        axes = figure.subplots()
        for at, kind in enumerate(shown):
            places = [number + (at - (len(shown) - 1) / 2) * width for number in range(len(rows))]
            heights = [row[f"{kind}_s"] for row in rows]
            axes.bar(places, heights, 0.92 * width, color=_COLOURS[kind], label=kind)
        axes.set_xticks(range(len(rows)), [row["job"] for row in rows])
        axes.set_ylabel("an iteration [s]")
        axes.set_ylim(bottom=0)
        axes.set_title(result.title, fontsize=9.5)
        axes.grid(axis="y")
        axes.legend()
    return figure
