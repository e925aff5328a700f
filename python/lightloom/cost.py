"""What a network costs and draws: counted ports times prices, and times watts where known.

Modelled: the bill of materials that the compiled core counts from the links in use, one price per
item and rate. Ignored: fibre (MixNet counts it, Appendix D.2), racks, labour, running costs.
Checked: the ratios between fabrics that follow from MixNet Table 4, and totals against sums done by
hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from lightloom import _core, kinds, presets
from lightloom.arguments import names, rates
from lightloom.errors import InputError
from lightloom.fabrics import CARRIER, Every, can, compared, switches
from lightloom.scenario import Scenario, plain
from lightloom.sections import Power, Prices
from lightloom.units import Rate

Item = Literal[
    "nic",
    "transceiver",
    "switch_port",
    "ocs_port",
    "patch_port",
    "optical_io",
    "circulator",
    "copper_cable",
    "board_link",
]
ITEMS: tuple[Item, ...] = get_args(Item)
# What `lightloom cost` and `lightloom compare` put side by side.
FABRICS = compared()
BASELINE = "fat-tree"


@dataclass(frozen=True, slots=True)
class BillLine:
    """So many units of one item at one rate."""

    item: Item
    rate: Rate
    count: int


@dataclass(frozen=True, slots=True)
class PricedLine:
    """A line of a bill with its price [US dollars] and who published it."""

    item: Item
    rate: Rate
    count: int
    unit_usd: float
    source: str

    @property
    def total_usd(self) -> float:
        """The price of the whole line [US dollars]."""
        return self.count * self.unit_usd


@dataclass(frozen=True, slots=True)
class Cost:
    """A priced bill."""

    lines: tuple[PricedLine, ...]

    @property
    def total_usd(self) -> float:
        """The price of everything on the bill [US dollars]."""
        return sum(line.total_usd for line in self.lines)


@dataclass(frozen=True, slots=True)
class Draw:
    """The power of what a source gives watts for [W], and the items that have none."""

    watts: float
    without: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class CostRow:
    """One fabric at one rate, and how many times dearer the fat-tree of that rate is."""

    scenario: Scenario
    bandwidth: Rate
    cost: Cost
    draw: Draw
    fat_tree_over_this: float | None
    """None where this one costs nothing."""


def fabrics_of(job: Scenario) -> tuple[str, ...]:
    """Return what a job is compared on unless its user says: the usual ones, and its own fabric.

    Examples
    --------
    >>> fabrics_of(Scenario.preset("mixtral-8x7b", fabric="planes"))[-2:]
    ('mixnet', 'planes')
    """
    return tuple(dict.fromkeys((*FABRICS, job.fabric.name)))


def on_fabrics(
    job: Scenario, fabrics: Sequence[str], bandwidths: Sequence[Rate]
) -> Iterator[Scenario]:
    """Yield the job on each fabric at each rate, and on a graph of its own once, at its own rate.

    A fabric that the job has already keeps its settings; the others are presets. On one without
    rails, what deals to rails gives way to the balancer that the transport has unless told.

    Raises
    ------
    InputError
        If a fabric is neither a preset nor the job's own.
    """
    known = presets.names("fabrics")
    for name in fabrics:
        if name not in known and name != job.fabric.name:
            allowed = presets.unknown(name, known)
            raise InputError(f"{job.title}: fabric {name!r}: no such preset{allowed}")
    graph = isinstance(switches(job.fabric), tuple) and job.fabric.name in fabrics
    for rate in bandwidths:
        for name in fabrics:
            if name in known:
                yield _on_preset(job, name, rate)
            elif not graph:
                yield job.with_(fabric={"link_bandwidth": str(rate)})
            elif rate == link_rate(job):
                yield job
    if graph and link_rate(job) not in bandwidths:
        yield job


def _on_preset(job: Scenario, name: str, rate: Rate) -> Scenario:
    """Return the job on a preset; what it says of carriers holds there, unless the preset does."""
    preset = presets.load("fabrics", name)
    changes = {"preset": name, "link_bandwidth": str(rate)}
    if name != job.fabric.name and "carrier" not in preset.values["fabric"]:
        changes |= _asked(job)
    if needs_rails(job) and not can(preset.values["fabric"]["kind"], "rails"):
        transport = job.engine.transport.kind  # type: ignore[union-attr]
        # Its keys go too: a table takes the place of another.
        other = presets.load("transports", transport).values["engine"]["balancer"]
        found = job.with_(fabric=changes, **{"engine.balancer": other})
    else:
        found = job.with_(fabric=changes)
    if preset.same_bill is None or name == job.fabric.name:
        return found
    return _for_the_money(found, _on_preset(job, preset.same_bill, rate))


def needs_rails(job: Scenario) -> bool:
    """Whether the job's balancer deals all-to-alls to rails."""
    balancer = getattr(job.engine, "balancer", None)
    return balancer is not None and kinds.of("balancer", balancer.kind)["nics"] == "rails"


def _asked(job: Scenario) -> dict[str, Any]:
    """Return what the job's fabric says of carriers, if neither its preset nor a default does."""
    own = job.fabric.name
    known = presets.load("fabrics", own).values["fabric"] if own in presets.names("fabrics") else {}
    said = {key: getattr(job.fabric, key) for key in Every.model_fields}
    said = {key: value for key, value in said.items() if value is not None}
    by_itself = {"carrier": known.get("carrier", CARRIER[0])}
    return {} if said == by_itself else plain(said)


