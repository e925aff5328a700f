"""The commands that lay a testbed's cables: lines for ``ip -batch`` and ``tc -batch``.

Modelled: a veth pair a NIC, made with both ends where they belong; token buckets that shape both
ends; for each NIC a route table of its own; no ARP over circuits, since nobody can be asked: there,
frames go to the sender's own MAC address, which all optical NICs have. Ignored: IPv6, which is off.
Checked: ``tests/test_testbed.py``.
"""

from __future__ import annotations

from collections.abc import Iterator

from lightloom.testbed import bridge, grid, planes, rails
from lightloom.testbed.lines import (
    SENDERS_FRAMES,
    WINDOW_BYTES,
    Batch,
    pair,
    shaped,
    up,
    window_bytes,
)
from lightloom.testbed.shape import OPTICAL_MAC, Nic, Shape

# Of each namespace. With a smaller least timeout TCP is soon back after a time in the dark.
SYSCTLS = {
    "net/ipv6/conf/all/disable_ipv6": "1",
    "net/ipv6/conf/default/disable_ipv6": "1",
    "net/ipv4/conf/all/rp_filter": "0",
    "net/ipv4/conf/default/rp_filter": "0",
    "net/ipv4/conf/all/arp_ignore": "1",
    "net/ipv4/conf/all/arp_announce": "2",
    "net/ipv4/tcp_rto_min_us": "5000",
    # Every kernel has it; some have another by default, with other results.
    "net/ipv4/tcp_congestion_control": "reno",
    "net/ipv4/tcp_rmem": f"4096 {WINDOW_BYTES} {WINDOW_BYTES}",
}
# What packet NICs lead to, by `Shape.eps`.
EPS = {"bridge": bridge, "rails": rails, "railx": grid}


def sysctls(shape: Shape, namespace: str) -> dict[str, str]:
    """Return what is set under ``/proc/sys`` of one of a testbed's namespaces.

    Examples
    --------
    >>> shape = Shape(eps="rails", eps_nics=2)
    >>> sysctls(shape, "testbed-leaf-00")["net/ipv4/ip_forward"]
    '1'
    >>> "net/ipv4/ip_forward" in sysctls(shape, "testbed-node-00")
    False
    """
    if shape.eps == "bridge":
        window = window_bytes(shape.rate)
        return SYSCTLS | {"net/ipv4/tcp_rmem": f"4096 {window} {window}"}
    if shape.eps == "rails" and namespace in shape.switches:
        return SYSCTLS | rails.SYSCTLS
    return SYSCTLS | (grid.SYSCTLS if shape.eps == "railx" and namespace != shape.ocs else {})


def cables(shape: Shape) -> int:
    """Return how many cables there are.

    Examples
    --------
    >>> cables(Shape()), cables(Shape(eps="rails", eps_nics=2))
    (16, 24)
    """
    return sum(1 for _ in _pairs(shape))


def batches(shape: Shape) -> Iterator[Batch]:
    """Yield what lays all cables, in order; the namespaces are there.

    Examples
    --------
    >>> first, *rest = batches(Shape(servers=2, ocs_nics=1))
    >>> first.lines[0].partition(" type veth ")[0]
    'link add eps0 mtu 1500 netns testbed-node-00'
    >>> len(rest)
    8
    """
    yield Batch("ip", None, tuple(_pairs(shape)))
    yield from EPS[shape.eps].batches(shape)
    far = [nic.far for nic in shape.ports()]
    yield Batch("ip", shape.ocs, tuple(up(["lo", *far])))
    yield Batch("tc", shape.ocs, tuple(shaped(far, shape.rate)))
    for server in range(shape.servers):
        yield Batch("ip", shape.namespace(server), tuple(_server(shape, server)))
        # A guard after the lease's end rests on it that little waits in an optical NIC. RailX has
        # no leases, and what nodes forward waits there, too.
        optical = [nic.name for nic in shape.optical(server)]
        packet = [nic.name for nic in shape.packet(server)]
        frames = SENDERS_FRAMES if shape.eps == "railx" else 0
        lines = (
            *shaped(packet, shape.rate, SENDERS_FRAMES, shape.mtu),
            *shaped(optical, shape.rate, frames, shape.mtu),
        )
        yield Batch("tc", shape.namespace(server), lines)


def _pairs(shape: Shape) -> Iterator[str]:
    yield from EPS[shape.eps].pairs(shape)
    for server in range(shape.servers):
        ours = shape.namespace(server)
        for nic in shape.packet(server):
            yield pair(nic.name, ours, nic.far, EPS[shape.eps].switch(shape, nic), shape.mtu)
        for nic in shape.optical(server):
            yield pair(nic.name, ours, nic.far, shape.ocs, shape.mtu)


def _server(shape: Shape, server: int) -> Iterator[str]:
    yield from up(["lo"])
    for table, nic in enumerate(shape.packet(server), 100):
        yield f"link set {nic.name} up"
        yield f"address add {EPS[shape.eps].address(shape, nic)} dev {nic.name}"
        for route, first in EPS[shape.eps].routes(shape, nic):
            yield from _routes(nic, route, table, first)
        yield f"rule add from {nic.address} table {table}"
    for table, nic in enumerate(shape.optical(server), 100 + shape.eps_nics):
        yield f"link set {nic.name} address {OPTICAL_MAC} arp off"
        yield f"link set {nic.name} up"
        yield f"address add {nic.address}/32 dev {nic.name}"
        yield from _routes(nic, f"10.96.0.0/16 dev {nic.name}", table, False)
        yield f"rule add from {nic.address} table {table}"
        if shape.planes:
            yield from planes.ways(nic, table)
    if shape.planes:
        yield from planes.ways_back(shape, server, 100)


def _routes(nic: Nic, route: str, table: int, first: bool) -> Iterator[str]:
    """Yield a route of a NIC's own table and, if it is the first, of the main one."""
    yield f"route add {route} src {nic.address} table {table}"
    if first:
        yield f"route add {route} src {nic.address}"
