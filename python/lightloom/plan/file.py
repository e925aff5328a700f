"""The plan file: what an optical controller and the nodes are to do, and how that was found.

Two tracks (SWOT, Section 3.3): for each plane the reconfigurations, for each node the
transmissions. Times are whole picoseconds from the beginning, sizes whole bytes, so that a plan is
the same wherever it is read. Checked: what is written is what is read, any other file is one
message (fuzzed), and the published schema is the one that this module makes.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.dataclasses import dataclass

from lightloom import _core
from lightloom.errors import CoreErrors, InputError
from lightloom.trace.wording import reason, shown
from lightloom.units import Time

FORMAT = "lightloom-plan"
VERSION = 1

_MOST = 2**63 - 1
# What pydantic calls a key that is not known, of a table and of a dataclass.
_UNKNOWN = ("extra_forbidden", "unexpected_keyword_argument")
Index = Annotated[int, Field(ge=0, lt=1 << 32)]
Port = Annotated[int, Field(ge=-1, lt=1 << 32)]
Picoseconds = Annotated[int, Field(ge=0, le=_MOST)]
Count = Annotated[int, Field(ge=0, le=_MOST)]
_CONFIG = ConfigDict(extra="forbid", frozen=True, strict=True)


class _Table(BaseModel):
    model_config = _CONFIG


class Made(_Table):
    """How the plan was made."""

    lightloom: str = Field(max_length=100, description="Version of the program.")
    scheduler: str = Field(max_length=100, description="Who chose the times.")
    initial: str = Field(max_length=1000, description="What the planes were said to hold at first.")
    demand: str | None = Field(
        max_length=1000, description="Where the demand of an all-to-all comes from."
    )


class CollectiveTask(_Table):
    """The plan carries out a collective algorithm."""

    kind: Literal["collective"]
    algorithm: str = Field(max_length=100, description="Its name, such as ring-allreduce.")
    size_bytes: Count = Field(description="Buffer of a node [B].")


class AllToAllTask(_Table):
    """The plan carries out an all-to-all of one's own."""

    kind: Literal["all-to-all"]
    demand: tuple[tuple[Count, ...], ...] = Field(
        description="Bytes from each node (rows) to each (columns); the diagonal stays at home."
    )


class OtherTask(_Table):
    """The plan does not say what it carries; only what holds for any plan can be checked."""

    kind: Literal["other"]


Task = Annotated[CollectiveTask | AllToAllTask | OtherTask, Field(discriminator="kind")]


class Machine(_Table):
    """Nodes, each with one port on every plane."""

    nodes: Index
    planes: Index
    rate_bps: Count = Field(description="Rate of one port [bit/s].")
    latency_ps: Picoseconds = Field(description="What a transmission takes beyond its bytes [ps].")
    reconfiguration_ps: Picoseconds = Field(description="How long a port that is set is dark [ps].")


# Plans have many of the following: slots keep them small.
@dataclass(config=_CONFIG, slots=True)
class Reconfiguration:
    """Circuits of a plane set anew; ports that are not named carry on."""

    start_ps: Annotated[Picoseconds, Field(description="When the ports go dark [ps].")]
    ready_ps: Annotated[Picoseconds, Field(description="When they can carry data [ps].")]
    circuits: Annotated[
        tuple[tuple[Index, Index], ...],
        Field(description="The port map: [transmitting, receiving node] of each new circuit."),
    ]


class PlaneTrack(_Table):
    """What the controller does to a plane."""

    plane: Index
    initial: tuple[Port, ...] = Field(
        description="Whom each node's transmitter is joined to at the beginning; -1 is nobody."
    )
    reconfigurations: tuple[Reconfiguration, ...] = Field(description="By start.")


@dataclass(config=_CONFIG, slots=True)
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
            description="The step that must have ended on all planes, and all before it; null: "
            "only its circuit."
        ),
    ]


class NodeTrack(_Table):
    """What a node sends, by start."""

    node: Index
    transmissions: tuple[Transmission, ...]


class Plan(_Table):
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
    version: Literal[1]
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
        messages = _core.plan_messages(task.algorithm, machine.nodes, task.size_bytes)
        return program(
            task.algorithm, machine.nodes, machine.planes, json.loads(messages), self.splits()
        )

    def circuits_left(self) -> list[list[int]]:
        """Return whom each node's transmitter is joined to when all is done, plane by plane.

        Raises
        ------
        InputError
            If the plan is not valid.
        """
        self.check()
        return [_final_map(track) for track in self.planes]

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
    place = Path(path)
    try:
        return parse(place.read_bytes())
    except OSError as error:
        raise InputError(f"{place}: cannot be read: {reason(error)}") from None
    except InputError as error:
        raise InputError(f"{place}: {error}") from None