def _for_the_money(job: Scenario, other: Scenario) -> Scenario:
    """Over-subscribe a fabric as little as it takes to cost no more than another.

    Raises
    ------
    InputError
        If it costs more however over-subscribed.
    """
    most = cost_of(bill_of(other), job.prices).total_usd

    def at(share: float) -> Scenario:
        return job.with_(fabric={"oversubscription": 1 / share})

    def fits(share: float) -> bool:
        return cost_of(bill_of(at(share)), job.prices).total_usd <= most

    low, high = 1 / 1024, 1.0
    if fits(high):
        return at(high)
    if not fits(low):
        raise InputError(
            f"{job.title}: costs more than {other.fabric.name} however over-subscribed it is"
        )
    while high - low > 1e-4:
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return at(low)


def link_rate(job: Scenario) -> Rate:
    """Return the rate of the fabric's links.

    If they differ, of MixNet's circuits, but of its packet switches if GPUs have optical ports; of
    a graph, the highest.
    """
    fabric = job.fabric
    part = switches(fabric)
    if isinstance(part, tuple):
        return max((link.rate for link in part), default=Rate(0))
    if not getattr(fabric, "co_packaged", False):
        part = [fabric, *(getattr(fabric, name) for name in can(fabric.kind, "parts"))][-1]
    rate: Rate = part.link_bandwidth
    return rate


def cost_of(bill: Iterable[BillLine], prices: Prices) -> Cost:
    """Price a bill.

    Raises
    ------
    InputError
        If an item has no price at its rate.

    Examples
    --------
    >>> from lightloom.scenario import Scenario
    >>> prices = Scenario.preset("mixtral-8x7b").prices
    >>> gbps400 = Rate.parse("400 Gbps")
    >>> cost_of([BillLine("nic", gbps400, 8), BillLine("ocs_port", gbps400, 6)], prices).total_usd
    15112.0
    """
    lines = []
    for line in bill:
        at: Mapping[Rate, float] = getattr(prices, line.item)
        if line.rate not in at:
            known = ", ".join(str(rate) for rate in sorted(at)) or "none"
            raise InputError(
                f'prices.{line.item}."{line.rate}": no such price in "{prices.name}"; '
                f"it has {known}; give this one"
            )
        unit = at[line.rate]
        source = _source(prices, line.item, line.rate, unit)
        lines.append(PricedLine(line.item, line.rate, line.count, unit, source))
    return Cost(tuple(lines))


def power_of(bill: Iterable[BillLine], power: Power) -> Draw:
    """Add up the watts of a bill, and say which items no source gives watts for.

    Examples
    --------
    >>> from lightloom.scenario import Scenario
    >>> power = Scenario.preset("mixtral-8x7b").power
    >>> gbps400 = Rate.parse("400 Gbps")
    >>> power_of([BillLine("nic", gbps400, 8), BillLine("transceiver", gbps400, 48)], power)
    Draw(watts=432.0, without=('nic',))
    """
    watts, without = 0.0, set()
    for line in bill:
        each = getattr(power, line.item).get(line.rate)
        if each is None:
            without.add(line.item)
        else:
            watts += line.count * each
    return Draw(watts, tuple(item for item in ITEMS if item in without))


def bill_of(scenario: Scenario) -> tuple[BillLine, ...]:
    """Count what the scenario's network is made of; the compiled core wires it and counts.

    Raises
    ------
    InputError
        If the fabric cannot be built; the message names the key.
    """
    return bill_from(scenario.to_core_json(), scenario.title)


def bill_from(spec: str, title: str) -> tuple[BillLine, ...]:
    """Count as `bill_of` does from what the compiled core reads; `title` is for messages."""
    try:
        counted: Sequence[Mapping[str, Any]] = _core.bill(spec)
    except ValueError as error:
        raise InputError(f"{title}: {error}") from None
    return tuple(BillLine(c["item"], Rate(c["rate_bps"]), c["count"]) for c in counted)


def cost_table(
    scenario: Scenario,
    fabrics: str | Iterable[str] = FABRICS,
    bandwidths: Rate | float | str | Iterable[Rate | float | str] = "400 Gbps",
) -> list[CostRow]:
    """Price the scenario's job on several fabrics at several link rates.

    Parameters
    ----------
    scenario
        The job. A fabric that it has already keeps its settings; the others are presets.
    fabrics
        Names of fabric presets, or one; the job's own fabric has its own name if it is none.
    bandwidths
        Link rates, or one: numbers in Gbps, or text such as ``"400 Gbps"``.

    Raises
    ------
    InputError
        If a fabric cannot be built, or an item has no price.

    Examples
    --------
    >>> job = Scenario.preset("mixtral-8x7b", gpus=128)
    >>> [row.cost.total_usd for row in cost_table(job, ["fat-tree", "mixnet"], 400)]
    [1395584.0, 605984.0]
    """
    rows = []
    references: dict[Rate, float] = {}
    links = rates(bandwidths, "bandwidths")
    for job in on_fabrics(scenario, names(fabrics, "fabrics"), links):
        rate = link_rate(job)
        if rate not in references:
            baseline = scenario.with_(fabric={"preset": BASELINE, "link_bandwidth": str(rate)})
            references[rate] = cost_of(bill_of(baseline), scenario.prices).total_usd
        bill = bill_of(job)
        cost = cost_of(bill, scenario.prices)
        ratio = references[rate] / cost.total_usd if cost.total_usd else None
        rows.append(CostRow(job, rate, cost, power_of(bill, scenario.power), ratio))
    return rows


def _source(prices: Prices, item: Item, rate: Rate, unit: float) -> str:
    """Name the publication of a preset's price; a price of the user's own is "given"."""
    if prices.name in presets.names("prices"):
        preset = presets.load("prices", prices.name)
        if preset.values["prices"].get(item, {}).get(str(rate)) == unit:
            return preset.source(f'prices.{item}."{rate}"')
    return "given"
