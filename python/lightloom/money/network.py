"""The network as it is bought: NICs, optics, copper and fibre by the link, switches by the chassis.

Packet switches are those of the fabric with every cable wired, whatever an engine makes of parallel
ones; a chassis without a price costs its ports times theirs, used or not. Optical switches: regions
or planes share one as far as whole ones fit. Patch panels: by the port, as they are extended by
modules. A link has one fibre: between two transceivers, or from one to an optical port or panel.
Checked: docs/money.md, whose arithmetic a test repeats.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator

from lightloom import _core, presets
from lightloom.cost import BillLine, Item, bill_from
from lightloom.money.chassis import chassis_for
from lightloom.money.lines import MoneyLine, Quote, quote
from lightloom.scenario import Scenario
from lightloom.units import Rate

NAMES: dict[str, str] = {
    "nic": "NIC",
    "transceiver": "transceiver",
    "patch_port": "patch panel port",
    "optical_io": "optical I/O port",
    "circulator": "circulator",
    "copper_cable": "copper cable",
    "board_link": "board link",
}
# What has no electronics of its own.
PASSIVE = ("patch_port", "circulator", "copper_cable")
FREE = {item: Quote(0.0, "passive") for item in PASSIVE} | {
    "nic": Quote(0.0, "in the server's watts"),
    "board_link": Quote(0.0, "in the server's watts"),
}


def network(job: Scenario) -> Iterator[MoneyLine]:
    """Yield what a job's network is bought as.

    Raises
    ------
    InputError
        If the fabric cannot be built; the message names the key.
    """
    spec = wired(job)
    bill = bill_from(spec, job.title)
    counted = {(line.item, line.rate): line.count for line in bill}
    packet, regions = _core.switches(spec)
    switches = _switches(packet, bill)
    for rate, listed in switches.items():
        # The bill has the sum of slowed cables where it is over-subscribed; whole ones are bought.
        ports = sum(ports * count for ports, count in listed)
        whole = max(0, ports - counted.get(("switch_port", rate), 0))
        if whole and ("transceiver", rate) in counted:
            counted["transceiver", rate] += whole
    for (item, rate), count in counted.items():
        if item == "ocs_port":
            yield _optical(job, rate, count, regions)
        elif item in NAMES:
            yield MoneyLine("network", NAMES[item], str(rate), count, *unit(job, item, rate))
    for rate, listed in switches.items():
        yield from _chassis(job, rate, listed)
    if fibres := _fibres(job, counted):
        own = job.money
        metre = own.fibre_usd_m
        each = None if metre is None else metre * own.fibre_length
        usd = quote(each, own.fibre_usd_m_source, own.fibre_usd_m_date)
        kind = f"of {own.fibre_length:g} m"
        yield MoneyLine("network", "fibre", kind, fibres, usd, Quote(0.0, "passive"))


def wired(job: Scenario) -> str:
    """Return what the compiled core reads of a job, every switch and cable a physical one."""
    core = job.to_core()
    for table in (core["fabric"], core["fabric"].get("eps")):
        if isinstance(table, dict) and "splitting" in table:
            table["splitting"] = "ecmp"
    return json.dumps(core, separators=(",", ":"), allow_nan=False)


def _switches(
    packet: list[tuple[int, int, int]], bill: tuple[BillLine, ...]
) -> dict[Rate, list[tuple[int, int]]]:
    """Return by rate of ports that are sold: ports of a switch, and how many such."""
    rates = sorted(line.rate for line in bill if line.item == "switch_port")
    found: dict[Rate, dict[int, int]] = {}
    for bps, ports, count in packet if rates else ():
        # Cables of over-subscribed switches are slowed; a cable may stand for several ports.
        rate = next((rate for rate in rates if rate >= bps), rates[-1])
        used = ports * max(1, math.ceil(bps / rate))
        at = found.setdefault(rate, {})
        at[used] = at.get(used, 0) + count
    return {rate: sorted(of.items()) for rate, of in found.items()}


def _fibres(job: Scenario, counted: dict[tuple[Item, Rate], int]) -> int:
    """Count fibres: each ends at transceivers, optical ports or panels, twice."""

    def count(*items: Item) -> int:
        return sum(number for (item, _), number in counted.items() if item in items)

    passive = count("ocs_port", "patch_port")
    # A transceiver broken out has a fibre to each of so many optical ports.
    breakout = getattr(getattr(job.fabric, "ocs", None), "breakout", 1)
    circulators = getattr(getattr(job.fabric, "ocs", None), "circulators", False)
    fibres = passive * (2 if circulators else 1)
    return fibres + math.ceil(max(0, count("transceiver") - math.ceil(fibres / breakout)) / 2)


def unit(job: Scenario, item: Item, rate: Rate) -> tuple[Quote, Quote]:
    """Return price and watts of one piece."""
    usd = _listed("prices", job.prices.name, item, rate, getattr(job.prices, item).get(rate))
    watts = _listed("power", job.power.name, item, rate, getattr(job.power, item).get(rate))
    return usd, FREE.get(item, watts) if watts.value is None else watts


def _listed(section: str, name: str, item: str, rate: Rate, value: float | None) -> Quote:
    """Return a figure of a list by rate, with the preset's source and date if it is a preset's."""
    if value is None:
        return Quote()
    if name in presets.names(section):
        preset = presets.load(section, name)
        if preset.values[section].get(item, {}).get(str(rate)) == value:
            key = f'{section}.{item}."{rate}"'
            return Quote(value, preset.source(key), preset.date(key))
    return Quote(value, "given")


def _times(port: Quote, ports: int) -> Quote:
    """Return the price, or the watts, of so many ports."""
    if port.value is None:
        return port
    return Quote(port.value * ports, f"{port.source}: {ports} ports", port.date)


def _chassis(job: Scenario, rate: Rate, switches: list[tuple[int, int]]) -> Iterator[MoneyLine]:
    listed = {name: one for name, one in job.money.chassis.items() if one.rate == rate}
    port, port_watts = unit(job, "switch_port", rate)
    for found in chassis_for(switches, listed, port.value, shared=job.money.share_chassis):
        one = None if found.model is None else listed[found.model]
        usd, watts = _times(port, found.ports), _times(port_watts, found.ports)
        if one and one.usd is not None:
            usd = quote(one.usd, one.usd_source, one.usd_date)
        if one and one.watts is not None:
            watts = quote(one.watts, one.watts_source, one.watts_date)
        kind = f"{found.model or 'of no model'}, {found.ports} x {rate}"
        yield MoneyLine("network", "chassis", kind, found.count, usd, watts)


def _optical(job: Scenario, rate: Rate, ports: int, regions: int) -> MoneyLine:
    ocs = getattr(job.fabric, "ocs", None)
    device = getattr(ocs, "device", None) or "of no model"
    size = getattr(ocs, "ports", None) or getattr(job.fabric, "ocs_ports", None)
    size = size or getattr(job.fabric, "switch_ports", None) or ports
    if regions:  # or planes, or rails: no circuit joins two of them
        each = math.ceil(ports / regions)
        count = math.ceil(regions / max(1, size // each))
    else:
        count = math.ceil(ports / size)
    usd, watts = (_times(one, size) for one in unit(job, "ocs_port", rate))
    listed = job.money.optical.get(device)
    if listed and listed.usd is not None:
        usd = quote(listed.usd, listed.usd_source, listed.usd_date)
    if listed and listed.watts is not None:
        watts = quote(listed.watts, listed.watts_source, listed.watts_date)
    return MoneyLine("network", "optical switch", f"{device}, {size} ports", count, usd, watts)
