"""A set of runs as tables: every key of the specifications beside every figure.

The same runs give the same bytes, in whatever order and wherever they were performed: rows are
sorted by the keys of their specifications, and what is not the same twice (CPU seconds, memory,
hosts) is in a table of its own. A column is text, whole numbers, real numbers or flags, whatever
rows there are; lists are JSON. Checked: orders, types, and another reader, in
``tests/test_runs.py``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lightloom.runs.outcome import Outcome
from lightloom.runs.run import Run
from lightloom.runs.sets import Done

_KINDS: Mapping[type, pa.DataType] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
}


def table(done: Done) -> pa.Table:
    """Return the figures of the runs that have an outcome, a row each.

    Columns: ``run`` (a digest of all that the outcome depends on), ``point``, the keys of the
    specifications with dots, the figures. A figure with the name of a key is put after it with
    ``figure.`` before.
    """
    rows = []
    for run, outcome in _outcomes(done):
        keys = {key: _cell(value) for key, value in _leaves(run.spec)}
        figures = {
            f"figure.{name}" if name in keys else name: _cell(value)
            for name, value in run.figures(outcome).items()
        }
        rows.append(({"run": run.digest, "point": run.name}, keys, figures))
    columns = [_columns([row[part] for row in rows]) for part in range(3)]
    rows.sort(key=lambda row: ([_order(row[1].get(key)) for key in columns[1]], row[0]["run"]))
    arrays = {
        name: pa.array([_as(kind, row[part].get(name)) for row in rows], kind)
        for part in range(3)
        for name, kind in columns[part].items()
    }
    return pa.table(arrays)


def of_rows(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return rows as a table whose columns are text, whole or real numbers, or flags.

    Examples
    --------
    >>> of_rows([{"seed": 1}, {"seed": 2.5}])["seed"].to_pylist()
    [1.0, 2.5]
    """
    cells = [{name: _cell(value) for name, value in row.items()} for row in rows]
    return pa.table(
        {
            name: pa.array([_as(kind, row.get(name)) for row in cells], kind)
            for name, kind in _columns(cells).items()
        }
    )


def times(done: Done) -> pa.Table:
    """Return what each run took: the fields of `Spent` beside ``run`` and ``point``.

    In the order of the runs; a run that was kept has what it took when it was performed.
    """
    rows = [
        {"run": run.digest, "point": run.name, **outcome.spent._asdict()}
        for run, outcome in _outcomes(done)
        if outcome.spent
    ]
    return pa.Table.from_pylist(rows, schema=_TIMES)


def write(found: pa.Table, place: Path) -> None:
    """Write a table as Parquet; the same table gives the same bytes."""
    draft = place.with_name(f".{place.name}.draft")
    try:
        pq.write_table(found, draft, compression="zstd")
        draft.replace(place)
    finally:
        draft.unlink(missing_ok=True)


def _outcomes(done: Done) -> Iterator[tuple[Run, Outcome]]:
    """Pair runs with what they came to, each specification once: prices may tell two apart."""
    once = {(run.key, json.dumps(run.spec)): run for run in reversed(done.runs)}
    for run in reversed(once.values()):
        outcome = done.ended.get(run.key)
        if isinstance(outcome, Outcome):
            yield run, outcome


_TIMES = pa.schema(
    [
        ("run", pa.string()),
        ("point", pa.string()),
        ("cpu_s", pa.float64()),
        ("wall_s", pa.float64()),
        ("peak_bytes", pa.int64()),
        ("host", pa.string()),
    ]
)


def _leaves(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        path = f"{prefix}{key if re.fullmatch('[A-Za-z0-9_-]+', key) else json.dumps(key)}"
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{path}.")
        else:
            yield path, value


def _cell(value: Any) -> str | int | float | bool | None:
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return json.dumps(value)


def _columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, pa.DataType]:
    """Return the columns of rows, each where it first stands, and what each holds."""
    found: dict[str, set[type]] = {}
    for row in rows:
        for name, value in row.items():
            kinds = found.setdefault(name, set())
            if value is not None:
                kinds.add(type(value))
    return {name: _kind(kinds) for name, kinds in found.items()}


def _kind(kinds: set[type]) -> pa.DataType:
    if len(kinds) == 1:
        return _KINDS[next(iter(kinds))]
    return pa.float64() if kinds == {int, float} else pa.string()


def _as(kind: pa.DataType, value: Any) -> Any:
    if value is None:
        return None
    if kind == pa.float64():
        return float(value)
    return value if kind != pa.string() or isinstance(value, str) else json.dumps(value)


def _order(value: Any) -> tuple[int, float, str]:
    """Return what a value is sorted by: nothing, numbers, text; numbers in text as numbers."""
    if value is None:
        return (0, 0.0, "")
    if not isinstance(value, str):
        return (1, float(value), "")
    return (2, _quantity(value), value)


def _quantity(text: str) -> float:
    """Return a quantity in base units, so that 400 Gbps is less than 1.6 Tbps; 0 for other text."""
    from lightloom import _core

    if text[:1].isdigit():
        for parse in (_core.parse_rate, _core.parse_time, _core.parse_bytes):
            try:
                return float(parse(text))
            except ValueError:
                continue
    return 0.0
