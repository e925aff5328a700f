"""Tasks and demand as they travel in the page: few bytes a row, decoded by the browser.

Where they do not fit, whole runs (tasks) or later micro-batches (demand) are left to the Parquet
tables, and a note says so. Checked: the round trip, against the Parquet tables themselves.
"""

from __future__ import annotations

import base64
import gzip
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lightloom.report.result import Result
from lightloom.style.palette import group_of

# What may travel packed in the page [bytes of text]; the rest of a page is well below 0.5 MB.
TASK_BUDGET = 1_700_000
DEMAND_BUDGET = 600_000

_Column = tuple[str, str, npt.NDArray[Any], bool]
_PASSES = {"forward": 0, "backward": 1}


def tasks(result: Result, notes: list[str]) -> tuple[dict[str, Any], list[dict[str, str]]]:
    """Pack the first recorded replica of as many runs as fit, and list the kinds of task."""
    names: list[str] = pc.unique(result.tasks["kind"]).to_pylist()
    kinds = [{"name": name, "group": group_of(name)} for name in names]
    packed: dict[str, Any] = {}
    left, dropped = TASK_BUDGET, []
    for run in result.by_interest:
        table = result.of_run(result.tasks, run)
        if not table.num_rows:
            continue
        table = table.filter(pc.equal(table["replica"], pc.min(table["replica"])))
        table = table.sort_by([("stage", "ascending"), ("start_ps", "ascending")])
        one = _pack_tasks(table, names)
        if len(one["z"]) > left:
            dropped.append(run)
            continue
        left -= len(one["z"])
        packed[run] = one
    if dropped:
        notes.append(f"To keep this page small, the timelines of {', '.join(dropped)} are only in "
                     "timeline.json.gz and tasks.parquet.")  # fmt: skip
    return _in_order(result, packed), kinds


def _pack_tasks(table: pa.Table, kinds: list[str]) -> dict[str, Any]:
    """Pack the tasks of one replica; times in the finest decimal tick that fits 32 bits."""
    whole = {c: table[c].to_numpy() for c in ("stage", "layer", "micro_batch", "start_ps", "end_ps",
                                              "waited_ps", "bytes", "critical_ps")}  # fmt: skip
    tick = 10 ** max(0, math.ceil(math.log10(max(1, int(whole["end_ps"].max())) / (2**32 - 2))))
    stages, stage = np.unique(whole["stage"], return_inverse=True)
    kind = pc.index_in(table["kind"], pa.array(kinds)).to_numpy()
    passes = np.array([_PASSES.get(p, 2) for p in table["pass"].to_pylist()])
    start = whole["start_ps"] // tick
    packed = pack(
        [
            ("stage", "u2", stage, True),
            ("kind", "u1", kind, False),
            ("layer", "u2", whole["layer"] + 1, False),  # 0: none
            ("micro_batch", "u2", whole["micro_batch"] + 1, False),
            ("pass", "u1", passes, False),
            ("start", "u4", start, True),
            ("duration", "u4", whole["end_ps"] // tick - start, False),
            ("waited", "u4", whole["waited_ps"] // tick, False),
            ("critical", "u4", whole["critical_ps"] // tick, False),
            ("bytes", "f8", whole["bytes"], False),
        ]
    )
    return packed | {"tick_ps": tick, "stages": stages.tolist()}


def demand(result: Result, notes: list[str]) -> dict[str, Any]:
    """Pack the demand of runs with circuits, and of the first without; one replica each."""
    tables: dict[str, pa.Table] = {}
    plain = 0
    for run in result.by_interest:
        table = result.of_run(result.demand, run)
        if not table.num_rows:
            continue
        if not pc.any(pc.greater(table["circuits"], 0)).as_py():
            # Demand is the job's, whatever carries it: without circuits once is enough.
            plain += 1
            if plain > 1:
                continue
        tables[run] = table.filter(pc.equal(table["replica"], pc.min(table["replica"])))
    packed = {run: _pack_demand(table) for run, table in tables.items()}
    if sum(len(one["z"]) for one in packed.values()) > DEMAND_BUDGET:
        notes.append("To keep this page small, demand and circuits are shown for the first "
                     "recorded micro-batch; the others are in demand.parquet.")  # fmt: skip
        for run, table in tables.items():
            first = pc.equal(table["micro_batch"], pc.min(table["micro_batch"]))
            packed[run] = _pack_demand(table.filter(first))
    left, kept = DEMAND_BUDGET, {}
    for run, one in packed.items():
        left -= len(one["z"])
        if left >= 0:
            kept[run] = one
    if len(kept) < len(packed):
        gone = ", ".join(run for run in packed if run not in kept)
        notes.append(f"To keep this page small, the demand of {gone} is only in demand.parquet.")
    return _in_order(result, kept)


def _pack_demand(table: pa.Table) -> dict[str, Any]:
    table = table.sort_by([(c, "ascending") for c in ("layer", "micro_batch", "source",
                                                      "destination")])  # fmt: skip
    kinds = {"layer": "u2", "micro_batch": "u2", "source": "u4", "destination": "u4",
             "circuits": "u2", "bytes": "f8"}  # fmt: skip
    return pack(
        [(c, kind, table[c].to_numpy(), c in ("layer", "source")) for c, kind in kinds.items()]
    )


def _in_order(result: Result, packed: dict[str, Any]) -> dict[str, Any]:
    return {run: packed[run] for run in result.run_names if run in packed}


def pack(columns: Sequence[_Column]) -> dict[str, Any]:
    r"""Pack columns of equal length: byte planes (slowly changing bytes together), gzip, base64.

    Each column is (name, type of `u1 u2 u4 f8`, values, whether to store differences).

    Examples
    --------
    >>> packed = pack([("a", "u2", np.array([1, 2, 300]), True)])
    >>> packed["rows"], packed["columns"]
    (3, [['a', 'u2', 1]])
    >>> gzip.decompress(base64.b64decode(packed["z"]))  # 1, 1, 298: low bytes, then high bytes
    b'\x01\x01*\x00\x00\x01'
    """
    planes = []
    for _, kind, values, delta in columns:
        column = np.asarray(values).astype(f"<{kind}")
        if delta and len(column):
            # Unsigned differences wrap around, and so does their sum.
            column = np.concatenate([column[:1], np.diff(column)])
        planes.append(column.view(np.uint8).reshape(len(column), -1).T.tobytes())
    packed = gzip.compress(b"".join(planes), 9, mtime=0)
    return {
        "rows": len(columns[0][2]),
        "columns": [[name, kind, int(delta)] for name, kind, _, delta in columns],
        "z": base64.b64encode(packed).decode(),
    }
