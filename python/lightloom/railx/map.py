"""Mapping a job on RailX: what each parallelism sends, where it goes, which rails it gets.

The decisions are the compiled core's (RailX, Sections 3.3.4 and 5, Table 4): all placements of all
degrees on the mesh, X and Y are tried. Here jobs are read, and what is worth knowing is said.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping as MappingOf
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lightloom import _core
from lightloom.errors import CoreErrors, InputError
from lightloom.plan.job import quantity, within
from lightloom.presets import load, unknown
from lightloom.units import Rate, Time

KINDS = ("tp", "cp", "ep", "dp", "pp")
"""Parallelisms, the innermost first; dp counts replicas of the tp x cp x ep block."""

OBJECTIVES = ("total", "slowest")


@dataclass(frozen=True)
class Hall:
    """What stands in the hall: all values in base units."""

    mesh: int
    ports: int
    ocs: int
    inside: float
    """Bandwidth inside a node over that of rails (k)."""
    port_rate: Rate
    """Of a rail port, each way."""
    hop: Time
    """Latency of an optical hop."""
    uneven: bool

    @classmethod
    def of(
        cls,
        *,
        mesh: int,
        ports: int,
        ocs: int,
        inside: float = 4.0,
        port_rate: str = "800 Gbps",
        hop: str = "300 ns",
        uneven: bool = False,
    ) -> Hall:
        """Read and check; what the core checks is left to it.

        Raises
        ------
        InputError
            Naming the value and what is allowed.
        """
        within("mesh", mesh, 1, 64)
        within("ports", ports, 1, 256)
        within("ocs", ocs, 2, 1 << 16)
        if not 0.01 <= inside <= 1000:
            raise InputError(f"inside = {inside}: must be 0.01 to 1000")
        rate = quantity("port-rate", port_rate, Rate)
        if not rate:
            raise InputError(f'port-rate "{port_rate}": must be more than 0')
        return cls(mesh, ports, ocs, inside, rate, quantity("hop", hop, Time), uneven)

    @property
    def rails(self) -> int:
        """Rails of a node along an axis."""
        return self.mesh * self.ports

    def request(self) -> dict[str, Any]:
        """Return what the core reads."""
        return {
            "mesh": self.mesh, "ports": self.ports, "ocs": self.ocs, "inside": self.inside,
            "port_bytes_per_s": self.port_rate / 8, "hop_s": self.hop / 1e12,
            "uneven": self.uneven,
        }  # fmt: skip


@dataclass(frozen=True)
class Work:
    """A job, as RailX's Table 4 needs it."""

    model: MappingOf[str, Any]
    parallelism: MappingOf[str, int]
    sequence: int
    micro_batch: int = 1
    micro_batches: int = 16
    activation_bytes: int = 2
    gradient_bytes: int = 2

    def request(self) -> dict[str, Any]:
        """Return what the core reads."""
        return {
            "model": dict(self.model), "parallelism": dict(self.parallelism),
            "sequence_length": self.sequence, "micro_batch": self.micro_batch,
            "micro_batches": self.micro_batches, "activation_bytes": self.activation_bytes,
            "gradient_bytes": self.gradient_bytes,
        }  # fmt: skip


@dataclass(frozen=True)
class Traffic:
    """One row of Table 4: V [B] here and as printed there, and F, how often an iteration."""

    name: str
    kind: str
    over: tuple[str, ...]
    pattern: str
    volume_bytes: float
    printed_bytes: float | None
    times: float
    time_s: float | None = None
    """All of an iteration, if it has been mapped."""


@dataclass(frozen=True)
class Place:
    """Factors of a degree: ranks inside a node, along X and along Y."""

    kind: str
    inside: int
    x: int
    y: int


@dataclass(frozen=True)
class Group:
    """Rails of a node, and whose they are; of two kinds, they have them by turns."""

    axis: str
    kinds: tuple[str, ...]
    joined: str
    """ring or all-to-all; by turns: in the turn of experts."""
    rails: int


