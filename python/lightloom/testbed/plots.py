"""The picture of a comparison: measured times over simulated ones.

A function returns a matplotlib `Figure` which belongs to the caller; pyplot's state is untouched.
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from lightloom.style.figures import legend, page
from lightloom.style.palette import MUTED, named
from lightloom.testbed.comparison import Comparison
from lightloom.testbed.request import PATHS

_LOOKS = named(PATHS)
# What is to be reached, at the median and at worst.
MEDIAN, WORST = 0.10, 0.20


def compared(comparison: Comparison) -> Figure:
    """Plot measured over simulated times [s], and their ratio by demand."""
    rows = comparison.rows
    with page(9.6, 4.0) as figure:
        left, right = figure.subplots(1, 2)
        most = 1.05 * max(max(row.measured_seconds, row.simulated_seconds) for row in rows)
        left.plot([0, most], [0, most], color=MUTED, linewidth=0.9)
        for path in comparison.request.paths:
            color, _, mark, _dash = _LOOKS[path]
            own = comparison.of(path)
            left.scatter(
                [row.simulated_seconds for row in own], [row.measured_seconds for row in own],
                color=color, marker=mark, s=18, label=path, linewidths=0,
            )  # fmt: skip
            right.plot(
                [row.demand for row in own], [row.ratio for row in own],
                color=color, marker=mark, markersize=4, linewidth=0.9, label=path,
            )  # fmt: skip
        left.set_xlim(0, most)
        left.set_ylim(0, most)
        left.set_xlabel("time by the flow engine [s]")
        left.set_ylabel("time on the testbed [s]")
        left.grid()
        legend(figure, left)
        right.axhspan(1 - WORST, 1 + WORST, color=MUTED, alpha=0.10, linewidth=0)
        right.axhspan(1 - MEDIAN, 1 + MEDIAN, color=MUTED, alpha=0.18, linewidth=0)
        right.axhline(1, color=MUTED, linewidth=0.9)
        furthest = max(WORST * 1.25, 1.1 * comparison.worst_gap())
        right.set_ylim(max(0, 1 - furthest), 1 + furthest)
        right.set_xticks(np.unique([row.demand for row in rows])[:: max(1, len(rows) // 30)])
        right.set_xlabel("number of the demand")
        right.set_ylabel("time on the testbed / by the flow engine")
        right.grid(axis="y")
    return figure
