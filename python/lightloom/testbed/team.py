"""Who takes part in a job on a testbed, and over which addresses its runtimes speak.

Modelled: all servers, or some, by the addresses of their NICs; on a grid of RailX, the nodes of one
of its jobs, by the addresses of their lanes, which are packet NICs to the runtimes: the kernel
knows which circuit a lane takes. Checked: ``tests/test_collective.py``,
``tests/test_testbed_spares.py``, ``tests/test_testbed_railx.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lightloom.errors import InputError
from lightloom.railx.tenants import Job as Part
from lightloom.testbed import grid, network
from lightloom.testbed.shape import Shape

# An address, and the NIC that bytes leave by whatever routes say, if there is one.
Place = tuple[str, str | None]


@dataclass(frozen=True)
class Team:
    """Who takes part in a job.

    Attributes
    ----------
    servers
        By number, in the order of their ranks.
    nics
        By server, the addresses that its runtime has.
    packet_nics, optical_nics
        How many of these are on packets, and on circuits that the controller gives.
    rings
        Orders in which rings go over all of them; none: their own.
    shape
        A testbed of these servers alone.
    part
        On a grid of RailX, the job's part of it.
    """

    servers: tuple[int, ...]
    nics: tuple[tuple[Place, ...], ...]
    packet_nics: int
    optical_nics: int
    rings: list[list[int]]
    shape: Shape
    part: Part | None = None

    @property
    def ranks(self) -> int:
        """Ranks in all."""
        return len(self.servers) * self.shape.ranks_per_server


def team(shape: Shape, number: int = 0, servers: Sequence[int] | None = None) -> Team:
    """Return who takes part in a job.

    Parameters
    ----------
    shape
        The testbed.
    number
        On a grid of RailX, which of its jobs; else 0.
    servers
        Those that take part, in the order of their ranks; all unless given. Not of a grid.

    Raises
    ------
    InputError
        If there is no such job, or it has one node, or the grid is dark.

    Examples
    --------
    >>> team(Shape(servers=2, ocs_nics=1)).nics[1]
    (('10.64.1.1', 'eps0'), ('10.96.1.1', 'ocs0'))
    >>> some = team(Shape(servers=4, ranks_per_server=2), servers=(0, 3, 2))
    >>> some.ranks, some.nics[1][0]
    (6, ('10.64.3.1', 'eps0'))
    """
    if shape.eps != "railx":
        if number:
            raise InputError(f"--job: {number}: must be 0: the testbed is no grid of RailX")
        members = tuple(range(shape.servers)) if servers is None else tuple(servers)
        # Planes have circuits for plans alone.
        optical = shape.ocs_nics if shape.region else 0
        nics = tuple(
            tuple(
                (nic.address, nic.name) for nic in (*shape.packet(at), *shape.optical(at)[:optical])
            )
            for at in members
        )
        own = replace(shape, servers=len(members))
        return Team(members, nics, shape.eps_nics, optical, [], own)
    jobs = network.known(shape.name).jobs
    if not 0 <= number < len(jobs):
        raise InputError(f"--job: {number}: must be from 0 to {len(jobs) - 1}")
    return of_part(shape, jobs[number])


def of_part(shape: Shape, part: Part) -> Team:
    """Return the nodes of a part of a grid.

    Raises
    ------
    InputError
        If it has one node.

    Examples
    --------
    >>> from lightloom.railx.tenants import tenants
    >>> jobs = [((0, 2), (0, 2))]
    >>> [part] = tenants("torus", columns=3, rows=3, rails=1, jobs=jobs).jobs
    >>> found = of_part(Shape(eps="railx", grid="3x3"), part)
    >>> found.servers, found.nics[3], found.shape.grid
    ((0, 2, 6, 8), (('10.128.8.1', None), ('10.128.8.2', None)), '2x2')
    """
    if len(part.nodes) < 2:
        raise InputError("--job: has one node; ranks of a job on a testbed need two")
    lanes = range(grid.lanes(part))
    nics = tuple(tuple((grid.lane(node, at), None) for at in lanes) for node in part.nodes)
    own = replace(shape, grid=f"{len(part.columns)}x{len(part.rows)}")
    return Team(part.nodes, nics, len(lanes), 0, part.rings, own, part)
