"""Several jobs on one fabric, as a file says them: the cluster's tables, and a ``[[jobs]]`` each.

A job resolves as a specification of its own (`lightloom.resolve`): the same presets, rules and
messages, on the fabric and the engine of all. Its layers, the lowest first: defaults; the file's
``seed``, ``cluster``, ``fabric``, ``engine``, ``compute`` and ``memory``; what its ``spec`` says
of the job; its own tables; the command line. Checked: what is refused, round trips, in
``tests/test_jobs.py``.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from lightloom import messages, presets
from lightloom.errors import InputError
from lightloom.fields import Count, Label, Section
from lightloom.layers import Layer, copied, nested
from lightloom.resolve import defaults_of, merged, resolved
from lightloom.scenario import Scenario
from lightloom.toml_text import read_toml, short_text, to_toml
from lightloom.units import Time

POLICIES = ("packed", "spread")
"""Where a job goes that is given no servers."""
OF_ALL = ("seed", "cluster", "fabric", "engine", "compute", "memory")
"""What the file says once, for all jobs."""
OF_A_JOB = ("seed", "model", "parallelism", "training", "compute", "memory", "gating")
"""What each job says, or its ``spec``."""
MOST_JOBS = 256

_RANGE = re.compile(r"(\d{1,7})(?:\.\.(\d{1,7}))?")


class Placed(Section):
    """One of several jobs: its tables are those of a specification; here is where it runs."""

    name: Label | None = None
    """What results call the job; its model's name and its number unless given."""
    spec: Label | None = None
    """A specification that says the job's seed, model, parallelism, training, compute, memory and
    gating; relative to the file. Its other tables are not read, which the result notes."""
    gpus: Count | None = None
    """GPUs of the job, whole servers: unless given those of `servers`, or `cluster.gpus` of
    `spec`."""
    servers: Label | tuple[Annotated[int, Field(ge=0, lt=1 << 20)], ...] = "packed"
    """Where its ranks run, in order: `"0..16"` (server 0 to 15), `"0..4,8..12"` or a list; or
    `packed`, the first servers that are free; `spread`, servers of one leaf after the other in
    turn. Servers that are given are taken first."""
    start: Annotated[Time, Field(le=10**15)] = Time(0)
    """When its first iteration begins."""
    iterations: Annotated[int, Field(ge=1, le=1 << 16)] = 1
    """How many follow one another; each sends the same tokens."""


@dataclass(frozen=True)
class PlacedJob:
    """One of several jobs, resolved."""

    name: str
    scenario: Scenario
    """As if it were alone, on as many GPUs as it has."""
    servers: str | tuple[int, ...]
    start: Time
    iterations: int

    def to_tree(self) -> dict[str, Any]:
        """Return the table of the user's form."""
        tree = self.scenario.to_tree()
        return {
            "name": self.name,
            "gpus": self.scenario.cluster.gpus,
            "servers": self.servers if isinstance(self.servers, str) else list(self.servers),
            "start": str(self.start),
            "iterations": self.iterations,
            **{key: tree[key] for key in OF_A_JOB},
        }


