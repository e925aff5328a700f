"""The plan file: what an optical controller and the nodes are to do, and how that was found.

Two tracks (SWOT, Section 3.3): for each plane the reconfigurations, for each node the
transmissions. Times are whole picoseconds from the beginning, sizes whole bytes, so that a plan is
the same wherever it is read. Checked: what is written is what is read, any other file is one
message (fuzzed), and the published schema is the one that this module makes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from lightloom import _core, document
from lightloom.document import CONFIG, Count, Index, Picoseconds, Table, items, replacing
from lightloom.errors import CoreErrors, InputError
from lightloom.maps import Device, PortMaps
from lightloom.units import Time

FORMAT = "lightloom-plan"
VERSION = 2
"""Plans over a grid; those without one are of version 1."""

Port = Annotated[int, Field(ge=-1, lt=1 << 32)]


class Made(Table):
    """How the plan was made."""

    lightloom: str = Field(max_length=100, description="Version of the program.")
    scheduler: str = Field(max_length=100, description="Who chose the times.")
    initial: str = Field(max_length=1000, description="What the planes were said to hold at first.")
    demand: str | None = Field(
        max_length=1000, description="Where the demand of an all-to-all comes from."
    )


class CollectiveTask(Table):
    """The plan carries out a collective algorithm."""

    kind: Literal["collective"]
    algorithm: str = Field(max_length=100, description="Its name, such as ring-allreduce.")
    size_bytes: Count = Field(description="Buffer of a node [B].")


class AllToAllTask(Table):
    """The plan carries out an all-to-all of one's own."""

    kind: Literal["all-to-all"]
    demand: tuple[tuple[Count, ...], ...] = Field(
        description="Bytes from each node (rows) to each (columns); the diagonal stays at home."
    )


class OtherTask(Table):
    """The plan does not say what it carries; only what holds for any plan can be checked."""

    kind: Literal["other"]


Task = Annotated[CollectiveTask | AllToAllTask | OtherTask, Field(discriminator="kind")]


class Dimension(Table):
    """A dimension of a grid: its planes join nodes of one line only."""

    nodes: Index = Field(description="Nodes of a line: the ports that a switch of it needs.")
    planes: Index = Field(description="Its planes; the first dimension has the first ones.")


class Machine(Table):
    """Nodes, each with one port on every plane."""

    nodes: Index
    planes: Index
    grid: tuple[Dimension, ...] = Field(
        default=(),
        description="The dimensions of the grid that nodes form, in version 2: node i is at "
        "i mod d in the first, of d nodes, and so on. None: every plane joins all nodes.",
    )
    rate_bps: Count = Field(description="Rate of one port [bit/s].")
    latency_ps: Picoseconds = Field(description="What a transmission takes beyond its bytes [ps].")
    reconfiguration_ps: Picoseconds = Field(description="How long a port that is set is dark [ps].")


# Plans have many of the following: slots keep them small.
@dataclass(config=CONFIG, slots=True)
class Reconfiguration:
    """Circuits of a plane set anew; ports that are not named carry on."""

    start_ps: Annotated[Picoseconds, Field(description="When the ports go dark [ps].")]
    ready_ps: Annotated[Picoseconds, Field(description="When they can carry data [ps].")]
    circuits: Annotated[
        tuple[tuple[Index, Index], ...],
        Field(description="The port map: [transmitting, receiving node] of each new circuit."),
    ]


class PlaneTrack(Table):
    """What the controller does to a plane."""

    plane: Index
    initial: tuple[Port, ...] = Field(
        description="Whom each node's transmitter is joined to at the beginning; -1 is nobody."
    )
    reconfigurations: tuple[Reconfiguration, ...] = Field(description="By start.")


@dataclass(config=CONFIG, slots=True)
class Transmission:
    """What a node sends to a peer over one plane."""

    step: Annotated[Index, Field(description="The step it belongs to; 0 where there are none.")]
    peer: Annotated[Index, Field(description="Who receives.")]
    plane: Index
    bytes: Count
    start_ps: Annotated[Picoseconds, Field(description="Not before [ps].")]
    end_ps: Annotated[Picoseconds, Field(description="When the last byte has arrived [ps].")]
    after_step: Annotated[
        Index | None,
        Field(
            description="The step that must have ended on all planes, and all before it (over a "
            "grid, that step alone); null: only its circuit."
        ),
    ]


class NodeTrack(Table):
    """What a node sends, by start."""

    node: Index
    transmissions: tuple[Transmission, ...]


