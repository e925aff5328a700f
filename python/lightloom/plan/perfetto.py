"""A plan's timeline for https://ui.perfetto.dev or chrome://tracing: planes as tracks.

One process, a track a plane, or, where ports are set one by one, a process a plane and a track a
node. Slices are what is sent, step by step, and dark times (`lightloom.trace_events`). Checked:
equal plans give equal bytes, slices are the plan's bars, and Perfetto finds every one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lightloom import trace_events
from lightloom.document import replacing
from lightloom.plan.bars import lines
from lightloom.plan.file import Plan


def write(plan: Plan, path: Path) -> None:
    """Write the timeline of a plan, whole or not at all.

    Raises
    ------
    InputError
        If the file cannot be written.
    """
    with replacing(path) as draft:
        trace_events.write(_events(plan), draft, "ns")


def _events(plan: Plan) -> Iterator[str]:
    rows = lines(plan)
    named: set[int] = set()
    for row in rows:
        process = 1 if row.node is None else 1 + row.plane
        track = 1 + (row.plane if row.node is None else row.node)
        if process not in named:
            named.add(process)
            name = "planes" if row.node is None else f"plane {row.plane}"
            yield from trace_events.process(process, name)
        name = row.name if row.node is None else f"node {row.node}"
        yield from trace_events.track(process, track, name)
        for bar in row.bars:
            name = "dark" if bar.kind == "dark" else bar.label
            sets = f'"sets":{trace_events.quoted(bar.label)}'
            args = f'"bytes":{bar.bytes}' if bar.kind == "send" else sets
            times = bar.start_ps, bar.end_ps
            yield trace_events.span((process, track), times, name, bar.kind, args)