@dataclass(frozen=True)
class JobsSpec:
    """Several jobs on one fabric, resolved.

    Examples
    --------
    >>> job = {"model": {"preset": "mixtral-8x7b"}, "parallelism": {"pp": 1}, "gpus": 32}
    >>> spec = JobsSpec.load({"cluster": {"gpus": 64}, "jobs": [job, job]})
    >>> [one.name for one in spec.jobs], spec.servers
    (['mixtral-8x7b 1', 'mixtral-8x7b 2'], 8)
    >>> spec.place().together
    ((0, 1, 2, 3), (4, 5, 6, 7))
    """

    label: str
    """What messages call the file."""
    title: str
    gpus: int
    jobs: tuple[PlacedJob, ...]
    notes: tuple[str, ...] = field(default=())

    @classmethod
    def load(
        cls,
        source: str | PathLike[str] | Mapping[str, Any],
        overrides: Mapping[str, Any] | None = None,
        *,
        override_label: str = "override",
    ) -> JobsSpec:
        """Resolve a TOML file, or tables in the same form, with `overrides` for every job on top.

        Raises
        ------
        InputError
            One message that names file, key, value and what is allowed.
        """
        if isinstance(source, Mapping):
            table, directory, label = copied(source, "jobs"), Path(), "jobs"
        else:
            path = Path(source)
            table, directory, label = read_toml(path), path.parent, os.fspath(source)
        above = nested(overrides or {}, override_label)
        listed = _listed(table, label)
        _known(table, ("name", "jobs", *OF_ALL), label)
        _known(above, (*OF_ALL, *OF_A_JOB), override_label)
        name = table.pop("name", None)
        if name is not None and not (isinstance(name, str) and name):
            raise InputError(f"{label}: name = {short_text(name)}: must be text")
        gpus = _gpus(table, above, label, override_label)
        top = Layer({key: table[key] for key in OF_ALL if key in table}, label, directory)
        read = _Reader(top, Layer(above, override_label), gpus)
        jobs = tuple(read.job(number, one) for number, one in enumerate(listed))
        _named_once(jobs, label)
        title = name or f"{len(jobs)} jobs on {jobs[0].scenario.fabric.name}"
        return cls(label, title, gpus, jobs, tuple(read.notes))

    @property
    def first(self) -> Scenario:
        """The first job, whose fabric, engine and servers are those of all."""
        return self.jobs[0].scenario

    @property
    def servers(self) -> int:
        """Servers of the cluster."""
        return self.gpus // self.first.cluster.gpus_per_server

    def place(self) -> Places:
        """Find servers for jobs that are given none, and for all of them apart.

        Raises
        ------
        InputError
            If a job finds no room, or may not have its servers.
        """
        from lightloom import _core

        try:
            found = json.loads(_core.jobs_place(json.dumps(self.to_core())))
        except ValueError as error:
            raise InputError(f"{self.label}: {error}") from None
        apart = found["apart"]
        return Places(
            tuple(map(tuple, found["together"])),
            None if apart is None else tuple(map(tuple, apart)),
            found["groups"],
        )

    def to_core(self, servers: Sequence[Sequence[int]] | None = None) -> dict[str, Any]:
        """Return what the compiled core reads, of jobs on these servers."""
        given: Sequence[str | Sequence[int]] = servers or [job.servers for job in self.jobs]
        jobs = [
            {
                "name": job.name,
                "spec": job.scenario.to_core(),
                "servers": at if isinstance(at, str) else list(at),
                "start_ps": int(job.start),
                "iterations": job.iterations,
            }
            for job, at in zip(self.jobs, given, strict=True)
        ]
        return {"gpus": self.gpus, "jobs": jobs}

    def to_toml(self) -> str:
        """Return the jobs as TOML, from which the same ones load again."""
        tree = self.first.to_tree()
        shared = {key: tree[key] for key in ("cluster", "fabric", "engine")}
        shared["cluster"] = {**shared["cluster"], "gpus": self.gpus}
        jobs = [job.to_tree() for job in self.jobs]
        return to_toml({"name": self.title, **shared, "jobs": jobs})


@dataclass(frozen=True)
class Places:
    """On which servers jobs run, by job, in the order of ranks."""

    together: tuple[tuple[int, ...], ...]
    apart: tuple[tuple[int, ...], ...] | None
    """Each in leaves, or pods, of its own; None where there are too few."""
    groups: int
    """Among how many such leaves or pods; 0 for none."""


class _Reader:
    """Reads jobs one after the other."""

    def __init__(self, top: Layer, above: Layer, gpus: int) -> None:
        self._top, self._above, self._gpus = top, above, gpus
        self.notes: list[str] = []

    def job(self, number: int, table: Mapping[str, Any]) -> PlacedJob:
        label = f"{self._top.label}: jobs[{number}]"
        known = tuple(Placed.model_fields)
        _known(table, (*known, *OF_A_JOB), label)
        placed = _placed({key: table[key] for key in known if key in table}, label)
        own = {key: table[key] for key in OF_A_JOB if key in table}
        layers, gpus = [self._top], placed.gpus
        if placed.spec is not None:
            below, theirs = self._spec(placed.spec, label)
            layers.append(below)
            gpus = gpus or theirs
        servers = _servers(placed.servers, label)
        lowest = defaults_of(Scenario)
        each = merged(_copies([lowest, *layers, self._above])).get("cluster", "gpus_per_server")
        if not isinstance(servers, str) and isinstance(each, int):
            gpus = placed.gpus or len(servers) * each
        if gpus is None:
            raise InputError(f"{label}: gpus: missing; give it, or servers such as 0..4")
        layers.append(Layer(copied(own, label), label, self._top.directory))
        layers.append(Layer({"cluster": {"gpus": gpus}}, label))
        layers.append(self._above)
        stack = merged(_copies([lowest, *layers]))
        if stack.get("fabric", "kind") == "graph":
            raise InputError(
                f'{self._top.label}: fabric.kind = "graph": its nodes are the servers of one job; '
                "allowed with several: any kind that is built for a cluster"
            )
        scenario = resolved(stack, label).scenario
        if scenario.failures:
            raise InputError(f"{label}: failures: not modelled with several jobs; allowed: none")
        name = placed.name or f"{scenario.model.name} {number + 1}"
        return PlacedJob(name, scenario, servers, placed.start, placed.iterations)

    def _spec(self, name: str, label: str) -> tuple[Layer, int | None]:
        """Return what a specification says of its job, and its GPUs."""
        path = self._top.directory / name
        if not path.is_file():
            raise InputError(f'{label}: spec = "{name}": no such file; allowed: a specification')
        table = read_toml(path)
        _known(table, tuple(Scenario.model_fields), os.fspath(path))
        own = {key: table[key] for key in OF_A_JOB if key in table}
        cluster = table.get("cluster")
        gpus = cluster.get("gpus") if isinstance(cluster, dict) else None
        left = [key for key in table if key not in (*OF_A_JOB, "name")]
        if left:
            self.notes.append(
                f"{label}: of {name} only the job is read; fabric and servers are those of "
                f"{self._top.label} (not read: {', '.join(left)})"
            )
        if gpus is not None and (not isinstance(gpus, int) or isinstance(gpus, bool)):
            raise InputError(f"{path}: cluster.gpus = {short_text(gpus)}: must be a whole number")
        return Layer(own, os.fspath(path), path.parent), gpus


