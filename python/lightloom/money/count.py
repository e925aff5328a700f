"""Count what a job's cluster is bought and run for.

Modelled: servers with their GPUs; NICs, transceivers, copper, fibre by links; whole chassis of
packet switches and whole optical switches; patch panels by ports; the energy of all of them over
the years. Ignored: racks, labour, spares, storage, networks of storage and management, discounts,
interest. Checked: bills of five fabrics by hand (docs/money.md), linear in prices, energy linear in
years, parts that add up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from lightloom.money.lines import MoneyLine, Part, Quote, quote
from lightloom.money.network import network
from lightloom.scenario import Scenario

HOURS = 24 * 365.25


@dataclass(frozen=True, slots=True)
class Money:
    """What a cluster is bought and run for; a sum with a missing price is None."""

    lines: tuple[MoneyLine, ...]
    years: float
    kwh: Quote
    pue: float

    @property
    def network_usd(self) -> float | None:
        """The price of the network [US dollars]."""
        return self._usd("network")

    @property
    def servers_usd(self) -> float | None:
        """The price of the servers with their GPUs [US dollars]."""
        return self._usd("servers")

    @property
    def watts(self) -> float | None:
        """What everything draws, without the building [W]; None if nobody says what servers draw.

        Of what else is missing, `missing` names it, and this is at least what is drawn.
        """
        drawn = [(line.part, line.total_watts) for line in self.lines]
        if any(watts is None for part, watts in drawn if part == "servers"):
            return None
        return sum(watts or 0.0 for _, watts in drawn)

    @property
    def energy_usd(self) -> float | None:
        """What the energy of all years costs, the building's included [US dollars]; see `watts`."""
        if self.watts is None or self.kwh.value is None:
            return None
        return self.watts / 1e3 * self.pue * HOURS * self.years * self.kwh.value

    @property
    def cluster_usd(self) -> float | None:
        """Servers, network and energy [US dollars]."""
        return _sum((self.servers_usd, self.network_usd, self.energy_usd))

    @property
    def missing(self) -> tuple[str, ...]:
        """The figures that the lists do not have, such as "price of server h800"."""
        found = [f"price of {line.name}" for line in self.lines if line.unit_usd is None]
        found += [f"watts of {line.name}" for line in self.lines if line.watts is None]
        if self.kwh.value is None:
            found.append("price of a kWh")
        return tuple(dict.fromkeys(found))

    def as_json(self) -> dict[str, Any]:
        """Return sums, lines and what is missing, as JSON has them."""
        return {
            "servers_usd": self.servers_usd,
            "network_usd": self.network_usd,
            "energy_usd": self.energy_usd,
            "cluster_usd": self.cluster_usd,
            "watts": self.watts,
            "years": self.years,
            "missing": list(self.missing),
            "lines": [line.as_row() for line in self.lines],
        }

    def _usd(self, part: Part) -> float | None:
        return _sum(line.total_usd for line in self.lines if line.part == part)


def money_of(job: Scenario) -> Money:
    """Count what a job's cluster is bought and run for.

    Raises
    ------
    InputError
        If the fabric cannot be built; the message names the key. A missing price is no error.

    Examples
    --------
    >>> money = money_of(Scenario.preset("mixtral-8x7b", gpus=128))
    >>> [(line.item, line.count) for line in money.lines][:2]
    [('server', 16), ('NIC', 128)]
    """
    lines = [_servers(job), *network(job)]
    own = job.money
    kwh = quote(own.kwh_usd, own.kwh_usd_source, own.kwh_usd_date)
    return Money(tuple(lines), own.years, kwh, own.pue)


def usd_per_trillion_tokens(money: Money, tokens_per_s: float | None) -> float | None:
    """Return what 10^12 tokens cost on a cluster that runs for all its years [US dollars].

    None if a price is missing or nothing is computed.
    """
    if money.cluster_usd is None or not tokens_per_s:
        return None
    return money.cluster_usd / (tokens_per_s * money.years * HOURS * 3600) * 1e12


def _servers(job: Scenario) -> MoneyLine:
    gpu, size = job.compute.gpu, job.cluster.gpus_per_server
    listed = job.money.server.get(gpu)
    if listed is None:
        return MoneyLine("servers", "server", gpu, job.servers, Quote(), Quote())
    share = math.ceil(size / listed.gpus) if listed.whole else size / listed.gpus
    usd = None if listed.usd is None else listed.usd * share
    watts = None if listed.watts is None else listed.watts * share
    return MoneyLine(
        "servers", "server", gpu, job.servers,
        quote(usd, listed.usd_source, listed.usd_date),
        quote(watts, listed.watts_source, listed.watts_date),
    )  # fmt: skip


def _sum(values: Iterable[float | None]) -> float | None:
    found = 0.0
    for value in values:
        if value is None:
            return None
        found += value
    return found
