"""Every price and watt of a job's lists, with who published it and when.

Checked: each of the shipped lists has a source and a date (tests), the page docs/money.md is this.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lightloom.cost import ITEMS
from lightloom.money.lines import Quote, quote
from lightloom.money.network import NAMES, unit
from lightloom.scenario import Scenario
from lightloom.sections import Chassis, Quoted, Server


@dataclass(frozen=True, slots=True)
class Entry:
    """A figure of a list: what it is of, its unit, and the figure, which may be missing."""

    of: str
    unit: str
    figure: Quote


def entries(job: Scenario) -> Iterator[Entry]:
    """Yield the figures of ``[prices]``, ``[power]`` and ``[money]``.

    Examples
    --------
    >>> found = {entry.of: entry for entry in entries(Scenario.preset("mixtral-8x7b"))}
    >>> found["server h100"].figure.value, found["server h100"].figure.date
    (10200.0, '2023')
    """
    own = job.money
    tables: tuple[tuple[str, dict[str, Server] | dict[str, Chassis] | dict[str, Quoted]], ...] = (
        ("server", own.server),
        ("chassis", own.chassis),
        ("optical switch", own.optical),
    )
    for item, table in tables:
        for name, one in table.items():
            more = f", {one.ports} x {one.rate}" if isinstance(one, Chassis) else ""
            of = f"{item} {name}{more}"
            # A chassis and an optical switch without a price cost their ports.
            if one.usd is not None or isinstance(one, Server):
                yield Entry(of, "$", quote(one.usd, one.usd_source, one.usd_date))
            yield Entry(of, "W", quote(one.watts, one.watts_source, one.watts_date))
    names = NAMES | {"switch_port": "switch port", "ocs_port": "optical switch port"}
    for item_ in ITEMS:
        for rate in sorted({*getattr(job.prices, item_), *getattr(job.power, item_)}):
            usd, watts = unit(job, item_, rate)
            if usd.value is not None:
                yield Entry(f"{names[item_]} {rate}", "$", usd)
            if rate in getattr(job.power, item_):
                yield Entry(f"{names[item_]} {rate}", "W", watts)
    fibre = quote(own.fibre_usd_m, own.fibre_usd_m_source, own.fibre_usd_m_date)
    yield Entry("fibre, a metre", "$", fibre)
    kwh = quote(own.kwh_usd, own.kwh_usd_source, own.kwh_usd_date)
    yield Entry("energy, a kWh", "$", kwh)
