"""Sets a grid of RailX to a topology: port maps, circuits, routes.

Modelled: where jobs may be is RailX's own answer to nodes that are lost
(`lightloom.railx.faults`). `lightloom controller load` gives the maps to all switches of rows and
columns over TL1, and reads them back. Then every node is told its routes. Ignored: jobs under way;
a grid is set while there is none.
Checked: ``tests/test_testbed_railx.py``.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from lightloom import daemon
from lightloom.errors import InputError, RunError
from lightloom.presets import guess
from lightloom.railx.faults import Job as Wanted
from lightloom.railx.faults import allocate
from lightloom.railx.tenants import tenants
from lightloom.testbed import grid, network, record, system
from lightloom.testbed.alone import only_one
from lightloom.testbed.network import Network
from lightloom.testbed.shape import Shape
from lightloom.testbed.switches import switches_file

TOPOLOGIES = ("torus", "hyperx")


@dataclass(frozen=True)
class Rewired:
    """What was done.

    Attributes
    ----------
    network
        What the grid is set to.
    ended, set
        Circuits that were ended, and that were set; all others carried on.
    circuits
        Circuits that stand.
    load_seconds, routes_seconds
        What the controller took, with its start and end, and what it took to give nodes their
        routes [s].
    """

    network: Network
    ended: int
    set: int
    circuits: int
    load_seconds: float
    routes_seconds: float

    @property
    def lanes(self) -> list[int]:
        """By job: between two nodes."""
        return [grid.lanes(job) for job in self.network.jobs]

    def said(self) -> dict[str, Any]:
        """Return it for JSON: jobs with rows, columns and nodes."""
        jobs = [
            {"rows": job.rows, "columns": job.columns, "nodes": job.nodes, "lanes": lanes}
            for job, lanes in zip(self.network.jobs, self.lanes, strict=True)
        ]
        return {
            "topology": self.network.topology, "lost": self.network.lost, "jobs": jobs,
            "ended": self.ended, "set": self.set, "circuits": self.circuits,
            "load_seconds": self.load_seconds, "routes_seconds": self.routes_seconds,
        }  # fmt: skip


def rewire(
    name: str,
    topology: str,
    lost: Sequence[str] = (),
    jobs: Sequence[Wanted] = (None,),
    told: Callable[[str], None] = lambda line: None,
) -> Rewired:
    """Set a testbed's grid to a topology.

    Parameters
    ----------
    name
        The testbed's name.
    topology
        One of `TOPOLOGIES`.
    lost
        Nodes that no circuit may end at, as ``node-04``.
    jobs
        Which jobs are wanted: columns and rows, nodes, or none for as many as can be.
    told
        Is called with what is done next.

    Raises
    ------
    InputError
        If there is no such testbed, topology, node, or room for a job; or a job is under way.
    RunError
        If a switch cannot be set, or a node not told; the message says what stands.
    """
    shape = record.known(name)
    system.check()
    program = daemon.find()
    if shape.eps != "railx":
        raise InputError(f"--name: {name}: is no grid of RailX: `lightloom testbed up --railx 3x3`")
    wanted, maps = planned(shape, topology, lost, jobs)
    with only_one(shape):
        place = record.place(name)
        maps.write(place / "maps.json")
        (place / "switches.toml").write_text(switches_file(shape))
        told(f"{topology} on {sum(len(job.nodes) for job in wanted.jobs)} nodes")
        begun = time.monotonic()
        ended, made = _load(shape, program)
        loaded = time.monotonic()
        # Until nodes know, nobody may run.
        network.place(name).unlink(missing_ok=True)
        for batch in grid.told(shape, wanted.jobs):
            system.run(batch)
        network.write(name, wanted)
        circuits = sum(len(device.initial) for device in maps.devices)
        return Rewired(
            wanted, ended, made, circuits, loaded - begun, time.monotonic() - loaded
        )  # fmt: skip


def planned(
    shape: Shape, topology: str, lost: Sequence[str] = (), jobs: Sequence[Wanted] = (None,)
) -> tuple[Network, Any]:
    """Return what a grid would be set to, and the port maps.

    Raises
    ------
    InputError
        If there is no such topology or node, or no room for a job.

    Examples
    --------
    >>> shape = Shape(eps="railx", grid="3x3")
    >>> network, maps = planned(shape, "torus", ["node-04"], [None, None])
    >>> [job.nodes for job in network.jobs]
    [(0, 2, 3, 5, 6, 8), (1, 7)]
    >>> [(device.device, device.initial) for device in maps.devices[2:3]]
    [('x/1/0', ((0, 5), (1, 4)))]
    >>> planned(shape, "torus", ["node-09"])
    Traceback (most recent call last):
    ...
    lightloom.errors.InputError: --lost: node-09: no such node; allowed: node-00 to node-08
    """
    if topology not in TOPOLOGIES:
        meant = guess(topology, TOPOLOGIES)
        raise InputError(f"TOPOLOGY: {topology}: must be one of {', '.join(TOPOLOGIES)}{meant}")
    faults = []
    for node in dict.fromkeys(lost):
        if node not in shape.nodes:
            first, *_, last = shape.nodes
            raise InputError(f"--lost: {node}: no such node; allowed: {first} to {last}")
        faults.append(divmod(shape.nodes.index(node), shape.columns))
    found = allocate(shape.rows, shape.columns, faults, jobs)
    if None in found.jobs or not found.jobs:
        at = found.jobs.index(None) if found.jobs else 0
        raise InputError(
            f"--jobs: job {at} has no room: {found.used} of {found.healthy} nodes have others"
        )
    placed = [(job.rows, job.columns) for job in found.jobs if job is not None]
    size = {"columns": shape.columns, "rows": shape.rows, "rails": shape.rails or 0}
    try:
        made = tenants(topology, **size, jobs=placed)
    except InputError as error:
        raise InputError(f"TOPOLOGY: {topology}: {error}") from None
    numbers = tuple(row * shape.columns + column for row, column in faults)
    return Network(topology, numbers, made.jobs), made.port_maps()


def _load(shape: Shape, program: str) -> tuple[int, int]:
    """Let the controller set all switches; return how many circuits were ended, and set."""
    place = record.place(shape.name)
    words = [program, "--log-level", "error", "controller", "load", str(place / "maps.json")]
    words += ["--switches", str(place / "switches.toml"), "--before", str(place / "before.json")]
    try:
        said = system.call(*system.within(shape.ocs, *words, "--json"))
    except RunError as error:
        # The command is long; what it says is behind it.
        raise RunError(f"controller load: {str(error).rpartition('--json: ')[2]}") from None
    changes = json.loads(said)["changes"]
    return int(changes["end"]), int(changes["set"])