class Plan(Table):
    """A plan for an optical controller and the nodes that it joins.

    Examples
    --------
    >>> from lightloom.plan import Job, plan_collective
    >>> job = Job.of("ring-allgather", nodes=4, size="4 MB", planes=1, node_bandwidth="800 Gbps")
    >>> plan = plan_collective(job, plan="swot").plan
    >>> str(plan.completion)
    '45 us'
    >>> [send.peer for send in plan.nodes[2].transmissions]
    [3, 3, 3]
    """

    format: Literal["lightloom-plan"]
    version: Literal[1, 2]
    made: Made
    task: Task
    machine: Machine
    completion_ps: Picoseconds = Field(description="When the last byte has arrived [ps].")
    bound_ps: Picoseconds = Field(description="Proven: no plan completes before [ps].")
    planes: tuple[PlaneTrack, ...] = Field(description="The controller's track, plane by plane.")
    nodes: tuple[NodeTrack, ...] = Field(description="The nodes' track, node by node.")

    @property
    def completion(self) -> Time:
        """When the last byte has arrived."""
        return Time(self.completion_ps)

    @property
    def gap(self) -> float:
        """(completion - bound) / completion."""
        return (self.completion_ps - self.bound_ps) / max(self.completion_ps, 1)

    def tracks_json(self) -> str:
        """Return the machine and both tracks as the compiled core takes them."""
        return self.model_dump_json(exclude={"format", "version", "made", "task"})

    def check(self) -> Time:
        """Replay the plan port by port against its task; returns its completion.

        Raises
        ------
        InputError
            With the first thing that is wrong.
        """
        task = self.task
        with CoreErrors():
            return Time(_core.plan_check(self.tracks_json(), task.model_dump_json()))

    def run(self) -> dict[str, Any]:
        """Carry the plan out on the flow engine.

        Returns
        -------
        dict
            ``completion_ps``, ``planned_ps``, ``events``, and ``planes``: for each plane
            ``bytes``, ``circuits`` set, and ``busy_ps`` and ``dark_ps``, sums over transmitters.

        Raises
        ------
        InputError
            If the plan names nodes, planes or steps that it does not have.
        RunError
            If its circuits cannot carry it.
        """
        with CoreErrors():
            return _core.plan_run(self.tracks_json())

    def splits(self) -> list[list[tuple[int, int]]]:
        """Return, for each step, (plane, bytes of a node) of each plane that serves it.

        Examples
        --------
        >>> from lightloom.plan import Job, plan_collective
        >>> job = Job.of("ring-allgather", nodes=3, size="3 MB", planes=2, latency="0 us")
        >>> plan_collective(job, plan="lockstep").plan.splits()
        [[(0, 500000), (1, 500000)], [(0, 500000), (1, 500000)]]
        """
        carried: dict[int, dict[int, int]] = {}
        for node in self.nodes:
            own: dict[tuple[int, int], int] = {}
            for send in node.transmissions:
                at = send.step, send.plane
                own[at] = own.get(at, 0) + send.bytes
            for (step, plane), size in own.items():
                carried.setdefault(step, {})[plane] = size
        return [sorted(carried[step].items()) for step in sorted(carried)]

    def msccl(self) -> str:
        """Return the nodes' track as a program for MSCCL runtimes (XML).

        Raises
        ------
        InputError
            If MSCCL cannot say it, with the reason.
        """
        from lightloom.plan.msccl import program

        task, machine = self.task, self.machine
        if task.kind != "collective":
            raise InputError(
                "--msccl: MSCCL runs collectives of equal chunks; allowed: plans of algorithms"
            )
        grid = json.dumps([one.model_dump() for one in machine.grid])
        messages = _core.plan_messages(task.algorithm, machine.nodes, task.size_bytes, grid)
        return program(
            task.algorithm, machine.nodes, machine.planes, json.loads(messages), self.splits()
        )

    def port_maps(self) -> PortMaps:
        """Return the controller's track as port maps: a plane a device, a node a port.

        Over a grid each line of a plane's dimension is a device.

        Raises
        ------
        InputError
            If the plan is not valid.

        Examples
        --------
        >>> from lightloom.plan import Job, plan_collective
        >>> job = Job.of("rabenseifner-allreduce", nodes=4, size="4 MB", planes=2)
        >>> maps = plan_collective(job, plan="swot").plan.port_maps()
        >>> [(device.device, device.left()[:2]) for device in maps.devices]
        [('plane 0', ((0, 1), (1, 0))), ('plane 1', ((0, 2), (1, 3)))]
        """
        self.check()
        task = self.task.algorithm if self.task.kind == "collective" else self.task.kind
        by = f"lightloom plan: {task} by {self.made.scheduler}"
        return PortMaps.of(
            by,
            (
                self._device(track, name, nodes)
                for track in self.planes
                for name, nodes in self._switches(track.plane)
            ),
        )

    def _switches(self, plane: int) -> Iterator[tuple[str, Sequence[int]]]:
        """Yield the switches of a plane: names, and the nodes of their ports."""
        stride, planes = 1, 0
        for dimension in self.machine.grid:
            planes += dimension.planes
            if plane < planes:
                span = stride * dimension.nodes
                firsts = (n for n in range(self.machine.nodes) if n % span < stride)
                for line, first in enumerate(firsts):
                    yield f"plane {plane}, line {line}", range(first, first + span, stride)
                return
            stride *= dimension.nodes
        yield f"plane {plane}", range(self.machine.nodes)

    def _device(self, track: PlaneTrack, name: str, nodes: Sequence[int]) -> Device:
        """Return a switch as a device, with whom each setting waits for."""
        port = {node: at for at, node in enumerate(nodes)}
        sends = [
            sorted(
                one.start_ps for one in self.nodes[node].transmissions if one.plane == track.plane
            )
            for node in nodes
        ]

        def own(one: Reconfiguration) -> Reconfiguration:
            circuits = tuple((port[a], port[b]) for a, b in one.circuits if a in port)
            return Reconfiguration(one.start_ps, one.ready_ps, circuits)

        to = track.initial
        settings = map(own, track.reconfigurations)
        return Device.of(
            name, (0, len(nodes) - 1),
            attached=((at, node, track.plane) for node, at in port.items()),
            initial=((at, port[to[node]]) for node, at in port.items() if to[node] >= 0),
            settings=(one for one in settings if one.circuits), sends=sends,
        )  # fmt: skip

    def write(self, path: str | Path) -> None:
        """Write the plan, one reconfiguration or transmission a line, whole or not at all.

        Raises
        ------
        InputError
            If the file cannot be written.
        """
        with replacing(Path(path)) as draft, draft.open("w", encoding="utf-8") as file:
            file.writelines(_lines(self))


