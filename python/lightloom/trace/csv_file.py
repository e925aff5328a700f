"""CSV traces: expert loads as others log them, and long tables.

Expert loads have ``batch_id``, ``stage`` (if the model has several), ``router_layer_index``,
``expert_id``, ``assigned_tokens`` and, to find top-k, ``total_tokens``; every expert of a layer has
a row. Ignored: other columns, among them expert capacity and overflow. Checked: two recordings of
others against plain sums, and every refusal (``tests/test_trace_import.py``).
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lightloom.errors import InputError
from lightloom.trace.gating_trace import GatingTrace
from lightloom.trace.imported import (
    LONG,
    Ints,
    Options,
    check_size,
    first_twice,
    from_loads,
    from_long,
    top_k_of,
)
from lightloom.trace.wording import reason, shown

LOADS = ("batch_id", "router_layer_index", "expert_id", "assigned_tokens")
_WHOLE = re.compile(r"[0-9]{1,10}")


def read_csv(path: Path, options: Options) -> GatingTrace:
    r"""Read expert loads or a long table, whichever the header names.

    Raises
    ------
    InputError
        Naming row, column and value.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "long.csv"
    >>> _ = file.write_text("iteration,layer,source,expert,tokens\n7,1,0,0,5\n7,1,1,1,6\n")
    >>> read_csv(file, Options(top_k=1)).counts.tolist()
    [[[[5, 0], [0, 6]]]]
    """
    names, rows = _csv_rows(path)
    if set(LONG) <= set(names):
        columns = {name: _column(path, names, rows, name) for name in LONG}
        return from_long(path, columns, options, first_row=2)
    if set(LOADS) <= set(names):
        return _loads_csv(path, names, rows, options)
    raise InputError(
        f"{path}: columns {shown(*names)}: must include {', '.join(LOADS)} (expert loads) "
        f"or {', '.join(LONG)} (a long table)"
    )


def _csv_rows(path: Path) -> tuple[list[str], list[list[str]]]:
    """Return the header and the rows, each as long as the header."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
        lines = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {reason(error)}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.start}: not UTF-8 text") from error
    except csv.Error as error:
        raise InputError(f"{path}: not CSV: {error}") from error
    if len(lines) < 2:
        raise InputError(f"{path}: {len(lines)} rows: must have a header and at least one row")
    names = [name.strip() for name in lines[0]]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"{path}: row 1: column {shown(name)} is there twice")
    for number, row in enumerate(lines[1:], start=2):
        if len(row) != len(names):
            raise InputError(f"{path}: row {number}: {len(row)} fields: must be {len(names)}")
    return names, lines[1:]


def _column(path: Path, names: Sequence[str], rows: Sequence[Sequence[str]], name: str) -> Ints:
    index = names.index(name)
    column = [row[index].strip(" ") for row in rows]
    for number, text in enumerate(column, start=2):
        if not _WHOLE.fullmatch(text):
            raise InputError(
                f"{path}: row {number}, column {name}: {text[:40]!r}: "
                "must be a whole number, 0 to 9999999999"
            )
    return np.array([int(text) for text in column], dtype=np.int64)


def _loads_csv(
    path: Path, names: Sequence[str], rows: Sequence[Sequence[str]], options: Options
) -> GatingTrace:
    notes: dict[str, Any] = {}
    kept = list(range(len(rows)))
    if "stage" in names:
        stages = [row[names.index("stage")] for row in rows]
        there = sorted(set(stages))
        stage = options.stage or (there[0] if len(there) == 1 else "decoder")
        if stage not in there:
            raise InputError(f"{path}: --stage {stage}: must be one of {shown(*there)}")
        kept = [row for row, name in enumerate(stages) if name == stage]
        notes["stage"] = stage
        if len(there) > 1:
            notes["stages_left_out"] = shown(*(name for name in there if name != stage))
    elif options.stage:
        raise InputError(f"{path}: --stage {options.stage}: the file has no column stage")
    wanted = (*LOADS, "total_tokens") if "total_tokens" in names else LOADS
    columns = {name: _column(path, names, rows, name)[kept] for name in wanted}
    batch, layer, expert, tokens = (columns[name] for name in LOADS)
    batches, i = np.unique(batch, return_inverse=True)
    layers, j = np.unique(layer, return_inverse=True)
    experts = int(expert.max()) + 1
    shape = (len(batches), len(layers), experts)
    check_size(path, shape)
    cell = np.ravel_multi_index((i, j, expert), shape)
    row = first_twice(cell)
    if row is not None:
        raise InputError(
            f"{path}: row {kept[row] + 2}: batch_id {batch[row]}, router_layer_index {layer[row]}, "
            f"expert_id {expert[row]} is there twice"
        )
    if len(cell) != np.prod(shape):
        missing = np.setdiff1d(np.arange(np.prod(shape)), cell)[0]
        a, b, c = (int(n) for n in np.unravel_index(missing, shape))
        raise InputError(
            f"{path}: no row for batch_id {batches[a]}, router_layer_index {layers[b]}, "
            f"expert_id {c}: each batch and layer must have every expert from 0 to {experts - 1}"
        )
    loads = np.zeros(shape, dtype=np.int64)
    loads.reshape(-1)[cell] = tokens
    found = None
    if "total_tokens" in columns:
        totals = np.zeros(shape, dtype=np.int64)
        totals.reshape(-1)[cell] = columns["total_tokens"]
        uneven = totals.min(axis=2) != totals.max(axis=2)
        ratio = loads.sum(axis=2) / np.maximum(totals[:, :, 0], 1)
        found = round(float(ratio.flat[0]))
        wrong = np.argwhere(uneven | (ratio != found))
        if len(wrong):
            a, b = (int(n) for n in wrong[0])
            raise InputError(
                f"{path}: batch_id {batches[a]}, router_layer_index {layers[b]}: assigned_tokens "
                f"sum to {loads[a, b].sum()} for total_tokens {totals[a, b, 0]}: "
                "must be the same whole multiple, top-k, everywhere"
            )
    top_k = top_k_of(path, options, found)
    notes["layer_indices"] = ", ".join(str(index) for index in layers)
    return from_loads(path, loads, top_k, options, notes)
