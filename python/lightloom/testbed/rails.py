"""Rails: NIC i of every server leads to leaf i, and every leaf to every spine.

Modelled: leaves and spines are namespaces that forward IPv4. What is sent to an address on the same
rail goes from leaf to server; to another rail it goes from leaf to spine to leaf, and the kernel's
hash of addresses and ports picks the spine, once for each flow (ECMP). The links between are shaped
as NICs are, to a rate of their own. A NIC and its leaf share a network of two addresses (a /31), as
do a leaf and a spine. Ignored: routing protocols, and so spines and links that fail: routes stand.
Checked: ``tests/test_testbed_rails.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lightloom.testbed.lines import Batch, pair, port_frames, shaped, up
from lightloom.testbed.shape import Nic, Shape
from lightloom.units import Rate

# Of leaves and spines, beside those of every namespace. Policy 1: addresses and ports.
SYSCTLS = {"net/ipv4/ip_forward": "1", "net/ipv4/fib_multipath_hash_policy": "1"}


@dataclass(frozen=True)
class Uplink:
    """A link between a leaf and a spine.

    Attributes
    ----------
    rail, spine
        The leaf's number and the spine's, from 0.
    near, far
        The name of its end at the leaf, and at the spine.
    below, above
        The IPv4 addresses of these.
    """

    rail: int
    spine: int
    near: str
    far: str
    below: str
    above: str


def uplinks(shape: Shape) -> list[Uplink]:
    """Return all links between leaves and spines, leaf by leaf.

    Examples
    --------
    >>> for link in uplinks(Shape(eps="rails", eps_nics=2))[2:]:
    ...     print(link.near, link.below, link.far, link.above)
    spine-00 10.112.1.0 leaf-01 10.112.1.1
    spine-01 10.112.1.2 leaf-01 10.112.1.3
    """
    return [
        Uplink(
            rail, spine, f"spine-{spine:02}", f"leaf-{rail:02}",
            f"10.112.{rail}.{2 * spine}", f"10.112.{rail}.{2 * spine + 1}",
        )
        for rail in range(shape.eps_nics)
        for spine in range(shape.spines or 0)
    ]  # fmt: skip


def leaf(shape: Shape, rail: int) -> str:
    """Return the namespace of a leaf."""
    return shape.switches[rail]


def spine(shape: Shape, number: int) -> str:
    """Return the namespace of a spine."""
    return shape.switches[shape.eps_nics + number]


def _rail(nic: Nic) -> int:
    return int(nic.name.removeprefix("eps"))


def _network(rail: int) -> str:
    """Return the addresses of a rail's NICs."""
    return f"10.{64 + rail}.0.0/16"


def _gateway(nic: Nic) -> str:
    """Return the leaf's address on a NIC's cable."""
    return nic.address.rpartition(".")[0] + ".0"


def switch(shape: Shape, nic: Nic) -> str:
    """Return the namespace that a packet NIC leads to."""
    return leaf(shape, _rail(nic))


def pairs(shape: Shape) -> Iterator[str]:
    """Yield the lines for cables between switches."""
    for link in uplinks(shape):
        yield pair(link.near, leaf(shape, link.rail), link.far, spine(shape, link.spine))


def batches(shape: Shape) -> Iterator[Batch]:
    r"""Yield what makes switches of namespaces whose cables are there.

    Examples
    --------
    >>> leaf0, *_, spine1, tc = batches(Shape(servers=2, eps="rails", eps_nics=2))
    >>> print("\n".join(leaf0.lines[-5:]))
    link set spine-00 up
    address add 10.112.0.0/31 dev spine-00
    link set spine-01 up
    address add 10.112.0.2/31 dev spine-01
    route add 10.65.0.0/16 nexthop via 10.112.0.1 nexthop via 10.112.0.3
    >>> print(spine1.lines[-1])
    route add 10.65.0.0/16 via 10.112.1.2
    """
    spine_rate = shape.spine_rate or Rate(0)  # rails have one: invariant of Shape
    frames = port_frames(shape)
    for rail in range(shape.eps_nics):
        nics = [shape.packet(server)[rail] for server in range(shape.servers)]
        links = [link for link in uplinks(shape) if link.rail == rail]
        yield Batch("ip", leaf(shape, rail), tuple(_leaf(shape, rail, nics, links)))
        lines = [*shaped((nic.far for nic in nics), shape.rate, frames, shape.mtu)]
        lines += shaped((link.near for link in links), spine_rate, frames, shape.mtu)
        yield Batch("tc", leaf(shape, rail), tuple(lines))
    for number in range(shape.spines or 0):
        links = [link for link in uplinks(shape) if link.spine == number]
        yield Batch("ip", spine(shape, number), tuple(_spine(links)))
        fars = (link.far for link in links)
        yield Batch("tc", spine(shape, number), tuple(shaped(fars, spine_rate, frames, shape.mtu)))


def _leaf(shape: Shape, rail: int, nics: list[Nic], links: list[Uplink]) -> Iterator[str]:
    yield from up(["lo"])
    for nic in nics:
        yield from up([nic.far])
        yield f"address add {_gateway(nic)}/31 dev {nic.far}"
    for link in links:
        yield from up([link.near])
        yield f"address add {link.below}/31 dev {link.near}"
    hops = " ".join(f"nexthop via {link.above}" for link in links)
    for other in range(shape.eps_nics):
        if other != rail:
            yield f"route add {_network(other)} {hops}"


def _spine(links: list[Uplink]) -> Iterator[str]:
    yield from up(["lo"])
    for link in links:
        yield from up([link.far])
        yield f"address add {link.above}/31 dev {link.far}"
        yield f"route add {_network(link.rail)} via {link.below}"


def address(shape: Shape, nic: Nic) -> str:
    """Return a packet NIC's address, with the length of its network."""
    return f"{nic.address}/31"


def routes(shape: Shape, nic: Nic) -> Iterator[tuple[str, bool]]:
    """Yield where a packet NIC leads, and whether by this NIC if a sender has named none.

    Examples
    --------
    >>> shape = Shape(eps="rails", eps_nics=2)
    >>> for route, first in routes(shape, shape.packet(3)[1]):
    ...     print(route, first)
    10.64.0.0/16 via 10.65.3.0 dev eps1 False
    10.65.0.0/16 via 10.65.3.0 dev eps1 True
    """
    for rail in range(shape.eps_nics):
        yield f"{_network(rail)} via {_gateway(nic)} dev {nic.name}", rail == _rail(nic)
