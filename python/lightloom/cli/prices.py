"""Tables of ``lightloom cost``: what a buyer pays for each fabric; every price with its source."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lightloom.money import Money
    from lightloom.scenario import Scenario
    from lightloom.units import Rate


def show(job: Scenario, *, as_json: bool) -> None:
    """Print every price and watt of a job's lists, with source and date."""
    from lightloom import screen
    from lightloom.money.listed import entries
    from lightloom.screen import Column

    found = list(entries(job))
    if as_json:
        rows = [
            {
                "of": one.of, "unit": one.unit, "value": one.figure.value,
                "source": one.figure.source, "date": one.figure.date,
            }
            for one in found
        ]  # fmt: skip
        own = job.money
        more = {"years": own.years, "pue": own.pue, "fibre_length_m": own.fibre_length}
        print(json.dumps({"prices": rows, **more}, indent=2))
        return
    columns = (
        Column("of", name=True),
        Column("figure"),
        Column("date", left=True),
        Column("source", name=True),
    )
    table = [
        (
            one.of,
            "missing" if one.figure.value is None else f"{one.figure.value:,.10g} {one.unit}",
            one.figure.date or "-",
            one.figure.source or "-",
        )
        for one in found
    ]
    screen.print_table(columns, table, screen.console())


def print_money(jobs: Sequence[tuple[Rate, Scenario]], monies: Sequence[Money]) -> None:
    """Print what a buyer pays for each fabric at each rate, and what is missing."""
    from lightloom import screen
    from lightloom.screen import Column

    console = screen.console()
    first = monies[0]
    years = f"{first.years:g} year{'s' if first.years != 1 else ''}"
    console.print(
        f'\nas a buyer pays, prices "{jobs[0][1].money.name}": whole chassis, fibre, energy of '
        f"{years}"
    )
    columns = (
        Column("Gbps"),
        Column("fabric", name=True),
        Column("chassis"),
        Column("optical\nswitches", "optical\nsw.", rank=1),
        Column("fibres", rank=2),
        Column("network\nM$"),
        Column("servers\nM$", rank=3),
        Column("energy\nM$", rank=4),
        Column("cluster\nM$"),
        Column("kW", rank=5),
    )
    table: list[tuple[str, ...] | None] = []
    last = None
    for (rate, job), money in zip(jobs, monies, strict=True):
        if last not in (None, rate):
            table.append(None)
        counts = [
            sum(line.count for line in money.lines if line.item == item)
            for item in ("chassis", "optical switch", "fibre")
        ]
        sums = (money.network_usd, money.servers_usd, money.energy_usd, money.cluster_usd)
        table.append(
            (
                "" if rate == last else f"{rate.gbps:g}",
                job.fabric.name,
                *(f"{count:,}" if count else "-" for count in counts),
                *("-" if usd is None else f"{usd / 1e6:.3f}" for usd in sums),
                "-" if money.watts is None else f"{money.watts / 1e3:,.1f}",
            )
        )
        last = rate
    screen.print_table(columns, table, console)
    missing: dict[str, list[str]] = {}
    for (_, job), money in zip(jobs, monies, strict=True):
        for name in money.missing:
            missing.setdefault(name, []).append(job.fabric.name)
    said = [f"{name} ({', '.join(dict.fromkeys(of))})" for name, of in missing.items()]
    if said:
        console.print(
            f"missing: {'; '.join(said)}; a sum with a missing price is -, energy is without "
            "missing watts",
            style="dim",
        )