def parse(text: bytes) -> Plan:
    """Read a plan's text.

    Raises
    ------
    InputError
        As `read`, without a file's name.

    Examples
    --------
    >>> parse(b'{"format": "lightloom-plan", "version": 2}')
    Traceback (most recent call last):
    ...
    lightloom.errors.InputError: version = 2: must be 1
    """
    try:
        return Plan.model_validate_json(text)
    except ValidationError as error:
        # What kind of file it is comes first; an unknown key explains a missing one.
        details = error.errors(include_url=False, include_context=True)
        first = min(
            details,
            key=lambda d: (d["loc"][:1] not in (("format",), ("version",)),
                           d["type"] not in _UNKNOWN),
        )  # fmt: skip
    if first["type"] == "json_invalid":
        raise InputError(f"not JSON: {reason(ValueError(first['ctx']['error']))}")
    key = ""
    for part in first["loc"]:
        if isinstance(part, int):
            key += f"[{part}]"
        elif part not in ("collective", "all-to-all", "other"):  # the name of a variant
            key += f".{shown(part)}" if key else shown(part)
    if first["type"] in _UNKNOWN:
        raise InputError(f"{key}: unknown key")
    if first["type"] == "missing":
        raise InputError(f"{key}: missing")
    if not key:
        raise InputError("not a plan: must be a JSON object")
    if first["type"].startswith("union_tag"):
        raise InputError(f"{key}.kind: must be one of collective, all-to-all, other")
    raise InputError(f"{key} = {_short(first['input'])}: {_in_words(first['msg'])}")


def _short(value: object) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _in_words(text: str) -> str:
    """Say what pydantic says as the rest of the program does."""
    from lightloom.messages import _WORDS

    for words, ours in _WORDS.items():
        if text.startswith(words):
            text = ours + text.removeprefix(words)
            break
    return text.partition(", unable to parse")[0].replace("'", '"')


def schema() -> dict[str, Any]:
    """Return the JSON Schema of a plan file."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Plan.model_json_schema(),
        "title": f"{FORMAT}, version {VERSION}",
        "description": "A plan for an optical controller and the nodes that it joins.",
    }


def schema_text() -> str:
    """Return the schema as it is published."""
    return json.dumps(schema(), indent=2) + "\n"


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a file to write, which takes the place of `path` if all goes well.

    Raises
    ------
    InputError
        If `path` cannot be written.
    """
    draft: Path | None = None
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        os.close(handle)
        draft = Path(name)
        yield draft
        draft.chmod(0o644)
        draft.replace(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {reason(error)}") from None
    finally:
        if draft is not None:
            draft.unlink(missing_ok=True)


def _final_map(track: PlaneTrack) -> list[int]:
    joined = list(track.initial)
    source = {to: node for node, to in enumerate(joined) if to >= 0}
    for one in sorted(track.reconfigurations, key=lambda one: one.start_ps):
        for node, to in one.circuits:
            if joined[node] >= 0:
                source.pop(joined[node], None)
            if to in source:
                joined[source[to]] = -1
            joined[node], source[to] = to, node
    return joined


def _lines(plan: Plan) -> Iterator[str]:
    """Yield the text of a file, so that people and `diff` can read it."""
    head = plan.model_dump(exclude={"planes", "nodes"})
    yield "{\n"
    for key, value in head.items():
        yield f'  "{key}": {json.dumps(value)},\n'
    yield '  "planes": [\n'
    for at, plane in enumerate(plan.planes):
        yield f'    {{"plane": {plane.plane}, "initial": {json.dumps(plane.initial)},\n'
        yield '     "reconfigurations": ['
        yield from _items(
            f'{{"start_ps": {one.start_ps}, "ready_ps": {one.ready_ps}, '
            f'"circuits": {json.dumps(one.circuits)}}}'
            for one in plane.reconfigurations
        )
        yield f"]}}{',' if at + 1 < len(plan.planes) else ''}\n"
    yield '  ],\n  "nodes": [\n'
    for at, node in enumerate(plan.nodes):
        yield f'    {{"node": {node.node}, "transmissions": ['
        yield from _items(
            f'{{"step": {one.step}, "peer": {one.peer}, "plane": {one.plane}, '
            f'"bytes": {one.bytes}, "start_ps": {one.start_ps}, "end_ps": {one.end_ps}, '
            f'"after_step": {"null" if one.after_step is None else one.after_step}}}'
            for one in node.transmissions
        )
        yield f"]}}{',' if at + 1 < len(plan.nodes) else ''}\n"
    yield "  ]\n}\n"


def _items(texts: Iterator[str]) -> Iterator[str]:
    separator = "\n      "
    for text in texts:
        yield separator + text
        separator = ",\n      "