def read(path: str | Path) -> Plan:
    """Read a plan; what it says is not checked (see `Plan.check`).

    Raises
    ------
    InputError
        If the file is no plan; the message names the key, its value and what is allowed.
    """
    return document.read(path, parse)


def parse(text: bytes) -> Plan:
    """Read a plan's text.

    Raises
    ------
    InputError
        As `read`, without a file's name.

    Examples
    --------
    >>> parse(b'{"format": "lightloom-plan", "version": 3}')
    Traceback (most recent call last):
    ...
    lightloom.errors.InputError: version = 3: must be 1 or 2
    """
    plan = document.parse(Plan, text, "a plan", ("collective", "all-to-all", "other"))
    if plan.version != version(plan.machine):
        raise InputError(f"version = {plan.version}: must be 2 with machine.grid, 1 without")
    return plan


def version(machine: Machine) -> int:
    """Return the version of a machine's plans."""
    return VERSION if machine.grid else 1


def schema() -> dict[str, Any]:
    """Return the JSON Schema of a plan file."""
    about = "A plan for an optical controller and the nodes that it joins."
    return document.schema(Plan, f"{FORMAT}, version {VERSION}", about)


def _lines(plan: Plan) -> Iterator[str]:
    """Yield the text of a file, so that people and `diff` can read it."""
    head = plan.model_dump(exclude={"planes", "nodes"})
    if not plan.machine.grid:
        del head["machine"]["grid"]
    yield "{\n"
    for key, value in head.items():
        yield f'  "{key}": {json.dumps(value)},\n'
    yield '  "planes": [\n'
    for at, plane in enumerate(plan.planes):
        yield f'    {{"plane": {plane.plane}, "initial": {json.dumps(plane.initial)},\n'
        yield '     "reconfigurations": ['
        yield from items(
            f'{{"start_ps": {one.start_ps}, "ready_ps": {one.ready_ps}, '
            f'"circuits": {json.dumps(one.circuits)}}}'
            for one in plane.reconfigurations
        )
        yield f"]}}{',' if at + 1 < len(plan.planes) else ''}\n"
    yield '  ],\n  "nodes": [\n'
    for at, node in enumerate(plan.nodes):
        yield f'    {{"node": {node.node}, "transmissions": ['
        yield from items(
            f'{{"step": {one.step}, "peer": {one.peer}, "plane": {one.plane}, '
            f'"bytes": {one.bytes}, "start_ps": {one.start_ps}, "end_ps": {one.end_ps}, '
            f'"after_step": {"null" if one.after_step is None else one.after_step}}}'
            for one in node.transmissions
        )
        yield f"]}}{',' if at + 1 < len(plan.nodes) else ''}\n"
    yield "  ]\n}\n"