def _copies(layers: Sequence[Layer]) -> Iterator[Layer]:
    """Yield layers that resolving may change."""
    for layer in layers:
        yield Layer(copied(layer.table, layer.label), layer.label, layer.directory, layer.origin)


def _listed(table: Mapping[str, Any], label: str) -> list[dict[str, Any]]:
    """Return the jobs of a file."""
    listed = table.get("jobs")
    if listed is None:
        raise InputError(f"{label}: jobs: missing; give a table [[jobs]] for each job")
    if not isinstance(listed, list | tuple) or not all(isinstance(one, Mapping) for one in listed):
        raise InputError(f"{label}: jobs = {short_text(listed)}: must be tables, each [[jobs]]")
    if not 1 <= len(listed) <= MOST_JOBS:
        raise InputError(f"{label}: jobs: {len(listed)} jobs; allowed: 1 to {MOST_JOBS}")
    return [copied(one, f"{label}: jobs") for one in listed]


def _known(table: Mapping[str, Any], allowed: Sequence[str], label: str) -> None:
    """Refuse keys that nothing reads."""
    for key, value in table.items():
        if key not in allowed:
            reason = presets.unknown(key, tuple(sorted(allowed)))
            raise InputError(f"{label}: {key} = {short_text(value)}: unknown key{reason}")


def _gpus(table: Mapping[str, Any], above: dict[str, Any], label: str, override_label: str) -> int:
    """Take the GPUs of the cluster out of the tables of all jobs."""
    gpus, whose = None, label
    for layer, name in ((table, label), (above, override_label)):
        cluster = layer.get("cluster")
        if isinstance(cluster, dict) and "gpus" in cluster:
            gpus, whose = cluster.pop("gpus"), name
    if gpus is None:
        raise InputError(f"{label}: cluster.gpus: missing; give the GPUs of the whole cluster")
    if not isinstance(gpus, int) or isinstance(gpus, bool) or not 1 <= gpus <= 1 << 20:
        raise InputError(f"{whose}: cluster.gpus = {short_text(gpus)}: must be from 1 to {1 << 20}")
    return gpus


def _placed(table: Mapping[str, Any], label: str) -> Placed:
    values = {key: tuple(v) if isinstance(v, list) else v for key, v in table.items()}
    try:
        return Placed.model_validate(values)
    except ValidationError as error:
        raise InputError(messages.message(error, values, {}, label, Placed)) from None


def _servers(given: str | tuple[int, ...], label: str) -> str | tuple[int, ...]:
    """Read where a job runs: a policy, or servers.

    >>> _servers("0..2, 7", "job"), _servers("spread", "job")
    ((0, 1, 7), 'spread')
    """
    if isinstance(given, tuple) or given in POLICIES:
        return given
    found: list[int] = []
    for part in given.split(","):
        match = _RANGE.fullmatch(part.strip())
        first, last = (int(match[1]), int(match[2] or int(match[1]) + 1)) if match else (0, 0)
        if first >= last or last > 1 << 20:
            words = ", ".join(f'"{policy}"' for policy in POLICIES)
            raise InputError(
                f"{label}: servers = {short_text(given)}: neither servers nor a policy; allowed: "
                f'{words}, or such as "0..16"'
            )
        found += range(first, last)
    return tuple(found)


def _named_once(jobs: Sequence[PlacedJob], label: str) -> None:
    seen: dict[str, int] = {}
    for number, job in enumerate(jobs):
        if job.name in seen:
            raise InputError(
                f'{label}: jobs[{number}]: name = "{job.name}": is the name of '
                f"jobs[{seen[job.name]}]; allowed: one that no other job has"
            )
        seen[job.name] = number
