"""The pictures of a Result, as matplotlib figures for a notebook or a paper.

Each is a function of a Result and returns a `Figure` that belongs to the caller; none touches
pyplot's state or its style. Bars add up to the iteration exactly, as the table's columns do.
"""

from __future__ import annotations

import math

import numpy as np
import pyarrow.compute as pc
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from lightloom.errors import InputError
from lightloom.report.result import Result, network_usd
from lightloom.style.figures import categories, label_points, legend, page, pairs
from lightloom.style.palette import CAUSES, INK, MUTED, PAPER, fabric_looks


def bars(result: Result) -> Figure:
    """Plot the iteration time [s] of each run, split by cause; one panel a bandwidth.

    With several draws a bar is the first; whiskers are the 5th to the 95th percentile of all, with
    the median.
    """
    rows = result.rows
    rates = list(dict.fromkeys(row["bandwidth_gbps"] for row in rows))
    tallest = max(sum(row["bandwidth_gbps"] == rate for row in rows) for rate in rates)
    columns = min(4, len(rates))
    lines = -(-len(rates) // columns)
    with page(max(5.5, 1.6 + 2.3 * columns), 1.5 + lines * (0.55 + 0.34 * tallest)) as figure:
        grid = figure.subplots(lines, columns, sharex=True, squeeze=False)
        longest = max(max(row["iteration_s"], row.get("iteration_s_high") or 0) for row in rows)
        longest = longest or 1.0
        decimals = max(0, 2 - math.floor(math.log10(longest)))
        for place, rate in enumerate(rates):
            axes = grid[place // columns][place % columns]
            some = [row for row in rows if row["bandwidth_gbps"] == rate]
            left = np.zeros(len(some))
            for cause in CAUSES:
                width = np.array([row[cause.column] for row in some])
                axes.barh(range(len(some)), width, left=left, color=cause.light, height=0.72,
                          edgecolor=PAPER, linewidth=0.6)  # fmt: skip
                left += width
            for y, row in enumerate(some):
                text = f"{row['iteration_s']:.{decimals}f}"
                right = max(row["iteration_s"], row.get("iteration_s_high") or 0)
                axes.text(right + longest * 0.015, y, text, va="center", fontsize=8.5)
                if "iteration_s_median" in row:
                    _whisker(axes, y, *(row[f"iteration_s_{p}"] for p in ("low", "median", "high")))
            first = place % columns == 0
            categories(axes, [row["fabric"] if first else "" for row in some])
            for label in axes.get_yticklabels():
                label.set_parse_math(False)
            axes.set_xlim(0, longest * 1.14)
            axes.set_ylim(tallest - 0.4, -0.6)
            axes.set_title(f"{rate:g} Gbps")
        for place in range(len(rates), lines * columns):
            grid[place // columns][place % columns].set_visible(False)
        figure.supxlabel("iteration time [s]", fontsize=9.5)
        legend(figure, [Patch(color=cause.light, label=cause.label) for cause in CAUSES])
    return figure


def _whisker(axes: Axes, y: float, low: float, middle: float, high: float) -> None:
    """Draw the interval of several draws over the bar of the first, with their median."""
    axes.plot([low, high], [y, y], color=INK, linewidth=1.1)
    for x, half in ((low, 0.14), (high, 0.14), (middle, 0.28)):
        axes.plot([x, x], [y - half, y + half], color=INK, linewidth=1.1)


def pareto(result: Result) -> Figure:
    """Plot iteration time [s] against network cost [million US dollars], with the Pareto front.

    Runs without a price are left out.
    """
    rows = [
        {**row, "cost_usd": usd} for row in result.rows if (usd := network_usd(row)) is not None
    ]
    looks = fabric_looks(row["fabric"] for row in rows)
    with page(7.2, 4.6) as figure:
        axes = figure.subplots()
        steps = sorted((row["cost_usd"] / 1e6, row["iteration_s"]) for row in rows if row["pareto"])
        if steps:
            x, y = zip(*steps, strict=True)
            axes.step(x, y, where="post", color=INK, linewidth=1.2, alpha=0.55, zorder=1)
        for name, (color, _, marker, _dash) in looks.items():
            some = sorted((r for r in rows if r["fabric"] == name), key=lambda r: r["cost_usd"])
            cost = [row["cost_usd"] / 1e6 for row in some]
            time = [row["iteration_s"] for row in some]
            size = 110 if marker == "*" else 44
            axes.plot(cost, time, color=color, linewidth=0.8, alpha=0.35, zorder=1)
            for c, t, row in zip(cost, time, some, strict=True):
                # Hollow marks are larger and on top: they ring what they fall together with.
                front = bool(row["pareto"])
                axes.scatter(c, t, s=size * (1 if front else 1.6), marker=marker, linewidth=1.4,
                             facecolor=color if front else "none", edgecolor=color,
                             zorder=3 if front else 4)  # fmt: skip
            axes.scatter(
                [], [], s=size, marker=marker, facecolor=color, edgecolor=color, label=name
            )
        axes.set_xlabel("network cost [million US dollars]")
        axes.set_ylabel("iteration time [s]")
        axes.margins(0.08)
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.grid()
        axes.set_title("filled: on the Pareto front; numbers: link rate [Gbps]", fontsize=9,
                       fontweight="normal", color=MUTED)  # fmt: skip
        legend(figure, axes)
        label_points(
            axes,
            [(row["cost_usd"] / 1e6, row["iteration_s"]) for row in rows],
            [f"{row['bandwidth_gbps']:g}" for row in rows],
        )
    return figure


def heatmap(
    result: Result, run: str | None = None, layer: int | None = None, micro_batch: int | None = None
) -> Figure:
    """Plot the bytes between a region's servers in one all-to-all, beside its circuits.

    The diagonal is empty: what a server's GPUs send each other stays on its scale-up network.

    Parameters
    ----------
    run, layer, micro_batch
        Which all-to-all; by default the first recorded one with circuits.

    Raises
    ------
    InputError
        If no such all-to-all is recorded.
    """
    demand = result.demand
    if run is None:
        joined = demand.filter(pc.greater(demand["circuits"], 0))
        recorded = set(pc.unique((joined if joined.num_rows else demand)["run"]).to_pylist())
        run = next((name for name in result.by_interest if name in recorded), None)
    if run is not None:
        demand = result.of_run(demand, run)
    wanted = {"run": run, "layer": layer, "micro_batch": micro_batch}
    for column in ("layer", "micro_batch"):
        if wanted[column] is not None:
            demand = demand.filter(pc.equal(demand[column], wanted[column]))
    if not demand.num_rows:
        asked = ", ".join(f"{key} {value}" for key, value in wanted.items() if value is not None)
        raise InputError(f"{result.place}: no demand recorded" + (f" of {asked}" * bool(asked)))
    key = {c: demand[c][0].as_py() for c in ("run", "replica", "stage", "layer", "micro_batch")}
    table = result.demand
    for column, value in key.items():
        table = table.filter(pc.equal(table[column], value))
    source, destination, size, circuits = (
        table[c].to_numpy() for c in ("source", "destination", "bytes", "circuits")
    )
    servers = np.unique(np.concatenate([source, destination]))
    at = np.searchsorted(servers, source), np.searchsorted(servers, destination)
    matrix = np.zeros((2, len(servers), len(servers)))
    matrix[0][at] = size / 2**20
    matrix[1][at] = circuits
    name = f"{key['run']}: layer {key['layer']}, micro-batch {key['micro_batch']}, "
    with page(9.2, 4.4, f"{name}stage {key['stage']}") as figure:
        left, right = figure.subplots(1, 2)
        pairs(left, matrix[0], list(servers), "demand between servers [MiB]", "{:,.0f}")
        pairs(right, matrix[1], list(servers), "circuits [count]", "{:.0f}", gradual=False)
    return figure
