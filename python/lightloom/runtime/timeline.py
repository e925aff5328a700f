"""A training's timeline for https://ui.perfetto.dev or chrome://tracing: a track a rank.

Chrome's trace event format, as in `lightloom.report.perfetto`: slices are phases, those within
others below them. Each rank's times begin when it left the first barrier, so tracks are as much
apart as ranks were there. Checked: ``tests/pytorch/test_train.py``: slices of a track nest, and
their own times sum up to what the training says.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from lightloom.document import replacing

# Of a rank: by phase its name, its beginning and how long it took [s].
Spans = Sequence[tuple[str, float, float]]


def events(ranks: Sequence[Spans]) -> list[dict[str, object]]:
    """Return the events of all ranks; times are in microseconds.

    Examples
    --------
    >>> named, slice_ = events([[("forward", 0.5, 0.25)]])
    >>> named["args"], slice_["ts"], slice_["dur"]
    ({'name': 'rank 0'}, 500000.0, 250000.0)
    """
    found: list[dict[str, object]] = []
    for rank, spans in enumerate(ranks):
        track = {"pid": 1, "tid": 1 + rank}
        named: dict[str, object] = {
            "ph": "M",
            "name": "thread_name",
            "args": {"name": f"rank {rank}"},
        }
        found.append({**named, **track})
        for name, begun, took in sorted(spans, key=lambda it: (it[1], -it[2])):
            times = {"ts": round(begun * 1e6, 3), "dur": round(took * 1e6, 3)}
            found.append({"ph": "X", "name": name, **times, **track})
    return found


def write(ranks: Sequence[Spans], path: Path) -> None:
    """Write the timeline of all ranks, whole or not at all.

    Raises
    ------
    InputError
        If the file cannot be written.
    """
    with replacing(path) as draft:
        lines = ",\n".join(json.dumps(event) for event in events(ranks))
        draft.write_text(f'{{"displayTimeUnit":"ms","traceEvents":[\n{lines}\n]}}\n', "utf-8")
