"""Figure 10: the prototype, 32 A100 GPUs in four servers, against packet switches alone.

Modelled: the models cut to as many layers as Appendix C says (7, 16, 12), without pipeline stages;
reconfiguration as measured there. The prototype's server has four NICs of 100 Gbps for eight GPUs,
three of them optical, NVLinks that join pairs of GPUs, and PCIe: the preset `mixnet-prototype`. For
comparison also servers whose GPUs share one scale-up network and have a NIC of 50 Gbps each, six of
them optical: the same rates between servers. All-to-alls travel as the paper has it, and on the
prototype's servers also as `auto` has it. Ignored: NICs that take seconds to wake, as the paper
does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lightloom.papers.mixnet.jobs import MAIN, TABLES, by_kind, gains, part, run, some
from lightloom.papers.part import Line, Part, Picture, Rows
from lightloom.papers.runs import Run

NUMBER = 10
TITLE = "Iteration time on the prototype of 32 GPUs"
LAYERS = {"mixtral-8x7b": 7, "llama-moe": 16, "qwen-moe": 12}
FABRICS = ("fat-tree", *MAIN)
HOST: Mapping[str, Any] = {"cluster.host.preset": "mixnet-prototype"}
# By what servers are: the rate of a NIC, what of the job changes, and how many NICs are optical.
SERVERS: Mapping[str, tuple[int, Mapping[str, Any], int]] = {
    "NVLink in pairs": (100, HOST, 3),
    "pairs, auto": (100, {**HOST, "fabric.carrier": "auto"}, 3),
    "one network": (50, {}, 6),
}


def _runs(model: str, table: str, servers: str) -> Mapping[tuple[str, int], Run]:
    gbps, host, optical = SERVERS[servers]
    changes: dict[str, Any] = {
        "model.layers": LAYERS[model],
        "parallelism.pp": 1,
        "compute.gpu": "a100",
        **host,
    }
    circuits = {"fabric.ocs.device": "polatis-measured", "fabric.optical_nics": optical}
    return {
        (fabric, gbps): run(
            fabric,
            model,
            gbps,
            changes=changes | (circuits if fabric.startswith("mixnet") else {}),
            gpus=32,
            table=table,
        )
        for fabric in FABRICS
    }


def parts() -> tuple[Part, ...]:
    """Return a piece a model and table of compute times."""
    return tuple(
        part(
            f"figure 10 {model} {table} {servers}",
            _runs(model, table, servers),
            model=model,
            table=table,
            servers=servers,
        )
        for servers in SERVERS
        for table in TABLES
        for model in LAYERS
    )


def lines(rows: Rows) -> list[Line]:
    """Return MixNet's speed over that of packet switches."""
    made = []
    for servers, (gbps, _, _) in SERVERS.items():
        for table in TABLES:
            for model, layers in LAYERS.items():
                mine = some(rows, model=model, table=table, servers=servers)
                speed = {
                    kind: f"{gains(mine, 'fat-tree', kind, rates=(gbps,))[0]:.2f}" for kind in MAIN
                }
                made.append(
                    Line(10, f"{model}, {layers} layers, {table}, {servers}",
                         "over packet NICs alone", "comparable", by_kind(speed))
                )  # fmt: skip
    return made


def draw(rows: Rows) -> Picture:
    """Draw a bar a model and fabric, split by cause."""
    from lightloom.papers.mixnet.plots import legend_below, stacked
    from lightloom.style.figures import page
    from lightloom.style.palette import CAUSES

    colors = {cause.label: cause.light for cause in CAUSES}
    with page(13, 8.4, f"Figure {NUMBER}: {TITLE}") as figure:
        grid = figure.subplots(len(TABLES), len(LAYERS), squeeze=False)
        for panels, table in zip(grid, TABLES, strict=True):
            for axes, model in zip(panels, LAYERS, strict=True):
                mine = some(rows, model=model, table=table)
                stacked(
                    axes,
                    [f"{'packets' if row['fabric'] == 'fat-tree' else row['fabric']}, "
                     f"{row['servers']}" for row in mine],
                    {cause.label: [row[cause.column] for row in mine] for cause in CAUSES},
                    colors,
                )  # fmt: skip
                axes.set_title(f"{model}, {table}", fontsize=10)
        for axes in grid[-1]:
            axes.set_xlabel("iteration [s]")
        legend_below(figure, grid[0][0])
    return figure