@dataclass(frozen=True)
class Mapping:
    """Where everything goes, and how long it takes.

    Attributes
    ----------
    kinds_s
        Communication of each of `KINDS` in an iteration, one such list a stage.
    rows
        Table 4 with times, of the first stage.
    exposed_s
        What changing circuits within an iteration takes beyond the gaps, one a stage.
    cost_s
        The objective, by iterations summed over stages.
    """

    places: tuple[Place, ...]
    groups: tuple[Group, ...]
    kinds_s: tuple[tuple[float, ...], ...]
    rows: tuple[Traffic, ...]
    exposed_s: tuple[float, ...]
    cost_s: float

    @classmethod
    def of(cls, answer: MappingOf[str, Any]) -> Mapping:
        """Read the core's answer."""
        return cls(
            tuple(Place(**place) for place in answer["factors"]),
            tuple(Group(**(group | {"kinds": tuple(group["kinds"])}))
                  for group in answer["groups"]),
            tuple(tuple(times) for times in answer["kinds_s"]),
            tuple(Traffic(**(row | {"over": tuple(row["over"])})) for row in answer["rows"]),
            tuple(answer["exposed_s"]), answer["cost_s"],
        )  # fmt: skip

    def as_json(self) -> dict[str, Any]:
        """Return it as dictionaries and lists."""
        return {
            "places": [vars(place) for place in self.places],
            "groups": [vars(group) for group in self.groups],
            "kinds_s": [dict(zip(KINDS, times, strict=True)) for times in self.kinds_s],
            "rows": [vars(row) for row in self.rows],
            "exposed_s": list(self.exposed_s), "cost_s": self.cost_s,
        }  # fmt: skip


@dataclass(frozen=True)
class Mapped:
    """What was found.

    Attributes
    ----------
    fixed
        The best mapping whose circuits stand through all stages.
    turns
        The best in which context and expert parallelism have an axis's rails by turns; None if
        either has one rank only, or nowhere fits so.
    segments
        First stage, the one after the last, and the mapping, where circuits may change between
        stages; none for one stage.
    segments_cost_s
        Their cost, changes included.
    """

    hall: Hall
    work: Work
    stages: tuple[tuple[int, float], ...]
    fixed: Mapping
    turns: Mapping | None
    segments: tuple[tuple[int, int, Mapping], ...]
    segments_cost_s: float
    notes: list[str] = field(default_factory=list)

    @property
    def best(self) -> str:
        """Which is cheapest: fixed, turns or segments; the simplest of equal ones."""
        costs = {"fixed": self.fixed.cost_s}
        if self.segments:
            costs["segments"] = self.segments_cost_s
        if self.turns is not None:
            costs["turns"] = self.turns.cost_s
        return min(costs, key=lambda name: costs[name])

    @property
    def fabric(self) -> dict[str, str | bool] | None:
        """The keys of a fabric with the rails of `fixed`; None if no job lies on servers so.

        A job's ranks fill a node, then a row, then the next: tp first, pp last.
        """
        kinds = {kind: at for at, kind in enumerate(KINDS)}
        places = {place.kind: place for place in self.fixed.places}
        outside = [place for place in self.fixed.places if place.x * place.y > 1]
        inside = [place.kind for place in self.fixed.places if place.inside > 1]
        first = min((kinds[place.kind] for place in outside), default=len(KINDS))
        if any(kinds[kind] > first for kind in inside):
            return None
        for axes in (("x", "y"), ("y", "x")):
            sizes = [[getattr(place, axis) for place in outside] for axis in axes]
            row = [at for at, size in enumerate(sizes[0]) if size > 1]
            column = [at for at, size in enumerate(sizes[1]) if size > 1]
            if not row or not column or row[-1] <= column[0]:
                break
        else:
            return None
        keys: dict[str, str | bool] = {"topology": "split"}
        for key, axis in zip("xy", axes, strict=True):
            groups = [group for group in self.fixed.groups if group.axis == axis]
            groups.sort(key=lambda group: kinds[group.kinds[0]])
            each = 1 if self.hall.uneven else self.hall.mesh
            parts = [
                f"{'ring' if group.joined == 'ring' else 'all'}:"
                f"{getattr(places[group.kinds[0]], axis)}*{group.rails // each}"
                for group in groups
            ]
            if parts:
                keys[key] = ",".join(parts)
        return keys | ({"uneven": True} if self.hall.uneven else {})

    def as_json(self) -> dict[str, Any]:
        """Return it as dictionaries and lists."""
        segments = [{"first": first, "end": end} | mapping.as_json()
                    for first, end, mapping in self.segments]  # fmt: skip
        return {
            "model": self.work.model["name"], "parallelism": dict(self.work.parallelism),
            "stages": [{"sequence": s, "iterations": n} for s, n in self.stages],
            "best": self.best, "fixed": self.fixed.as_json(), "fabric": self.fabric,
            "turns": None if self.turns is None else self.turns.as_json(),
            "segments": segments, "segments_cost_s": self.segments_cost_s if segments else None,
            "notes": self.notes,
        }  # fmt: skip


