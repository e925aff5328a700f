"""Topologies of several jobs on one grid of RailX: port maps, ways between nodes, rings over them.

A job is on some rows and columns of nodes; its rings skip all others, failed ones among them
(`lightloom.railx.faults` finds such rows and columns). Nodes are of one chip here. The decisions
are the compiled core's.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from lightloom import _core
from lightloom.errors import CoreErrors
from lightloom.railx.topology import Switch, port_maps

if TYPE_CHECKING:
    from lightloom.maps import PortMaps

End = tuple[str, int, bool]
"""An end of a node's rail: its axis (x or y), the rail, and whether it is the + end."""


@dataclass(frozen=True)
class Job:
    """A job's part of the grid.

    Attributes
    ----------
    rows, columns
        Where it is, rising.
    nodes
        The grid's number of each of its nodes, row by row: elsewhere these count from 0.
    ways
        By node and node: the ends of rails by which the one sends on what is for the other, by
        RailX's Algorithm 1: X first, by a shortest way; all are equally near.
    rings
        Orders in which a ring goes over all nodes by single rails: two that share no link if rows
        are as many as columns, more than two; else one.
    """

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    nodes: tuple[int, ...]
    ways: list[list[list[End]]]
    rings: list[list[int]]

    def said(self) -> dict[str, Any]:
        """Return it for JSON; `Job.heard` reads it."""
        return asdict(self)

    @classmethod
    def heard(cls, said: dict[str, Any]) -> Job:
        """Return the job that said this.

        Raises
        ------
        KeyError, TypeError, ValueError
            If none did.
        """
        ways = [
            [[(str(axis), int(rail), bool(plus)) for axis, rail, plus in ends] for ends in row]
            for row in said["ways"]
        ]
        rows, columns, nodes = (tuple(map(int, said[key])) for key in ("rows", "columns", "nodes"))
        rings = [[int(node) for node in ring] for ring in said["rings"]]
        return cls(rows, columns, nodes, ways, rings)


@dataclass(frozen=True)
class Tenants:
    """What all jobs have together.

    Attributes
    ----------
    topology, columns, rows, rails
        As asked.
    jobs
        As asked.
    switches
        What every switch is set to.
    """

    topology: str
    columns: int
    rows: int
    rails: int
    jobs: tuple[Job, ...]
    switches: tuple[Switch, ...]

    def port_maps(self) -> PortMaps:
        """Return the maps as a file has them: a device a switch, named axis/line/rail."""
        by = (
            f"railx: {self.topology} of {len(self.jobs)} jobs on {self.columns} x {self.rows} nodes"
        )
        return port_maps(by, self.switches, self.columns, self.rows, self.rails)


def tenants(
    topology: str,
    *,
    columns: int,
    rows: int,
    rails: int,
    jobs: Sequence[tuple[Sequence[int], Sequence[int]]],
) -> Tenants:
    """Set a topology of the same kind for each job.

    Parameters
    ----------
    topology
        torus or hyperx.
    columns, rows
        Nodes of the grid.
    rails
        Rails of a node along each axis.
    jobs
        Rows and columns of each, rising, from 0.

    Raises
    ------
    InputError
        If there is no such topology, it cannot be, or jobs have the same node: what is wrong, and
        what is allowed.

    Examples
    --------
    >>> found = tenants("torus", columns=3, rows=3, rails=1, jobs=[((0, 2), (0, 1, 2)), ((1,), (0, 2))])
    >>> [job.nodes for job in found.jobs], found.jobs[1].rings
    ([(0, 1, 2, 6, 7, 8), (3, 5)], [[0, 1]])
    >>> found.jobs[0].ways[0][5]  # to column 2 of the other row: backwards along X first
    [('x', 0, False)]
    >>> tenants("hyperx", columns=3, rows=3, rails=1, jobs=[(range(3), range(3))])
    Traceback (most recent call last):
    ...
    lightloom.errors.InputError: columns = 3: 1 rails join at most 2 nodes all to all
    """  # noqa: E501
    request = {
        "rails": rails, "columns": columns, "rows": rows, "named": topology,
        "jobs": [{"rows": list(lines), "columns": list(across)} for lines, across in jobs],
    }  # fmt: skip
    with CoreErrors():
        answer = json.loads(_core.railx_tenants(json.dumps(request)))
    placed = (
        Job.heard(found | {"rows": lines, "columns": across})
        for found, (lines, across) in zip(answer["jobs"], jobs, strict=True)
    )
    switches = tuple(Switch(**switch) for switch in answer["maps"])
    return Tenants(topology, columns, rows, rails, tuple(placed), switches)
