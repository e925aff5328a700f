"""The timeline of every recorded task, for https://ui.perfetto.dev or chrome://tracing.

A process per run and replica; in it, per pipeline stage, a track for compute and one for the
network (more where transfers overlap), and a counter of the bytes in flight. A run with sampled
queues has one more process, with a counter of each of its fullest queues. A transfer that waited
for circuits holds a slice "waiting for circuits" at its start. Times begin with the iteration
(`lightloom.trace_events`). Checked: slices of a track nest, every task appears once, two writes
give equal bytes, and Perfetto finds every slice.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from lightloom import trace_events
from lightloom.report import lanes, packets
from lightloom.report.result import Result
from lightloom.style.palette import GROUPS, WAIT, group_of

# A stage's tracks stand together, in the order of their numbers.
_TRACKS_A_STAGE = 64
# Processes of queues are numbered from here, above those of replicas.
_QUEUES = 1 << 20


def write(result: Result, path: Path) -> None:
    """Write ``timeline.json.gz``; equal Results give equal bytes."""
    trace_events.write(_events(result), path)


def _events(result: Result) -> Iterator[str]:
    """Yield each event as JSON: a process's names first, then its slices, then its counter."""
    order = {run: i for i, run in enumerate(result.run_names)}
    rows = result.tasks.to_pylist()
    rows.sort(key=lambda t: (order.get(t["run"], len(order)), t["run"], t["replica"], t["stage"]))
    processes = groupby(rows, key=lambda t: (t["run"], t["replica"]))
    for process, ((run, replica), of_process) in enumerate(processes, 1):
        tasks = list(of_process)
        yield from trace_events.process(process, f"{run}, replica {replica}")
        for stage, of_stage in groupby(tasks, key=lambda t: t["stage"]):
            mine = list(of_stage)
            first = 1 + stage * _TRACKS_A_STAGE
            for lane in ("compute", "network"):
                some = [t for t in mine if GROUPS[group_of(t["kind"])].lane == lane]
                where = lanes.assign([t["start_ps"] for t in some], [t["end_ps"] for t in some])
                for track in range(max(where, default=-1) + 1):
                    more = f" {track + 1}" if track else ""
                    name = f"stage {stage} {lane}{more}"
                    yield from trace_events.track(process, first + track, name)
                for task, track in zip(some, where, strict=True):
                    yield from _slices(task, process, first + track)
                first += max(where, default=-1) + 1
        yield from _in_flight(tasks, process)
    yield from _queues(result)


def _slices(task: dict[str, Any], process: int, track: int) -> Iterator[str]:
    """Yield the slice of a task, and of its wait within it."""
    start, end = task["start_ps"], task["end_ps"]
    args = []
    if task["layer"] >= 0:
        args.append(f'"layer":{task["layer"]}')
    if task["micro_batch"] >= 0:
        args.append(f'"micro-batch":{task["micro_batch"]}')
    if task["pass"] != "none":
        args.append(f'"pass":{trace_events.quoted(task["pass"])}')
    if task["bytes"] > 0:
        args.append(f'"bytes":{task["bytes"]}')
    if task["waited_ps"] > 0:
        args.append(f'"waited_us":{task["waited_ps"] / 1e6}')
    if task["critical_ps"] > 0:
        args.append(f'"on_critical_path_us":{task["critical_ps"] / 1e6}')
    group = GROUPS[group_of(task["kind"])].label
    place = process, track
    yield trace_events.span(place, (start, end), task["kind"], group, ",".join(args))
    if task["waited_ps"] > 0:
        waited = start, min(end, start + task["waited_ps"])
        yield trace_events.span(place, waited, WAIT.label, "wait")


def _in_flight(tasks: list[dict[str, Any]], process: int) -> Iterator[str]:
    """Yield the bytes of all transfers under way, whenever that changes."""
    changes: dict[int, int] = {}
    for task in tasks:
        if task["bytes"] > 0 and task["end_ps"] > task["start_ps"]:
            sent = min(task["end_ps"], task["start_ps"] + max(0, task["waited_ps"]))
            changes[sent] = changes.get(sent, 0) + task["bytes"]
            changes[task["end_ps"]] = changes.get(task["end_ps"], 0) - task["bytes"]
    level = 0
    for time in sorted(changes):
        if changes[time]:
            level += changes[time]
            yield trace_events.level(process, time, "bytes in flight", "bytes", level)


def _queues(result: Result) -> Iterator[str]:
    """Yield what waits in the fullest queues of each run."""
    for number, run in enumerate(result.run_names, 1):
        series = packets.fullest(result, run)
        process = _QUEUES + number
        if series:
            yield from trace_events.process(process, f"{run}, queues")
        for queue in series:
            for at, queued in queue.points:
                yield trace_events.level(process, at, f"{queue.name} [B]", "bytes", queued)
