"""Which chassis hold the packet switches of a fabric.

Modelled: chassis of one model a rate, that for which all of them cost least. Where chassis are
shared, a switch of the fabric is some ports of one chassis: the largest first, each into the
fullest chassis that has room (best fit decreasing). Where they are not, each switch has the
cheapest chassis with enough ports. What no listed chassis holds is a chassis of just its ports.
Ignored: several models mixed to save ports; cables between switches of one chassis, which are
bought all the same. Checked: against an independent packing; never fewer than ports over ports a
chassis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lightloom.sections import Chassis


@dataclass(frozen=True, slots=True)
class Bought:
    """So many chassis of a model; of no model those with just the ports that a switch has."""

    model: str | None
    ports: int
    count: int


def chassis_for(
    switches: Sequence[tuple[int, int]],
    listed: Mapping[str, Chassis],
    port_usd: float | None,
    *,
    shared: bool,
) -> list[Bought]:
    """Return the chassis that hold switches.

    Parameters
    ----------
    switches
        Ports of a switch, and how many such switches there are.
    listed
        What is sold at their rate.
    port_usd
        What a port costs, for chassis that have no price [US dollars].
    shared
        Whether a chassis may hold several switches.

    Examples
    --------
    >>> from lightloom.units import Rate
    >>> listed = {name: Chassis(rate=Rate(10**11), ports=n) for name, n in (("x", 32), ("y", 64))}
    >>> chassis_for([(16, 6)], listed, 100.0, shared=True)
    [Bought(model='x', ports=32, count=3)]
    >>> chassis_for([(16, 6), (70, 1)], listed, 100.0, shared=False)
    [Bought(model=None, ports=70, count=1), Bought(model='x', ports=32, count=6)]
    """

    def price(name: str) -> float:
        one = listed[name]
        return one.ports * (port_usd or 1.0) if one.usd is None else one.usd

    largest = max((one.ports for one in listed.values()), default=0)
    found = [Bought(None, ports, count) for ports, count in switches if ports > largest]
    rest = [(ports, count) for ports, count in switches if ports <= largest]
    if not rest:
        return found
    if shared:
        options = {
            name: packed(rest, one.ports)
            for name, one in listed.items()
            if one.ports >= max(ports for ports, _ in rest)
        }
        best = min(options, key=lambda name: (options[name] * price(name), name))
        return [*found, Bought(best, listed[best].ports, options[best])]
    each: dict[str, int] = {}
    for ports, count in rest:
        fitting = [name for name, one in listed.items() if one.ports >= ports]
        best = min(fitting, key=lambda name: (price(name), name))
        each[best] = each.get(best, 0) + count
    return [*found, *(Bought(name, listed[name].ports, n) for name, n in each.items())]


def packed(switches: Sequence[tuple[int, int]], size: int) -> int:
    """Return how many chassis of a size hold switches, by best fit decreasing.

    Examples
    --------
    >>> packed([(16, 320)], 64), packed([(40, 2), (24, 2), (10, 1)], 64)
    (80, 3)
    """
    # How many chassis have so many ports left.
    free: dict[int, int] = {}
    bought = 0
    for ports, count in sorted(switches, reverse=True):
        left = count
        for room in sorted(room for room in free if room >= ports):
            left -= _fill(free, room, ports, left, free.pop(room))
        if left:
            new = -(-left // (size // ports))
            bought += new
            _fill(free, size, ports, left, new)
    return bought


def _fill(free: dict[int, int], room: int, ports: int, count: int, chassis: int) -> int:
    """Put up to `count` switches into chassis with `room` ports left; return how many went in."""
    each = room // ports
    inside = min(count, each * chassis)
    full, some = divmod(inside, each)
    for left, of in (
        (room - each * ports, full),
        (room - some * ports, 1 if some else 0),
        (room, chassis - full - (1 if some else 0)),
    ):
        if of:
            free[left] = free.get(left, 0) + of
    return inside
