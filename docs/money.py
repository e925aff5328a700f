"""Print or write the tables of docs/money.md: prices with sources, bills, what they rest on.

``python docs/money.py`` prints them, ``--write`` puts them in the page. Checked:
``tests/test_money.py``, which makes the tables anew and the bills by another way.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lightloom import Scenario
from lightloom.cost import FABRICS
from lightloom.money import money_of
from lightloom.money.listed import entries

PAGE = Path(__file__).with_suffix(".md")


def job(fabric: str, **more: Any) -> Scenario:
    """Return the job of the bills: 1,024 GPUs at 400 Gbps."""
    return Scenario.preset("mixtral-8x7b", gpus=1024, fabric=fabric, bandwidth=400, **more)


def of_prices() -> Iterator[tuple[str, ...]]:
    """Yield every price and watt in force unless told otherwise."""
    yield "of", "figure", "date", "source"
    for one in entries(job("mixnet")):
        value = one.figure.value
        figure = "missing" if value is None else f"{value:,.10g} {one.unit}"
        yield one.of, figure, one.figure.date or "-", one.figure.source or "-"


def of_bills() -> Iterator[tuple[str, ...]]:
    """Yield the lines of the five fabrics' bills."""
    yield "fabric", "item", "pieces", "each [$]", "all [$]", "each [W]"
    for fabric in FABRICS:
        for line in money_of(job(fabric)).lines:
            usd, watts = line.unit_usd, line.watts
            total = line.total_usd
            yield (
                fabric,
                line.name,
                f"{line.count:,}",
                "missing" if usd is None else f"{usd:,.10g}",
                "missing" if total is None else f"{total:,.0f}",
                "missing" if watts is None else f"{watts:,.10g}",
            )


def of_sums() -> Iterator[tuple[str, ...]]:
    """Yield the sums of the bills [M$]."""
    yield "fabric", "network", "servers", "energy of 4 years", "cluster", "kW"
    for fabric in FABRICS:
        money = money_of(job(fabric))
        sums = (money.network_usd, money.servers_usd, money.energy_usd, money.cluster_usd)
        assert money.watts is not None
        yield fabric, *(f"{(usd or 0) / 1e6:.3f}" for usd in sums), f"{money.watts / 1e3:,.1f}"


VARIANTS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "a chassis of its own for each switch": {"money.share_chassis": False},
    "the same, switches of 64 ports, two tiers": {
        "money.share_chassis": False, "fabric.radix": 64, "fabric.tiers": 2,
    },
    "chassis of 64 x 400 Gbps for 36,000 dollars": {
        "money.chassis.qm9700.usd": 36_000.0, "money.chassis.sn5600-400.usd": 72_000.0,
    },
    "servers for 310,000 dollars": {"money.server.h100.usd": 310_000.0},
    "fibre of 500 m": {"money.fibre_length": 500.0},
    "energy of 8 years": {"money.years": 8.0},
    "PUE 1.56": {"money.pue": 1.56},
}  # fmt: skip


def of_variants() -> Iterator[tuple[str, ...]]:
    """Yield what other assumptions make of network and cluster [M$]."""
    yield "", *FABRICS
    for name, changes in VARIANTS.items():
        cells = []
        for fabric in FABRICS:
            # The packet part of MixNet has keys of its own, and TopoOpt has none.
            table = {"mixnet": "fabric.eps", "topoopt": ""}.get(fabric, "fabric")
            given = {
                key.replace("fabric", table, 1): value
                for key, value in changes.items()
                if table or not key.startswith("fabric.")
            }
            money = money_of(job(fabric, **given))
            assert money.network_usd is not None and money.cluster_usd is not None
            cells.append(f"{money.network_usd / 1e6:.2f}, {money.cluster_usd / 1e6:.2f}")
        yield name, *cells


def text(rows: Iterator[tuple[str, ...]]) -> str:
    """Return a table in Markdown."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], f"|{' --- |' * (lines[0].count('|') - 1)}", *lines[1:]])


TABLES = {"prices": of_prices, "bills": of_bills, "sums": of_sums, "variants": of_variants}


def page() -> str:
    """Return the page with its tables made anew."""
    whole = PAGE.read_text(encoding="utf-8")
    for name, rows in TABLES.items():
        marks = f"<!-- {name}: begin -->\n", f"\n<!-- {name}: end -->"
        before, rest = whole.split(marks[0])
        whole = f"{before}{marks[0]}{text(rows())}{marks[1]}{rest.partition(marks[1])[2]}"
    return whole


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        print("\n\n".join(text(rows()) for rows in TABLES.values()))
