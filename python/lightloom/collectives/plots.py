"""The pictures of a `CollectiveResult`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc
from matplotlib.figure import Figure

from lightloom.errors import InputError
from lightloom.style.figures import categories, legend, page, pairs, title
from lightloom.style.palette import BLUE, MUTED
from lightloom.units import Size

if TYPE_CHECKING:
    from lightloom.collectives.result import CollectiveResult

_LINKS = 24


def bandwidth(result: CollectiveResult) -> Figure:
    """Plot bus bandwidth [GB/s] over size, and what the bound would allow."""
    rows = sorted(result.rows, key=lambda row: row["size_bytes"])
    sizes = [row["size_bytes"] for row in rows]
    with page(6.4, 3.8) as figure:
        axes = figure.subplots()
        bound = [row["busbw_gb_s"] / (row["of_bound"] or np.nan) for row in rows]
        names = dict.fromkeys(row["algorithm"] for row in rows)
        axes.plot(sizes, bound, color=MUTED, linestyle=(0, (4, 3)), label="bound")
        axes.plot(sizes, [row["busbw_gb_s"] for row in rows], color=BLUE[0], marker="o",
                  markersize=4, label=" / ".join(names))  # fmt: skip
        if len(sizes) > 1:
            axes.set_xscale("log", base=2)
        ticks = sizes if len(sizes) <= 6 else sizes[:: -(-len(sizes) // 6)]
        axes.set_xticks(ticks, [str(Size(size)) for size in ticks])
        axes.minorticks_off()
        axes.set_ylim(bottom=0)
        axes.set_xlabel("size of a rank's buffer")
        axes.set_ylabel("bus bandwidth [GB/s]")
        title(axes, result.title)
        axes.grid()
        legend(figure, axes)
    return figure


def heatmap(result: CollectiveResult, size: int | None = None) -> Figure:
    """Plot bytes between servers, if an all-to-all was sent, and the fullest links."""
    at = result.rows[-1]["size_bytes"] if size is None else int(size)
    if at not in result.info["sizes"]:
        known = ", ".join(map(str, result.info["sizes"]))
        raise InputError(f"size {at}: was not run; allowed: {known}")
    demand, busiest = (
        table.filter(pc.equal(table["size_bytes"], at))
        for table in (result.tables["demand"], result.tables["busiest"])
    )
    with page(9.6 if demand.num_rows else 5.4, 4.2) as figure:
        if demand.num_rows:
            left, right = figure.subplots(1, 2, width_ratios=(1.1, 1))
            ends = [demand[key].to_numpy() for key in ("source", "destination")]
            servers = int(max(end.max() for end in ends)) + 1
            matrix = np.zeros((servers, servers))
            np.add.at(matrix, tuple(ends), demand["bytes"].to_numpy() / 2**20)
            image = pairs(left, matrix, range(servers), "demand between servers", "{:,.3g}")
            figure.colorbar(image, ax=left, label="sent [MiB]", shrink=0.8)
        else:
            right = figure.subplots()
        links = busiest.slice(0, _LINKS).to_pylist()
        used = [100 * link["utilization"] for link in links]
        right.barh(range(len(links)), used, color=BLUE[0], height=0.7)
        names = [f"{link['from']} > {link['to']}" for link in links]
        categories(right, names)
        right.tick_params(axis="y", labelsize=6.5)
        right.set_xlim(0, 100)
        right.set_xlabel("used of the link's rate [%]")
        right.set_title("fullest links")
    return figure
