"""One Ethernet switch for all packet NICs: a bridge in a namespace of its own.

Modelled: what comes in at a port leaves at the port of the address, at the rates of the two NICs:
the switch itself holds nothing up. Ignored: spanning trees, multicast snooping. Checked:
``tests/test_testbed.py``.
"""

from __future__ import annotations

from collections.abc import Iterator

from lightloom.testbed.lines import Batch, port_frames, shaped, up
from lightloom.testbed.shape import Nic, Shape


def switch(shape: Shape, nic: Nic) -> str:
    """Return the namespace that a packet NIC leads to."""
    return shape.switches[0]


def pairs(shape: Shape) -> Iterator[str]:
    """Yield the lines for cables between switches: none, there is one."""
    return iter(())


def batches(shape: Shape) -> Iterator[Batch]:
    """Yield what makes the switch of NICs that are there.

    Examples
    --------
    >>> ip, tc = batches(Shape())
    >>> ip.lines[3]
    'link set node-00-eps0 master bridge up'
    """
    fars = [nic.far for server in range(shape.servers) for nic in shape.packet(server)]
    yield Batch("ip", shape.switches[0], tuple(_bridge(fars)))
    yield Batch(
        "tc", shape.switches[0], tuple(shaped(fars, shape.rate, port_frames(shape), shape.mtu))
    )


def _bridge(fars: list[str]) -> Iterator[str]:
    yield "link add bridge type bridge stp_state 0 mcast_snooping 0"
    yield from up(["lo", "bridge"])
    for far in fars:
        yield f"link set {far} master bridge up"


def address(shape: Shape, nic: Nic) -> str:
    """Return a packet NIC's address, with the length of its network."""
    return f"{nic.address}/32"


def routes(shape: Shape, nic: Nic) -> Iterator[tuple[str, bool]]:
    """Yield where a packet NIC leads, and whether by this NIC if a sender has named none.

    Examples
    --------
    >>> list(routes(Shape(), Shape().packet(1)[0]))
    [('10.64.0.0/16 dev eps0', True)]
    """
    first, second, _, _ = nic.address.split(".")
    yield f"{first}.{second}.0.0/16 dev {nic.name}", True
