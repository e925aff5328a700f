"""Pictures of a grid with failed nodes and its jobs."""

from __future__ import annotations

from itertools import islice

import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from lightloom.railx.faults import Allocated, job_text
from lightloom.style.figures import legend, page
from lightloom.style.palette import FAILED, LINE, NEUTRAL, ORANGE, looks

# All hues but orange, which is near that of failed nodes.
_HUES = [look.light for look in islice(looks(), 8) if look.light != ORANGE[0]]
_FREE, _DROPPED = NEUTRAL["line"][0], NEUTRAL["edge"][0]


def job_colors(count: int) -> list[str]:
    """Return a colour for each of `count` jobs; they repeat after a few.

    >>> job_colors(2)
    ['#0a6cc4', '#00553d']
    """
    return [_HUES[at % len(_HUES)] for at in range(count)]


def grid(found: Allocated) -> Figure:
    """Draw the nodes of a grid: failed ones, and those of each job or of the largest one."""
    pixels = np.full((found.rows, found.columns, 3), to_rgb(_FREE if found.asked else _DROPPED))
    jobs = found.jobs if found.asked else (found.largest,)
    colors = job_colors(len(jobs))
    for job, color in zip(jobs, colors, strict=True):
        if job is not None:
            pixels[np.ix_(job.rows, job.columns)] = to_rgb(color)
    ratio = found.rows / found.columns
    with page(7.5, min(12.0, max(2.5, 6.0 * ratio + 0.8))) as figure:
        axes = figure.subplots()
        axes.imshow(pixels, interpolation="nearest")
        side = max(found.rows, found.columns)
        if found.faults:
            rows, columns = zip(*found.faults, strict=True)
            axes.scatter(columns, rows, marker="x", s=min(60.0, 9000 / side**1.5), color=FAILED,
                         linewidths=1.6)  # fmt: skip
        if side <= 96:  # lines between nodes
            axes.set_xticks(np.arange(-0.5, found.columns), minor=True)
            axes.set_yticks(np.arange(-0.5, found.rows), minor=True)
            axes.grid(which="minor", color="white", linewidth=0.5)
        axes.tick_params(which="minor", length=0)
        for spine in axes.spines.values():
            spine.set_color(LINE)
        axes.set_xlabel("column of nodes")
        axes.set_ylabel("row of nodes")
        axes.set_title(_title(found))
        handles: list[Patch | Line2D] = [
            Line2D([], [], color=FAILED, marker="x", linestyle="", label="failed")
        ]
        if found.asked:
            all_jobs = zip(found.asked, colors, found.jobs, strict=True)
            shown = [(job_text(asked), color, job.nodes) for asked, color, job in all_jobs if job]
            handles += [Patch(color=color, label=f"{name}: {nodes:,}")
                        for name, color, nodes in shown[: len(_HUES)]]  # fmt: skip
            if len(shown) > len(_HUES):  # colours repeat from here
                handles.append(Patch(alpha=0, label=f"and {len(shown) - len(_HUES)} more"))
            handles.append(Patch(color=_FREE, label="free"))
        else:
            label = f"the job: {len(jobs[0].columns)} x {len(jobs[0].rows)}" if jobs[0] else ""
            handles += [Patch(color=colors[0], label=label), Patch(color=_DROPPED, label="dropped")]
        legend(figure, handles)
    return figure


def _title(found: Allocated) -> str:
    if found.asked:
        share = found.used / found.healthy if found.healthy else 0.0
        return f"{found.used:,} of {found.healthy:,} working nodes have a job ({share:.1%})"
    nodes = found.rows * found.columns
    return (
        f"largest single job: {found.largest.nodes:,} of {nodes:,} nodes "
        f"({found.largest.nodes / nodes:.1%})"
    )
