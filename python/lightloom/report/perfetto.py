"""The timeline of every recorded task, for https://ui.perfetto.dev or chrome://tracing.

Chrome's trace event format: a process per run and replica; in it, per pipeline stage, a track for
compute and one for the network (more where transfers overlap), and a counter of the bytes in
flight. A run with sampled queues has one more process, with a counter of each of its fullest
queues. A transfer that waited for circuits holds a slice "waiting for circuits" at its start.
Times are microseconds since the iteration began, exact to the picosecond. Checked: slices of a
track nest, every task appears once, and two writes give equal bytes.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from functools import lru_cache
from itertools import groupby, islice
from pathlib import Path
from typing import Any

from lightloom.report import lanes, packets
from lightloom.report.palette import GROUPS, WAIT, group_of
from lightloom.report.result import Result

# A stage's tracks stand together, in the order of their numbers.
_TRACKS_A_STAGE = 64
# Processes of queues are numbered from here, above those of replicas.
_QUEUES = 1 << 20


def write(result: Result, path: Path) -> None:
    """Write ``timeline.json.gz``; equal Results give equal bytes."""
    with path.open("wb") as raw, gzip.GzipFile("", "wb", 6, raw, mtime=0) as file:
        file.write(b'{"displayTimeUnit":"ms","traceEvents":[\n')
        events = _events(result)
        separator = ""
        while some := ",\n".join(islice(events, 4096)):
            file.write(f"{separator}{some}".encode())
            separator = ",\n"
        file.write(b"\n]}\n")


def _events(result: Result) -> Iterator[str]:
    """Yield each event as JSON: a process's names first, then its slices, then its counter."""
    order = {run: i for i, run in enumerate(result.run_names)}
    rows = result.tasks.to_pylist()
    rows.sort(key=lambda t: (order.get(t["run"], len(order)), t["run"], t["replica"], t["stage"]))
    processes = groupby(rows, key=lambda t: (t["run"], t["replica"]))
    for process, ((run, replica), of_process) in enumerate(processes, 1):
        tasks = list(of_process)
        yield _name(process, 0, "process_name", f"{run}, replica {replica}")
        yield _dump({"ph": "M", "pid": process, "tid": 0, "name": "process_sort_index",
                     "args": {"sort_index": process}})  # fmt: skip
        for stage, of_stage in groupby(tasks, key=lambda t: t["stage"]):
            mine = list(of_stage)
            first = 1 + stage * _TRACKS_A_STAGE
            for lane in ("compute", "network"):
                some = [t for t in mine if GROUPS[group_of(t["kind"])].lane == lane]
                where = lanes.assign([t["start_ps"] for t in some], [t["end_ps"] for t in some])
                for track in range(max(where, default=-1) + 1):
                    more = f" {track + 1}" if track else ""
                    yield _name(
                        process, first + track, "thread_name", f"stage {stage} {lane}{more}"
                    )
                    yield _dump({"ph": "M", "pid": process, "tid": first + track,
                                 "name": "thread_sort_index",
                                 "args": {"sort_index": first + track}})  # fmt: skip
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
        args.append(f'"pass":{_dump(task["pass"])}')
    if task["bytes"] > 0:
        args.append(f'"bytes":{task["bytes"]}')
    if task["waited_ps"] > 0:
        args.append(f'"waited_us":{_us(task["waited_ps"])}')
    if task["critical_ps"] > 0:
        args.append(f'"on_critical_path_us":{_us(task["critical_ps"])}')
    group = GROUPS[group_of(task["kind"])].label
    yield _slice(task["kind"], group, start, end, process, track, ",".join(args))
    if task["waited_ps"] > 0:
        yield _slice(WAIT.label, "wait", start, min(end, start + task["waited_ps"]), process, track)


def _slice(
    name: str, group: str, start: int, end: int, process: int, track: int, args: str = ""
) -> str:
    return (
        f'{{"ph":"X","pid":{process},"tid":{track},"ts":{_us(start)},"dur":{_us(end - start)},'
        f'"name":{_dump(name)},"cat":{_dump(group)},"args":{{{args}}}}}'
    )


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
            yield (
                f'{{"ph":"C","pid":{process},"tid":0,"ts":{_us(time)},'
                f'"name":"bytes in flight","args":{{"bytes":{level}}}}}'
            )


def _queues(result: Result) -> Iterator[str]:
    """Yield what waits in the fullest queues of each run."""
    for number, run in enumerate(result.run_names, 1):
        series = packets.fullest(result, run)
        process = _QUEUES + number
        if series:
            yield _name(process, 0, "process_name", f"{run}, queues")
        for queue in series:
            name = _dump(f"{queue.name} [B]")
            for at, queued in queue.points:
                yield (
                    f'{{"ph":"C","pid":{process},"tid":0,"ts":{_us(at)},'
                    f'"name":{name},"args":{{"bytes":{queued}}}}}'
                )


def _name(process: int, track: int, what: str, name: str) -> str:
    event = {"ph": "M", "pid": process, "tid": track, "name": what, "args": {"name": name}}
    return _dump(event)


@lru_cache(maxsize=4096)
def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=True)


def _dump(value: object) -> str:
    if isinstance(value, str):
        return _quoted(value)  # a few names, many times
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True)


def _us(ps: int) -> str:
    """Write picoseconds as microseconds without rounding."""
    sign, ps = ("-", -ps) if ps < 0 else ("", ps)
    whole, rest = divmod(ps, 10**6)
    return f"{sign}{whole}.{rest:06}" if rest else f"{sign}{whole}"
