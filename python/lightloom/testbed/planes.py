"""How the nodes of optical planes reach each other, and come back.

Modelled: a plane's circuits are of one direction, so what a node hears of what it has sent cannot
come back over its circuit. Each optical NIC has two addresses: what is sent *from* the first goes
over the plane, and what comes *to* the second came over it; acknowledgements, from a second address
to a first, take the packet network, as the packet engine has them do (``docs/swot.md``). Programs
bind addresses; routes do the rest. Checked: ``tests/test_testbed_plan.py``.
"""

from __future__ import annotations

from collections.abc import Iterator

from lightloom.testbed.shape import Nic, Shape


def receiving(nic: Nic) -> str:
    """Return the address at which a NIC receives what comes over its plane.

    Examples
    --------
    >>> [receiving(nic) for nic in Shape(planes=2).optical(3)]
    ['10.97.3.1', '10.97.3.2']
    """
    return nic.address.replace("10.96.", "10.97.", 1)


def ways(nic: Nic, table: int) -> Iterator[str]:
    """Yield, for ``ip``, how a NIC sends and receives over its plane.

    Parameters
    ----------
    nic
        An optical NIC whose own route table is there.
    table
        That table.

    Examples
    --------
    >>> for line in ways(Shape(planes=2).optical(3)[1], 102):
    ...     print(line)
    address add 10.97.3.2/32 dev ocs1
    route add 10.97.0.0/16 dev ocs1 src 10.96.3.2 table 102
    """
    yield f"address add {receiving(nic)}/32 dev {nic.name}"
    yield f"route add 10.97.0.0/16 dev {nic.name} src {nic.address} table {table}"


def ways_back(shape: Shape, server: int, table: int) -> Iterator[str]:
    """Yield, for ``ip``, how a server answers what came over planes: by its first packet NIC.

    Parameters
    ----------
    shape
        The testbed.
    server
        The server's number.
    table
        The route table of its first packet NIC.

    Examples
    --------
    >>> for line in ways_back(Shape(servers=2, planes=1), 0, 100):
    ...     print(line)
    rule add from 10.97.0.1 table 100
    route add 10.96.1.0/24 via 10.64.1.1 dev eps0 onlink table 100
    """
    for nic in shape.optical(server):
        yield f"rule add from {receiving(nic)} table {table}"
    for other in (at for at in range(shape.servers) if at != server):
        first, near = shape.packet(other)[0].address, shape.packet(server)[0].name
        yield f"route add 10.96.{other}.0/24 via {first} dev {near} onlink table {table}"
