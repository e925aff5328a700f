"""Figure 26: Mixtral 8x7B at 400 Gbps on 128 to 4,096 servers, up to 32,768 GPUs.

Modelled: a full iteration of every replica, none scaled up from another. What a simulation costs
stands beside what it says: CPU seconds and the most memory held, each run in a process of its own.
"""

from __future__ import annotations

import math
from functools import partial

from lightloom.papers.mixnet.jobs import run, some
from lightloom.papers.part import Context, Line, Part, Picture, Rows
from lightloom.papers.runs import Run

NUMBER = 26
TITLE = "Scalability"
MODEL, GBPS = "mixtral-8x7b", 400
SERVERS = (128, 256, 512, 1024, 2048, 4096)
FABRICS = ("fat-tree", "rail-optimized", "mixnet")


def _run(fabric: str, servers: int) -> Run:
    return run(fabric, MODEL, GBPS, gpus=8 * servers)


def parts() -> tuple[Part, ...]:
    """Return a piece a cluster size."""
    return tuple(
        Part(
            f"figure 26 {servers} servers",
            partial(_rows, servers),
            runs=tuple(_run(fabric, servers) for fabric in FABRICS),
        )
        for servers in SERVERS
    )


def _rows(servers: int, context: Context) -> Rows:
    rows: Rows = []
    for fabric in FABRICS:
        ran = context.outcomes[_run(fabric, servers)]
        assert ran.cost_usd is not None, "Table 4 has prices at 400 Gbps"
        rows.append(
            {
                "servers": servers,
                "fabric": fabric,
                "iteration_s": ran.iteration_s,
                "tokens_per_s": ran.tokens_per_s,
                "cost_usd": ran.cost_usd,
                "tokens_per_s_per_usd": ran.tokens_per_s / ran.cost_usd,
                "cpu_s": ran.cpu_s,
                "cpu_ms_per_gpu": round(1000 * ran.cpu_s / (8 * servers), 3),
                "peak_gib": round(ran.peak_bytes / 2**30, 2),
            }
        )
    return rows


def lines(rows: Rows) -> list[Line]:
    """Return throughput and value over its rivals', and what the simulations cost."""
    made = []
    for rival in FABRICS[:2]:
        pace, value = ([], [])  # type: tuple[list[float], list[float]]
        for servers in SERVERS:
            mine = {row["fabric"]: row for row in some(rows, servers=servers)}
            ours, theirs = mine["mixnet"], mine[rival]
            pace.append(ours["tokens_per_s"] / theirs["tokens_per_s"])
            value.append(ours["tokens_per_s_per_usd"] / theirs["tokens_per_s_per_usd"])
        made += [
            Line(26, "128 to 4,096 servers", f"tokens a second over {rival}", "comparable",
                 f"{min(pace):.2f} to {max(pace):.2f}"),
            Line(26, "128 to 4,096 servers", f"tokens a second and dollar over {rival}",
                 "about 2", f"{min(value):.2f} to {max(value):.2f}"),
        ]  # fmt: skip
    for fabric in FABRICS:
        first, last = (
            some(rows, servers=n, fabric=fabric)[0]["cpu_s"] for n in (SERVERS[0], SERVERS[-1])
        )
        power = math.log(last / first) / math.log(SERVERS[-1] / SERVERS[0])
        made.append(
            Line(26, f"{fabric}, to simulate", "CPU time grows as GPUs to the power", "",
                 f"{power:.2f}")
        )  # fmt: skip
    for servers in SERVERS:
        for row in some(rows, servers=servers):
            made.append(
                Line(26, f"{servers:,} servers, {row['fabric']}", "to simulate", "",
                     f"{row['cpu_s']:.0f} CPU s, {row['cpu_ms_per_gpu']:.2f} ms a GPU, "
                     f"{row['peak_gib']:.2f} GiB")
            )  # fmt: skip
    return made


def draw(rows: Rows) -> Picture:
    """Draw throughput, value, and what the simulations cost."""
    from lightloom.papers.mixnet.plots import curves, legend_below
    from lightloom.style.figures import page

    panels = (
        ("a: throughput", "tokens_per_s", "million tokens a second", 1e6),
        ("b: throughput over cost", "tokens_per_s_per_usd", "tokens a second and dollar", 1.0),
        ("what a run costs", "cpu_ms_per_gpu", "CPU time a GPU [ms]", 1.0),
    )
    with page(13, 4.6, f"Figure {NUMBER}: {TITLE}, {MODEL}, {GBPS} Gbps") as figure:
        grid = figure.subplots(1, len(panels))
        for axes, (title, column, label, unit) in zip(grid, panels, strict=True):
            curves(
                axes,
                {fabric: [(row["servers"], row[column] / unit)
                          for row in some(rows, fabric=fabric)] for fabric in FABRICS},
            )  # fmt: skip
            axes.set_title(title)
            axes.set_xlabel("servers of 8 GPUs")
            axes.set_ylabel(label)
            if column == "tokens_per_s":
                axes.set_yscale("log")
            else:
                axes.set_ylim(bottom=0)
        legend_below(figure, grid[0])
    return figure