def map_job(
    hall: Hall,
    work: Work,
    *,
    stages: Sequence[tuple[int, float]] = (),
    hidden: MappingOf[str, float] | None = None,
    objective: str = "total",
    delay: str = "25 ms",
    gap: str = "6 ms",
    gap_back: str | None = None,
) -> Mapped:
    """Find the best mapping of a job, with circuits that stand and with circuits that change.

    Parameters
    ----------
    stages
        Of the training: tokens of a sequence, and iterations. One of `work` if none.
    hidden
        Computation [s] of an iteration behind which the communication of a kind may hide.
    objective
        What is least: the ``total`` of the kinds' times, or the ``slowest``.
    delay, gap, gap_back
        How long a switch is dark when it changes; time between the end of context and the start of
        expert traffic, and back (the same if None). What a change takes beyond its gap is exposed.

    Raises
    ------
    InputError
        If a value cannot be used, or no placement is legal.

    Examples
    --------
    >>> hall = Hall.of(mesh=4, ports=4, ocs=128)
    >>> work = Work(read_model("mixtral-8x7b"), read_degrees("tp=16,cp=2,ep=8,dp=4,pp=4"), 8192)
    >>> found = map_job(hall, work)
    >>> found.fixed.places[0]
    Place(kind='tp', inside=16, x=1, y=1)
    >>> [(group.axis, group.kinds, group.rails) for group in found.fixed.groups]
    [('x', ('cp',), 8), ('x', ('dp',), 4), ('x', ('pp',), 4), ('y', ('ep',), 16)]
    """
    if objective not in OBJECTIVES:
        raise InputError(f"objective = {objective}: no such objective"
                         f"{unknown(objective, OBJECTIVES)}")  # fmt: skip
    dark, there = quantity("ocs-delay", delay, Time), quantity("gap", gap, Time)
    back = there if gap_back is None else quantity("gap-back", gap_back, Time)
    stages = tuple(stages) or ((work.sequence, 1.0),)
    degrees = work.parallelism
    by_turns = degrees["cp"] > 1 and degrees["ep"] > 1
    turns = {"delay_s": dark / 1e12, "gap_s": there / 1e12, "gap_back_s": back / 1e12}
    request = {
        "work": work.request(), "hall": hall.request(),
        "stages": [{"sequence_length": s, "iterations": n} for s, n in stages],
        "hidden_s": [float((hidden or {}).get(kind, 0.0)) for kind in KINDS],
        "objective": objective, "turns": turns if by_turns else None, "change_s": dark / 1e12,
    }  # fmt: skip
    answer = _ask(_core.railx_map, request)
    if answer["fixed"] is None:
        raise InputError(_nowhere(hall, degrees))
    segments = tuple((part["first"], part["end"], Mapping.of(part["mapping"]))
                     for part in answer["segments"])  # fmt: skip
    return Mapped(
        hall, work, stages, Mapping.of(answer["fixed"]),
        None if answer["turns"] is None else Mapping.of(answer["turns"]),
        segments, answer["segments_cost_s"], _notes(hall, work),
    )  # fmt: skip


def traffic(work: Work) -> tuple[list[Traffic], float]:
    """Return Table 4 of a job, and the FLOPs of a token's forward pass.

    Examples
    --------
    >>> work = Work(read_model("mixtral-8x7b"), read_degrees("tp=16,ep=8,pp=4"), 8192)
    >>> [(row.kind, row.name) for row in traffic(work)[0]][:4]
    [('tp', 'attention'), ('tp', 'experts'), ('cp', 'keys and values'), ('ep', 'tokens')]
    """
    answer = _ask(_core.railx_traffic, work.request())
    rows = [Traffic(**(row | {"over": tuple(row["over"])})) for row in answer["rows"]]
    return rows, float(answer["token_flops"])


def read_model(name: str) -> dict[str, Any]:
    """Read a model's shape: a preset, or a ``config.json`` of Hugging Face.

    Raises
    ------
    InputError
        If there is neither.
    """
    if name.endswith(".json"):
        from lightloom.huggingface import read_config

        return read_config(Path(name))
    return dict(load("models", name).values["model"])


def read_degrees(text: str) -> dict[str, int]:
    """Read degrees of parallelism, such as ``tp=16,cp=3,ep=3,dp=4,pp=4``; others are 1.

    Raises
    ------
    InputError
        Naming the part that cannot be read.

    Examples
    --------
    >>> read_degrees("tp=16,ep=8")
    {'tp': 16, 'cp': 1, 'ep': 8, 'dp': 1, 'pp': 1}
    >>> read_degrees("tp=16,xp=8")
    Traceback (most recent call last):
    ...
    lightloom.errors.InputError: parallelism "xp=8": must be a kind and a degree, such as tp=16; \
kinds: tp, cp, ep, dp, pp
    """
    found: dict[str, int] = {}
    for part, kind, value in _pairs("parallelism", text, r"[0-9]{1,7}", "a degree, such as tp=16"):
        if kind in found:
            raise InputError(f'parallelism "{part}": {kind} has a degree already')
        if not 1 <= int(value) <= 1 << 22:
            raise InputError(f'parallelism "{part}": must be 1 to {1 << 22}')
        found[kind] = int(value)
    return {kind: found.get(kind, 1) for kind in KINDS}


