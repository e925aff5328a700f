"""A plan's timeline for https://ui.perfetto.dev or chrome://tracing: planes as tracks.

Chrome's trace event format, as in `lightloom.report.perfetto`: one process, a track a plane, or,
where ports are set one by one, a process a plane and a track a node. Slices are what is sent,
step by step, and dark times. Times are microseconds, exact to the picosecond. Checked: equal plans
give equal bytes, and slices are the plan's bars.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from lightloom.document import replacing
from lightloom.plan.bars import lines
from lightloom.plan.file import Plan
from lightloom.report.perfetto import _us


def write(plan: Plan, path: Path) -> None:
    """Write the timeline of a plan, whole or not at all.

    Raises
    ------
    InputError
        If the file cannot be written.
    """
    with replacing(path) as draft:
        events = ",\n".join(_events(plan))
        draft.write_text(f'{{"displayTimeUnit":"ns","traceEvents":[\n{events}\n]}}\n', "utf-8")


def _events(plan: Plan) -> Iterator[str]:
    rows = lines(plan)
    named: set[int] = set()
    for row in rows:
        process = 1 if row.node is None else 1 + row.plane
        track = 1 + (row.plane if row.node is None else row.node)
        if process not in named:
            named.add(process)
            yield _name(process, 0, "process_name",
                        "planes" if row.node is None else f"plane {row.plane}")  # fmt: skip
        yield _name(process, track, "thread_name",
                    row.name if row.node is None else f"node {row.node}")  # fmt: skip
        yield _dump({"ph": "M", "pid": process, "tid": track, "name": "thread_sort_index",
                     "args": {"sort_index": track}})  # fmt: skip
        for bar in row.bars:
            name = "dark" if bar.kind == "dark" else bar.label
            args = {"bytes": bar.bytes} if bar.kind == "send" else {"sets": bar.label}
            yield (
                f'{{"ph":"X","pid":{process},"tid":{track},"ts":{_us(bar.start_ps)},'
                f'"dur":{_us(bar.end_ps - bar.start_ps)},"name":{json.dumps(name)},'
                f'"cat":"{bar.kind}","args":{_dump(args)}}}'
            )


def _name(process: int, track: int, what: str, name: str) -> str:
    return _dump({"ph": "M", "pid": process, "tid": track, "name": what, "args": {"name": name}})


def _dump(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True)
