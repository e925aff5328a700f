"""A training's timeline for https://ui.perfetto.dev or chrome://tracing: a track a rank.

Slices are phases, those within others below them (`lightloom.trace_events`). Each rank's times
begin when it left the first barrier, so tracks are as much apart as ranks were there. Checked:
``tests/pytorch/test_train.py``: slices of a track nest, and their own times sum up to what the
training says; ``tests/test_perfetto.py``: Perfetto finds each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from lightloom import trace_events
from lightloom.document import replacing

# Of a rank: by phase its name, its beginning and how long it took [s].
Spans = Sequence[tuple[str, float, float]]


def events(ranks: Sequence[Spans]) -> Iterator[str]:
    """Yield the events of all ranks.

    Examples
    --------
    >>> list(events([[("forward", 0.5, 0.25)]]))[-1]
    '{"ph":"X","pid":1,"tid":1,"ts":500000,"dur":250000,"name":"forward","cat":"phase","args":{}}'
    """
    yield from trace_events.process(1, "training")
    for rank, spans in enumerate(ranks):
        yield from trace_events.track(1, 1 + rank, f"rank {rank}")
        for name, begun, took in sorted(spans, key=lambda it: (it[1], -it[2])):
            times = round(begun * 1e9) * 1000, round((begun + took) * 1e9) * 1000
            yield trace_events.span((1, 1 + rank), times, name, "phase")


def write(ranks: Sequence[Spans], path: Path) -> None:
    """Write the timeline of all ranks, whole or not at all.

    Raises
    ------
    InputError
        If the file cannot be written.
    """
    with replacing(path) as draft:
        trace_events.write(events(ranks), draft)
