"""The nodes of a grid of RailX: what their namespaces need besides NICs, and where they send.

Modelled: a node forwards IPv4 for others, as the chips of a node of RailX forward packets. It has
an address for each *lane*, a way to every other node: lane i takes, at every node on its way, the
i-th of the rail ends by which RailX's routing goes on (if there are fewer, i modulo their number).
So the lanes of two nodes that are joined by several circuits are on different ones. A node without
a job can reach nobody. Ignored: chips in a node, virtual channels: what does not fit a queue is
dropped, and sent again by TCP. Checked: ``tests/test_testbed_railx.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lightloom.railx.tenants import Job
from lightloom.railx.topology import node_port
from lightloom.testbed.lines import Batch
from lightloom.testbed.shape import Nic, Shape

SYSCTLS = {"net/ipv4/ip_forward": "1", "net/ipv4/conf/all/send_redirects": "0"}
# Where a node looks for lanes, and the addresses of all lanes.
TABLE, LANES = 1000, "10.128.0.0/16"


def switch(shape: Shape, nic: Nic) -> str:
    """Return the namespace that a packet NIC leads to: there is no such NIC."""
    raise NotImplementedError(f"{nic.name}: nodes of RailX have no packet NIC")


def pairs(shape: Shape) -> Iterator[str]:
    """Yield the lines for cables between switches: none, nodes join them."""
    return iter(())


def address(shape: Shape, nic: Nic) -> str:
    """Return a packet NIC's address: there is no such NIC."""
    raise NotImplementedError(f"{nic.name}: nodes of RailX have no packet NIC")


def routes(shape: Shape, nic: Nic) -> Iterator[tuple[str, bool]]:
    """Yield where a packet NIC leads: there is no such NIC."""
    return iter(())


def batches(shape: Shape) -> Iterator[Batch]:
    """Yield what makes nodes of namespaces: nobody can be reached yet.

    Examples
    --------
    >>> next(batches(Shape(eps="railx", grid="3x3"))).lines
    ('route add unreachable 10.128.0.0/16 table 1000', 'rule add to 10.128.0.0/16 table 1000')
    """
    for server in range(shape.servers):
        lines = (_nobody(), f"rule add to {LANES} table {TABLE}")
        yield Batch("ip", shape.namespace(server), lines)


def _nobody() -> str:
    return f"route add unreachable {LANES} table {TABLE}"


def lane(node: int, number: int) -> str:
    """Return the address of a node's lane.

    Examples
    --------
    >>> lane(8, 1)
    '10.128.8.2'
    """
    return f"10.128.{node}.{number + 1}"


def lanes(job: Job) -> int:
    """Return how many lanes a job's nodes have: as many as there are rail ends to choose from.

    Examples
    --------
    >>> from lightloom.railx.tenants import tenants
    >>> jobs = [(range(3), range(3)), (range(3), range(3, 5))]
    >>> [lanes(job) for job in tenants("torus", columns=5, rows=3, rails=2, jobs=jobs).jobs]
    [2, 4]
    """
    return max((len(ends) for row in job.ways for ends in row), default=0)


def way(job: Job, rails: int, at: int, to: int, number: int) -> int:
    """Return the NIC by which a lane goes on, of a job's nodes by number in it.

    Examples
    --------
    >>> from lightloom.railx.tenants import tenants
    >>> [job] = tenants("torus", columns=3, rows=3, rails=2, jobs=[(range(3), range(3))]).jobs
    >>> way(job, 2, 0, 4, 0), way(job, 2, 0, 4, 1), way(job, 2, 1, 4, 0)
    (0, 2, 4)
    """
    ends = job.ways[at][to]
    axis, rail, plus = ends[number % len(ends)]
    return node_port(rails, axis, rail, plus=plus)


def told(shape: Shape, jobs: Sequence[Job]) -> Iterator[Batch]:
    """Yield what gives every node the lanes and routes of its job, in place of those before.

    Examples
    --------
    >>> from lightloom.railx.tenants import tenants
    >>> shape = Shape(eps="railx", grid="3x3")
    >>> jobs = tenants("torus", columns=3, rows=3, rails=2, jobs=[(range(2), range(3))]).jobs
    >>> batches = list(told(shape, jobs))
    >>> batches[0].lines[3:7]  # doctest: +NORMALIZE_WHITESPACE
    ('address add 10.128.0.1/32 dev lo', 'address add 10.128.0.2/32 dev lo',
     'address add 10.128.0.3/32 dev lo', 'address add 10.128.0.4/32 dev lo')
    >>> batches[0].lines[7]
    'route add 10.128.1.1/32 dev ocs0 table 1000'
    >>> len(batches[8].lines)
    3
    """
    for server in range(shape.servers):
        lines = [f"address flush dev lo to {LANES}", f"route flush table {TABLE}", _nobody()]
        for job in jobs:
            if server in job.nodes:
                lines += _own(shape, job, job.nodes.index(server))
        yield Batch("ip", shape.namespace(server), tuple(lines))


def _own(shape: Shape, job: Job, at: int) -> Iterator[str]:
    numbers = range(lanes(job))
    for number in numbers:
        yield f"address add {lane(job.nodes[at], number)}/32 dev lo"
    for to, node in enumerate(job.nodes):
        for number in numbers:
            if to != at:
                nic = f"ocs{way(job, shape.rails or 0, at, to, number)}"
                yield f"route add {lane(node, number)}/32 dev {nic} table {TABLE}"
