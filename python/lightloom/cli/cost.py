"""``lightloom cost``: what each fabric's cluster is bought as, what it draws, and what that costs.

The first table is the papers' count of the network, by ports in use; the second is a buyer's:
servers, whole chassis, fibre, energy over the years. ``--prices`` lists every price and watt with
its source and date.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import typer

from lightloom.cli import words

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lightloom.cost import CostRow
    from lightloom.layers import Origin
    from lightloom.units import Rate

app = typer.Typer()


@app.command()
def cost(
    job: str = typer.Argument(
        "mixtral-8x7b",
        metavar="MODEL",
        help="A model preset, a specification (TOML) or a config.json.",
    ),
    gpus: int | None = words.GPUS,
    bandwidth: str | None = words.BANDWIDTH,
    fabrics: str | None = words.FABRICS,
    settings: list[str] = words.SETTINGS,
    prices: bool = typer.Option(
        False, "--prices", help="List the prices and watts of the job instead, with their sources."
    ),
    as_json: bool = words.JSON,
) -> None:
    """Count and price the network and the cluster of each fabric.

    First as papers count: ports in use, without fibre. Then as a buyer pays: servers, whole
    chassis, optics, fibre, and energy over the years (docs/money.md). Ratios are fat-tree / fabric
    at the same rate.

    Example: lightloom cost --gpus 1024 --fabrics fat-tree,mixnet

    Example, to list prices, with their sources: lightloom cost --prices
    """
    from lightloom import cost as costs
    from lightloom.cli import options
    from lightloom.resolve import load_job

    overrides = options.settings(
        settings, gpus=gpus, fabrics=options.fabrics(fabrics),
        bandwidth=bandwidth and options.bandwidths(bandwidth),
    )  # fmt: skip
    resolved = load_job(job, overrides, override_label="command line")
    scenario = resolved.scenario
    if prices:
        from lightloom.cli import prices as listing

        listing.show(scenario, as_json=as_json)
        return
    chosen, rates = options.grid(scenario, overrides, fabrics, bandwidth)
    from lightloom.money import money_of

    rows = costs.cost_table(scenario, chosen, rates)
    monies = [money_of(row.scenario) for row in rows]
    if as_json:
        found = [
            _as_json(row, resolved.origins) | {"money": money.as_json()}
            for row, money in zip(rows, monies, strict=True)
        ]
        print(json.dumps({"rows": found}, indent=2))
    else:
        from lightloom.cli import prices as listing

        _print_table(rows)
        listing.print_money([(row.bandwidth, row.scenario) for row in rows], monies)


def _as_json(row: CostRow, origins: Mapping[str, Origin]) -> dict[str, Any]:
    def source(item: str, rate: Rate) -> str:
        origin = origins[f'prices.{item}."{rate}"']
        return origin.source or f"given: {origin.layer}"

    return {
        "fabric": row.scenario.fabric.name,
        "bandwidth_gbps": row.bandwidth.gbps,
        "gpus": row.scenario.cluster.gpus,
        "cost_usd": row.cost.total_usd,
        "fat_tree_over_this": row.fat_tree_over_this,
        "power_w": row.draw.watts,
        "power_without": list(row.draw.without),
        "bill": [
            {
                "item": line.item,
                "rate_gbps": line.rate.gbps,
                "count": line.count,
                "unit_usd": line.unit_usd,
                "total_usd": line.total_usd,
                "source": source(line.item, line.rate),
            }
            for line in row.cost.lines
        ],
    }


def _print_table(rows: list[CostRow]) -> None:
    from rich.text import Text

    from lightloom import screen
    from lightloom.cost import ITEMS
    from lightloom.screen import Column

    console = screen.console()
    cluster = rows[0].scenario.cluster
    console.print(
        f"{cluster.gpus} GPUs, {rows[0].scenario.servers} servers of {cluster.gpus_per_server}; "
        f'prices "{rows[0].scenario.prices.name}"; ports in use, no fibre'
    )
    counted = {line.item for row in rows for line in row.cost.lines}
    # What few fabrics have.
    rare = ("optical_io", "circulator", "copper_cable", "board_link")
    items = [item for item in ITEMS if item not in rare or item in counted]
    columns = [
        Column("Gbps"),
        Column("fabric", name=True),
        *(
            Column(
                _plural(item).replace(" ", "\n"),
                "trans-\nceivers" if item == "transceiver" else "",
                rank=len(items) - at,
            )
            for at, item in enumerate(items)
        ),
        Column("cost\nM$"),
        Column("fat-tree /\nthis", "fat-tree\n/ this"),
        Column("known\nkW", rank=len(items) + 1),
    ]
    table: list[list[Text] | None] = []
    last = None
    for row in rows:
        if last not in (None, row.bandwidth):
            table.append(None)
        counts = [sum(line.count for line in row.cost.lines if line.item == item) for item in items]
        ratio = row.fat_tree_over_this
        cells = (
            "" if row.bandwidth == last else f"{row.bandwidth.gbps:g}",
            row.scenario.fabric.name,
            *(f"{count:,}" if count else "-" for count in counts),
            f"{row.cost.total_usd / 1e6:.3f}",
            "-" if ratio is None else f"{ratio:.3f}",
            f"{row.draw.watts / 1e3:.1f}" if row.draw.watts else "-",
        )
        table.append([Text(cell, style="dim" if cell == "-" else "") for cell in cells])
        last = row.bandwidth
    screen.print_table(columns, table, console)
    known = {
        line.item for row in rows for line in row.cost.lines if line.item not in row.draw.without
    }
    names = ", ".join(_plural(item) for item in ITEMS if item in known) or "nothing"
    console.print(f"known kW counts {names}: no source gives watts for the rest", style="dim")
    if any(row.fat_tree_over_this is None for row in rows):
        console.print("fat-tree / this is not defined where this costs nothing", style="dim")


def _plural(item: str) -> str:
    names = {"nic": "NICs", "ocs_port": "OCS ports", "optical_io": "optical I/O"}
    return names.get(item, item.replace("_", " ") + "s")
