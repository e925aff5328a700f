"""The commands that lay a testbed's cables: lines for ``ip -batch`` and ``tc -batch``.

Modelled: a veth pair a NIC, made with both ends where they belong; token buckets that shape both
ends; for each NIC a route table of its own; no ARP over circuits, since nobody can be asked: there,
frames go to the sender's own MAC address, which all optical NICs have. Ignored: IPv6, which is off.
Checked: ``tests/test_testbed.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lightloom.testbed.shape import MTU, OPTICAL_MAC, Nic, Shape

# Of each namespace. With a smaller least timeout TCP is soon back after a time in the dark.
SYSCTLS = {
    "net/ipv6/conf/all/disable_ipv6": "1",
    "net/ipv6/conf/default/disable_ipv6": "1",
    "net/ipv4/conf/all/rp_filter": "0",
    "net/ipv4/conf/default/rp_filter": "0",
    "net/ipv4/conf/all/arp_ignore": "1",
    "net/ipv4/conf/all/arp_announce": "2",
    "net/ipv4/tcp_rto_min_us": "5000",
}


@dataclass(frozen=True)
class Batch:
    """Lines for ``ip`` or ``tc`` in a namespace (none: where the command runs)."""

    tool: str
    namespace: str | None
    lines: tuple[str, ...]


def batches(shape: Shape) -> Iterator[Batch]:
    """Yield what lays all cables, in order; the namespaces are there.

    Examples
    --------
    >>> first, *rest = batches(Shape(servers=2, ocs_nics=1))
    >>> first.lines[0]
    'link add eps0 netns testbed-node-00 type veth peer name node-00-eps0 netns testbed-eps'
    >>> len(rest)
    8
    """
    yield Batch("ip", None, tuple(_pairs(shape)))
    yield Batch("ip", shape.eps, tuple(_bridge(shape)))
    yield Batch("tc", shape.eps, tuple(_shaped(shape, [n.far for n in _packet(shape)])))
    far = [nic.far for nic in shape.ports()]
    yield Batch("ip", shape.ocs, tuple(_up(["lo", *far])))
    yield Batch("tc", shape.ocs, tuple(_shaped(shape, far)))
    for server in range(shape.servers):
        nics = [*shape.packet(server), *shape.optical(server)]
        yield Batch("ip", shape.namespace(server), tuple(_server(shape, server)))
        names = [nic.name for nic in nics]
        yield Batch("tc", shape.namespace(server), tuple(_shaped(shape, names)))


def _packet(shape: Shape) -> Iterator[Nic]:
    for server in range(shape.servers):
        yield from shape.packet(server)


def _pairs(shape: Shape) -> Iterator[str]:
    for server in range(shape.servers):
        ours = shape.namespace(server)
        for nics, theirs in ((shape.packet(server), shape.eps), (shape.optical(server), shape.ocs)):
            for nic in nics:
                yield (
                    f"link add {nic.name} netns {ours} type veth peer name {nic.far} netns {theirs}"
                )


def _bridge(shape: Shape) -> Iterator[str]:
    yield "link add bridge type bridge stp_state 0 mcast_snooping 0"
    yield from _up(["lo", "bridge"])
    for nic in _packet(shape):
        yield f"link set {nic.far} master bridge up"


def _up(names: list[str]) -> Iterator[str]:
    for name in names:
        yield f"link set {name} up"


def _shaped(shape: Shape, names: list[str]) -> Iterator[str]:
    for name in names:
        yield (
            f"qdisc add dev {name} root tbf rate {int(shape.rate)}bit"
            f" burst {shape.burst_bytes}b limit {shape.queue_bytes}b"
        )


def _server(shape: Shape, server: int) -> Iterator[str]:
    yield from _up(["lo"])
    for table, nic in enumerate([*shape.packet(server), *shape.optical(server)], 100):
        optical = nic.name.startswith("ocs")
        network = "10.96.0.0/16" if optical else ".".join([*nic.address.split(".")[:2], "0.0/16"])
        if optical:
            yield f"link set {nic.name} address {OPTICAL_MAC} arp off"
        yield f"link set {nic.name} mtu {MTU} up"
        yield f"address add {nic.address}/32 dev {nic.name}"
        yield f"route add {network} dev {nic.name} src {nic.address} table {table}"
        yield f"rule add from {nic.address} table {table}"
        if not optical:
            yield f"route add {network} dev {nic.name} src {nic.address}"
