"""The kind of run that is several jobs on one fabric at once, each on servers that are given."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lightloom import _core
from lightloom.errors import InputError, RunError
from lightloom.runs.outcome import Outcome
from lightloom.runs.run import Memo, OnShare, Run, digest_of
from lightloom.runs.scenario import arrow, of_workload, sizes, trace_digest

if TYPE_CHECKING:
    from lightloom.jobs.spec import JobsSpec
    from lightloom.trace import GatingTrace

TABLES = ("jobs", "iterations", "links", "shared")
"""Tables that the core gives."""

# A process with nothing in it, and a task of a workload with what is recorded of it [B].
_BASE_BYTES, _TASK_BYTES = 150 << 20, 1200
# A task of the flow engine; a packet over its path [CPU s].
_TASK_S, _PACKET_S = 2e-5, 1e-6


@dataclass(frozen=True, eq=False)
class JobsRun(Run):
    """Jobs on their traces; see `of`."""

    traces: tuple[GatingTrace, ...] = ()

    @classmethod
    def of(
        cls,
        spec: JobsSpec,
        servers: Sequence[Sequence[int]],
        *,
        name: str,
        only: Sequence[int] | None = None,
    ) -> JobsRun:
        """Return jobs as a run.

        Parameters
        ----------
        spec, servers
            The jobs, and the servers of each in the order of its ranks.
        name
            Of the point in its set.
        only
            Numbers of the jobs that run; all unless given.

        Raises
        ------
        InputError
            If a gating trace cannot be used.
        """
        from lightloom.gating import load_trace, place_of

        numbers = range(len(spec.jobs)) if only is None else only
        core = spec.to_core(servers)
        chosen = [spec.jobs[number].scenario for number in numbers]
        traces = tuple(load_trace(scenario) for scenario in chosen)
        jobs = []
        work, tasks = 0.0, 0.0
        for number, trace in zip(numbers, traces, strict=True):
            job = core["jobs"][number]
            sha256, shape = trace_digest(trace), list(trace.counts.shape)
            jobs.append({**job, "trace": {"sha256": sha256, "shape": shape}})
            own, packets = sizes(job["spec"])
            own, packets = own * job["iterations"], packets * job["iterations"]
            flows = job["spec"]["engine"]["kind"] == "flow"
            tasks += own
            work += own * _TASK_S if flows else packets * _PACKET_S
        return cls(
            kind="jobs",
            name=name,
            payload={"gpus": core["gpus"], "jobs": jobs},
            where={"traces": [place_of(scenario) for scenario in chosen]},
            title=spec.label,
            weight=work,
            memory=int(_BASE_BYTES + tasks * _TASK_BYTES),
            group=digest_of([of_workload(job["spec"]) for job in core["jobs"]]),
            traces=traces,
        )


def perform(run: Run, on_progress: OnShare, memo: Memo, *, tables: bool) -> Outcome:
    """Build the workloads, unless they stand, and run all jobs at once."""
    kept: dict[str, _core.Workload] = memo.get(run.group, dict)
    workloads, request = [], []
    try:
        for number, job in enumerate(run.payload["jobs"]):
            key = digest_of([of_workload(job["spec"]), job["trace"]])
            if key not in kept:
                kept[key] = _workload(run, number, job)
            workloads.append(kept[key])
            request.append({part: value for part, value in job.items() if part != "trace"})
        text = json.dumps({"gpus": run.payload["gpus"], "jobs": request}, allow_nan=False)
        out = _core.jobs_run(text, workloads, on_progress)
    except ValueError as error:
        raise InputError(str(error)) from None
    except RuntimeError as error:
        raise RunError(str(error)) from None
    found = {name: arrow(out["tables"][name]) for name in TABLES} if tables else None
    figures = {"makespan_s": out["makespan_ps"] / 1e12}
    return Outcome(figures, found, tuple(out["notes"]), tuple(out["warnings"]))


def _workload(run: Run, number: int, job: Mapping[str, Any]) -> _core.Workload:
    if isinstance(run, JobsRun):
        trace = run.traces[number]
    else:
        from lightloom.gating import load

        place = run.where["traces"][number]
        trace = load(place)
        if trace_digest(trace) != job["trace"]["sha256"]:
            raise RunError(
                f'gating.trace = "{place["trace"]}": has changed since the set of runs began'
            )
    counts = np.ascontiguousarray(trace.counts, dtype=np.uint32)
    spec = json.dumps(job["spec"], separators=(",", ":"), allow_nan=False)
    return _core.Workload(spec, counts.reshape(-1), counts.shape)
