"""What the pictures of RailS's figures share: rows of panels, uneven loads, a training by phase."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lightloom.papers.plots import page
from lightloom.papers.rails.compared import Rows, by_scheme, by_workload
from lightloom.rails.plots import STYLES, draw_cdf, draw_loads
from lightloom.rails.runs import BASELINE
from lightloom.rails.workloads import Workload


@contextmanager
def side_by_side(rows: Rows) -> Iterator[tuple[Figure, list[tuple[Axes, Rows]]]]:
    """Yield a picture with a panel a workload, and each panel's axes and rows."""
    done = by_workload(rows)
    with page(14.5, 3.3) as figure:
        yield figure, list(zip(figure.subplots(1, len(done)), done.values(), strict=True))


def bandwidths(axes: Axes, rows: Rows, *, label: bool = True) -> None:
    """Draw each scheme's bus bandwidth over ECMP's."""
    base = by_scheme(rows)[BASELINE].bus_bandwidth_gbps
    for x, each in enumerate(rows):
        gain = each.row.bus_bandwidth_gbps / base
        axes.bar(x, gain, color=STYLES[each.row.scheme][0], width=0.72)
        axes.text(x, gain, f"{gain:.2f}", ha="center", va="bottom", fontsize=8)
    axes.set_xticks(range(len(rows)), [each.row.scheme for each in rows], fontsize=8)
    axes.tick_params(length=0)
    axes.grid(axis="y")
    axes.margins(y=0.12)
    if label:
        axes.set_ylabel("bus bandwidth over ECMP's")


def skewed(rows: Rows) -> Figure:
    """Draw one workload: bandwidth, completion times, bytes of NICs by domain and rail."""
    schemes = [each.scheme for each in rows]
    with page(11.5, 7.6) as figure:
        halves: Any = figure.subfigures(2, 1, height_ratios=(1, 1.15))
        left, right = halves[0].subplots(1, 2)
        bandwidths(left, rows)
        left.set_title("(a) bus bandwidth")
        draw_cdf(right, schemes)
        right.set_title("(d) completion times")
        for side, title, place in zip(
            ("sender", "receiver"), ("(b) bytes sent", "(c) bytes received"),
            halves[1].subfigures(1, 2), strict=True,
        ):  # fmt: skip
            grid = place.subplots(1, len(schemes), squeeze=False)[0]
            draw_loads(grid, schemes, side)
            place.suptitle(title, x=0.02, ha="left", fontsize=11, fontweight="bold")
    return figure


def phases(rows: Rows) -> Figure:
    """Draw all-to-alls and iterations, a bar a phase and scheme."""
    done = by_workload(rows)
    names = [Workload.parse(name).phase for name in done]
    schemes = list(by_scheme(next(iter(done.values()))))
    width = 0.8 / len(schemes)
    with page(10.5, 3.8) as figure:
        left, right = figure.subplots(1, 2)
        for at, scheme in enumerate(schemes):
            x = np.arange(len(done)) + (at - (len(schemes) - 1) / 2) * width
            mine = [each for each in rows if each.row.scheme == scheme]
            color = STYLES[scheme][0]
            left.bar(x, [1e3 * each.row.completion_s for each in mine], width * 0.92,
                     color=color, label=scheme)  # fmt: skip
            right.bar(x, [each.iteration_s for each in mine], width * 0.92, color=color)
        for axes, what in ((left, "all-to-all [ms]"), (right, "iteration [s]")):
            axes.set_xticks(range(len(done)), names)
            axes.tick_params(length=0)
            axes.grid(axis="y")
            axes.set_ylabel(what)
        left.set_title("(a) all-to-all")
        right.set_title("(b) iteration")
        figure.legend(loc="outside upper center", ncols=len(schemes))
    return figure
