"""The network as it is bought: NICs, optics, copper and fibre by the link, switches by the chassis.

Packet switches: by rate, the chassis of the list that hold the fabric's switches for the least
money; a chassis without a price costs its ports times theirs. Optical switches: regions share one
as far as its ports go. Patch panels: by the port, as they are extended by modules. Checked:
docs/money.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from lightloom import presets
from lightloom.cost import Item, bill_of
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
    "ocs_port": "optical switch port",
    "switch_port": "switch port",
}
# Watts of what has no electronics of its own.
PASSIVE = ("patch_port", "circulator", "copper_cable", "board_link")
WITH_SERVER = "in the server's watts"


def network(job: Scenario) -> Iterator[MoneyLine]:
    """Yield what a job's network is bought as.

    Raises
    ------
    InputError
        If the fabric cannot be built; the message names the key.
    """
    ends = 0
    optical = 0
    for line in bill_of(job):
        if line.item == "switch_port":
            yield from _chassis(job, line.rate, line.count)
        elif line.item == "ocs_port":
            optical += line.count
            yield _optical(job, line.rate, line.count)
        else:
            usd, watts = _unit(job, line.item, line.rate)
            yield MoneyLine("network", NAMES[line.item], str(line.rate), line.count, usd, watts)
        if line.item in ("transceiver", "patch_port", "ocs_port"):
            ends += line.count
    if ends:
        own = job.money
        each = None if own.fibre_usd_m is None else own.fibre_usd_m * own.fibre_length
        usd = quote(each, own.fibre_usd_m_source, own.fibre_usd_m_date)
        kind = f"of {own.fibre_length:g} m"
        yield MoneyLine("network", "fibre", kind, math.ceil(ends / 2), usd, Quote(0.0, "passive"))


def _unit(job: Scenario, item: Item, rate: Rate) -> tuple[Quote, Quote]:
    """Return price and watts of one piece."""
    usd = _listed("prices", job.prices.name, item, rate, getattr(job.prices, item).get(rate))
    watts = _listed("power", job.power.name, item, rate, getattr(job.power, item).get(rate))
    if watts.value is None and item == "nic":
        watts = Quote(0.0, WITH_SERVER)
    elif watts.value is None and item in PASSIVE:
        watts = Quote(0.0, "passive")
    return usd, watts


def _listed(section: str, name: str, item: str, rate: Rate, value: float | None) -> Quote:
    if value is None:
        return Quote()
    if name in presets.names(section):
        preset = presets.load(section, name)
        if preset.values[section].get(item, {}).get(str(rate)) == value:
            return Quote(value, preset.source(f'{section}.{item}."{rate}"'))
    return Quote(value, "given")


def _chassis(job: Scenario, rate: Rate, ports: int) -> Iterator[MoneyLine]:
    listed = [(name, one) for name, one in job.money.chassis.items() if one.rate == rate]
    port, watts = _unit(job, "switch_port", rate)
    size = max((one.ports for _, one in listed), default=64)
    usd = Quote() if port.value is None else Quote(size * port.value, port.source, port.date)
    count = math.ceil(ports / size)
    yield MoneyLine("network", "chassis", f"{size} x {rate}", count, usd, watts)


def _optical(job: Scenario, rate: Rate, ports: int) -> MoneyLine:
    ocs = getattr(job.fabric, "ocs", None)
    device = getattr(ocs, "device", None) or "optical"
    size = getattr(ocs, "ports", None) or getattr(job.fabric, "ocs_ports", None) or ports
    port, watts = _unit(job, "ocs_port", rate)
    usd = Quote() if port.value is None else Quote(size * port.value, port.source, port.date)
    count = math.ceil(ports / size)
    return MoneyLine("network", "optical switch", f"{device} of {size} ports", count, usd, watts)
