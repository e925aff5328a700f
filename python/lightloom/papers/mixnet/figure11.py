"""Figure 11: what the network costs, over cluster sizes and link rates.

Modelled: links in use on three tiers and MixNet Table 4's prices, fibre left out. TopoOpt's panel
is flat as in the paper; what it costs on panels that exist, in tiers, stands beside it.
"""

from __future__ import annotations

from lightloom.cost import FABRICS
from lightloom.papers.part import Context, Line, Part, Picture, Rows
from lightloom.papers.runs import price
from lightloom.scenario import Scenario

NUMBER = 11
TITLE = "Networking cost"
SERVERS = (128, 256, 512, 1024, 2048, 4096)
RATES = (100, 200, 400, 800)
NETWORKS = (*FABRICS, "topoopt in tiers")


def parts() -> tuple[Part, ...]:
    """Return the one piece that it is made of."""
    return (Part("figure 11", _rows, settings={"servers": SERVERS, "rates": RATES}),)


def _rows(context: Context) -> Rows:
    rows: Rows = []
    for at, servers in enumerate(SERVERS):
        for name in NETWORKS:
            fabric, *tiers = name.split(" in ")
            panel = {"fabric.panel": "multi-tier"} if tiers else {}
            for gbps in RATES:
                job = Scenario.preset("mixtral-8x7b", gpus=8 * servers, fabric=fabric,
                                      bandwidth=f"{gbps} Gbps", **panel)  # fmt: skip
                rows.append({"servers": servers, "fabric": name, "gbps": gbps,
                             "usd": price(job)})  # fmt: skip
        context.progress((at + 1) / len(SERVERS))
    return rows


def lines(rows: Rows) -> list[Line]:
    """Return the ratios that the paper names."""
    usd = {(row["servers"], row["fabric"], row["gbps"]): row["usd"] for row in rows}

    def ratio(servers: int, gbps: int, fabric: str = "fat-tree") -> float:
        return float(usd[servers, fabric, gbps] / usd[servers, "mixnet", gbps])

    ratios = [ratio(servers, gbps) for servers in SERVERS for gbps in RATES]
    at_400 = [ratio(servers, 400) for servers in SERVERS]
    rails = [ratio(servers, gbps, "rail-optimized") for servers in SERVERS for gbps in RATES]
    mixnet = usd[128, "mixnet", 400]
    return [
        Line(11, "all sizes and rates", "fat-tree over MixNet, mean", "2.0",
             f"{sum(ratios) / len(ratios):.2f}"),
        Line(11, "400 Gbps, all sizes", "fat-tree over MixNet, mean", "2.3",
             f"{sum(at_400) / len(at_400):.2f}"),
        Line(11, "all sizes and rates", "rail-optimized over MixNet, mean", "2.0",
             f"{sum(rails) / len(rails):.2f}"),
        Line(11, "128 servers, 400 Gbps", "TopoOpt (flat panel) over MixNet",
             "slightly below 1", f"{usd[128, 'topoopt', 400] / mixnet:.2f}"),
        Line(11, "128 servers, 400 Gbps", "TopoOpt in tiers over MixNet", "",
             f"{usd[128, 'topoopt in tiers', 400] / mixnet:.2f}"),
    ]  # fmt: skip


def draw(rows: Rows) -> Picture:
    """Draw a panel a rate."""
    from lightloom.papers.mixnet.plots import curves, legend_below
    from lightloom.style.figures import page

    with page(13, 4.4, f"Figure {NUMBER}: {TITLE} (rail-optimized: as fat-tree)") as figure:
        grid = figure.subplots(1, len(RATES))
        for axes, gbps in zip(grid, RATES, strict=True):
            points: dict[str, list[tuple[float, float]]] = {}
            for row in rows:
                if row["gbps"] == gbps:
                    points.setdefault(row["fabric"], []).append((row["servers"], row["usd"] / 1e6))
            curves(axes, points)
            axes.set_yscale("log")
            axes.set_title(f"{gbps} Gbps")
            axes.set_xlabel("servers of 8 GPUs")
            axes.tick_params(axis="x", labelsize=8)
        grid[0].set_ylabel("network cost [million US dollars]")
        legend_below(figure, grid[0])
    return figure