def read_hidden(text: str) -> dict[str, float]:
    """Read computation that hides communication [s], such as ``dp=200 ms,pp=10 ms``.

    Examples
    --------
    >>> read_hidden("dp=200 ms,pp=10 ms")
    {'dp': 0.2, 'pp': 0.01}
    """
    found: dict[str, float] = {}
    for part, kind, value in _pairs("hide", text, r".+", "a time, such as dp=200 ms"):
        if kind in found:
            raise InputError(f'hide "{part}": {kind} has a time already')
        found[kind] = quantity(f"hide {kind}", value.strip(), Time) / 1e12
    return found


def read_stages(text: str) -> tuple[tuple[int, float], ...]:
    """Read tokens of a sequence, or stages of a training with iterations each.

    Examples
    --------
    >>> read_stages("8192")
    ((8192, 1.0),)
    >>> read_stages("8192*9000, 131072*800")
    ((8192, 9000.0), (131072, 800.0))
    """
    found = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*([0-9]{1,8})(?:\s*\*\s*([0-9]{1,9}))?\s*", part, re.ASCII)
        if match is None or not 1 <= int(match[1]) <= 1 << 24 or (match[2] and not int(match[2])):
            raise InputError(
                f'sequence "{part.strip()}": must be tokens, at most {1 << 24}, such as 8192, or '
                "with iterations, such as 8192*9000"
            )
        found.append((int(match[1]), float(match[2] or 1)))
    within("stages in sequence", len(found), 1, 16)
    return tuple(found)


def _pairs(name: str, text: str, value: str, what: str) -> list[tuple[str, str, str]]:
    """Split ``kind=value,...``: the part as written, its kind, its value."""
    found = []
    for part in (part.strip() for part in text.split(",")):
        match = re.fullmatch(rf"([a-z]+)\s*=\s*({value})", part, re.ASCII)
        if match is None or match[1] not in KINDS:
            raise InputError(
                f'{name} "{part}": must be a kind and {what}; kinds: {", ".join(KINDS)}'
            )
        found.append((part, match[1], match[2]))
    return found


def _ask(function: Any, request: dict[str, Any]) -> dict[str, Any]:
    with CoreErrors():
        answer: dict[str, Any] = json.loads(function(json.dumps(request)))
    return answer


def _nowhere(hall: Hall, degrees: MappingOf[str, int]) -> str:
    chips, node, side = 1, hall.mesh**2, hall.ocs // 2
    for degree in degrees.values():
        chips *= degree
    shown = " * ".join(f"{degrees[kind]}" for kind in KINDS)
    head = f"parallelism = {shown} = {chips} chips: "
    if chips % node:
        return f"{head}must fill nodes of {hall.mesh} x {hall.mesh} = {node} chips"
    return (
        f"{head}fits nowhere: nodes must be filled by factors of the degrees, an axis has at most "
        f"{side} nodes, and each dimension on it needs one of {hall.ports} ports of a chip edge "
        f"({hall.rails} rails if uneven)"
    )


def _notes(hall: Hall, work: Work) -> list[str]:
    """Say where a job is not what its degrees seem to say."""
    model, degrees, notes = work.model, work.parallelism, []
    if model["experts"] % degrees["ep"]:
        most = -(-model["experts"] // degrees["ep"])
        notes.append(
            f"{model['experts']} experts on {degrees['ep']} ranks: times are those of a rank with "
            f"{most}"
        )
    if model["layers"] % degrees["pp"]:
        most = -(-model["layers"] // degrees["pp"])
        notes.append(
            f"{model['layers']} layers on {degrees['pp']} stages: times are those of a stage with "
            f"{most}"
        )
    heads = model["attention"].get("kv_heads")
    if heads is not None and degrees["tp"] > heads:
        notes.append(
            f"{heads} key and value heads on {degrees['tp']} tensor ranks: copies of heads, which "
            "the ring of context ranks would carry too, are not counted"
        )
    if degrees["tp"] > hall.mesh**2:
        notes.append(f"tp = {degrees['tp']} does not fit in a node: part of it is on rails")
    return notes
