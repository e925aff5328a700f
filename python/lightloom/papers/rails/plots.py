"""RailS's Figures 7 to 13 as pictures, panel by panel, from finished runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lightloom.rails.plots import STYLES, draw_cdf, draw_loads
from lightloom.rails.runs import BASELINE, Comparison
from lightloom.report.plots import STYLE

if TYPE_CHECKING:
    from lightloom.papers.rails.compared import Reproduced


def draw(number: int, made: Reproduced) -> Figure:
    """Draw one figure; its workloads must all have run."""
    from lightloom.papers.rails.compared import FIGURES

    parts = [made.parts[name] for name in FIGURES[number]]
    with rc_context(STYLE):
        if number in (7, 8, 9):
            figure = Figure((14.5, 3.3))
            figure.set_layout_engine("constrained")
            panel = {7: _bandwidths, 8: _cdf, 9: _times}[number]
            for at, (axes, part) in enumerate(
                zip(figure.subplots(1, len(parts)), parts, strict=True)
            ):
                panel(axes, part, at == 0)
                axes.set_title(str(part.job.workload))
            if number == 8:
                handles, labels = figure.axes[0].get_legend_handles_labels()
                figure.legend(handles, labels, loc="outside upper center", ncols=len(labels))
        elif number in (10, 11):
            figure = _skewed(parts[0])
        else:
            figure = _phases(made, parts)
    return figure


def _bandwidths(axes: Axes, part: Comparison, first: bool) -> None:
    base = next(row for row in part.rows if row.scheme == BASELINE).bus_bandwidth_gbps
    for x, row in enumerate(part.rows):
        gain = row.bus_bandwidth_gbps / base
        axes.bar(x, gain, color=STYLES[row.scheme][0], width=0.72)
        axes.text(x, gain, f"{gain:.2f}", ha="center", va="bottom", fontsize=8)
    axes.set_xticks(range(len(part.rows)), [row.scheme for row in part.rows], fontsize=8)
    axes.tick_params(length=0)
    axes.grid(axis="y")
    axes.margins(y=0.12)
    if first:
        axes.set_ylabel("bus bandwidth over ECMP's")


def _cdf(axes: Axes, part: Comparison, first: bool) -> None:
    draw_cdf(axes, part.schemes, legend=False)
    axes.set_xlabel("completion time over RailS's", fontsize=8.5)
    if not first:
        axes.set_ylabel("")


def _times(axes: Axes, part: Comparison, first: bool) -> None:
    unit = next(row for row in part.rows if row.scheme == "rails").cct_p99_s
    width = 0.8 / len(part.rows)
    for at, row in enumerate(part.rows):
        values = (row.cct_mean_s, row.cct_p80_s, row.cct_p95_s, row.cct_p99_s)
        axes.bar(np.arange(4) + (at - (len(part.rows) - 1) / 2) * width,
                 [value / unit for value in values], width * 0.92,
                 color=STYLES[row.scheme][0], label=row.scheme)  # fmt: skip
    axes.set_xticks(range(4), ["mean", "p80", "p95", "p99"])
    axes.tick_params(length=0)
    axes.grid(axis="y")
    if first:
        axes.set_ylabel("completion time over RailS's p99")
        axes.margins(y=0.42)
        axes.legend(loc="upper left", fontsize=8, ncols=2, columnspacing=1)


def _skewed(part: Comparison) -> Figure:
    figure = Figure((11.5, 7.6))
    figure.set_layout_engine("constrained")
    halves: Any = figure.subfigures(2, 1, height_ratios=(1, 1.15))
    left, right = halves[0].subplots(1, 2)
    _bandwidths(left, part, True)
    left.set_title("(a) bus bandwidth")
    draw_cdf(right, part.schemes)
    right.set_title("(d) completion times")
    for side, title, place in zip(
        ("sender", "receiver"), ("(b) bytes sent", "(c) bytes received"),
        halves[1].subfigures(1, 2), strict=True,
    ):  # fmt: skip
        grid = place.subplots(1, len(part.schemes), squeeze=False)[0]
        draw_loads(grid, part.schemes, side)
        place.suptitle(title, x=0.02, ha="left", fontsize=11, fontweight="bold")
    return figure


def _phases(made: Reproduced, parts: list[Comparison]) -> Figure:
    figure = Figure((10.5, 3.8))
    figure.set_layout_engine("constrained")
    left, right = figure.subplots(1, 2)
    names = [part.job.workload.phase for part in parts]
    schemes = [row.scheme for row in parts[0].rows]
    width = 0.8 / len(schemes)
    for at, scheme in enumerate(schemes):
        x = np.arange(len(parts)) + (at - (len(schemes) - 1) / 2) * width
        times = [{row.scheme: row.completion_s for row in part.rows} for part in parts]
        left.bar(x, [1e3 * t[scheme] for t in times], width * 0.92,
                 color=STYLES[scheme][0], label=scheme)  # fmt: skip
        seconds = [made.iterations[str(part.job.workload)][scheme] for part in parts]
        right.bar(x, seconds, width * 0.92, color=STYLES[scheme][0])
    for axes, what in ((left, "all-to-all [ms]"), (right, "iteration [s]")):
        axes.set_xticks(range(len(parts)), names)
        axes.tick_params(length=0)
        axes.grid(axis="y")
        axes.set_ylabel(what)
    left.set_title("(a) all-to-all")
    right.set_title("(b) iteration")
    figure.legend(loc="outside upper center", ncols=len(schemes))
    return figure
