"""Read gating traces that others made: CSV, NPZ and Parquet.

Three kinds of content, told apart by the names of their columns or arrays:

- *expert loads* (CSV): ``batch_id``, ``stage``, ``router_layer_index``, ``expert_id``,
  ``assigned_tokens`` and, to find top-k, ``total_tokens``; every expert of a layer has a row. The
  file knows no sources: each load is spread evenly over them, and the trace's metadata says so.
- *long tables* (CSV or Parquet): ``iteration``, ``layer``, ``source``, ``expert``, ``tokens``; a
  missing combination is 0.
- *arrays* (NPZ): ``counts`` [iteration, layer, source, expert], or ``loads`` [iteration, layer,
  expert], which is spread evenly; optionally ``top_k``.

A Parquet file of `lightloom.trace.gating_trace` is read as it is. Ignored: other columns, expert
capacity and overflow. Checked: sums are kept, and damaged bytes give `InputError` only
(``tests/test_trace_import.py``).
"""

from __future__ import annotations

import csv
import io
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lightloom import __version__
from lightloom.errors import InputError
from lightloom.trace.gating_trace import (
    KEY,
    MAX_VALUES,
    GatingTrace,
    from_table,
    read_parquet,
    reason,
    shown,
)

FORMATS = ("csv", "npz", "parquet")
LONG = ("iteration", "layer", "source", "expert", "tokens")
LOADS = ("batch_id", "router_layer_index", "expert_id", "assigned_tokens")
_WHOLE = re.compile(r"[0-9]{1,10}")
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Options:
    """What the caller says about the file.

    Attributes
    ----------
    stage
        Which stage of an encoder-decoder's expert loads: by default the only one there is, or the
        decoder.
    sources
        Source ranks to spread loads over, where the file has none; by default one an expert.
    top_k
        Experts a token chooses, where the file does not say.
    """

    stage: str | None = None
    sources: int | None = None
    top_k: int | None = None


def import_trace(
    path: str | Path, format: str = "auto", options: Options | None = None
) -> GatingTrace:
    """Read a gating trace of one of the kinds that the module lists.

    Parameters
    ----------
    path
        The file.
    format
        ``"csv"``, ``"npz"`` or ``"parquet"``; ``"auto"`` goes by the file's ending.
    options
        What the file does not say.

    Raises
    ------
    InputError
        If the file is not of that kind; the message names row, column and value. Also if an
        option is given that this file leaves no use for.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "loads.npz"
    >>> np.savez(file, loads=np.array([[[30, 10, 20, 4]]]), top_k=1)
    >>> trace = import_trace(file, options=Options(sources=2))
    >>> trace.counts[0, 0].tolist()
    [[15, 5, 10, 2], [15, 5, 10, 2]]
    """
    file = Path(path)
    options = options or Options()
    for flag, value in (("sources", options.sources), ("top-k", options.top_k)):
        if value is not None and not 1 <= value <= 1 << 20:
            raise InputError(f"--{flag} {value}: must be 1 to 1048576")
    if format == "auto":
        ending = file.suffix.lower().removeprefix(".")
        if ending not in FORMATS:
            raise InputError(
                f"{file}: cannot tell the format from the ending {file.suffix!r}: "
                f"say --format {'|'.join(FORMATS)}"
            )
    elif format in FORMATS:
        ending = format
    else:
        raise InputError(f"--format {format}: must be auto, {', '.join(FORMATS)}")
    read = {"csv": _csv, "npz": _npz, "parquet": _parquet}[ending]
    return read(file, options)


def spread(loads: npt.NDArray[Any], sources: int) -> Ints:
    """Spread each expert's load over the sources, as evenly as whole assignments allow.

    Parameters
    ----------
    loads
        Assignments, integers of shape [..., expert].
    sources
        Source ranks.

    Returns
    -------
    numpy.ndarray
        int64 of shape [..., source, expert]. Any two sources hold totals that differ by at most 1,
        and so do their shares of one expert: the remainders are dealt out round robin.

    Examples
    --------
    >>> spread(np.array([5, 3]), 3).tolist()
    [[2, 1], [2, 1], [1, 1]]
    """
    loads = np.asarray(loads, dtype=np.int64)
    base, rest = np.divmod(loads, sources)
    first = np.cumsum(rest, axis=-1) - rest
    turn = (np.arange(sources)[:, None] - first[..., None, :]) % sources
    counts: Ints = base[..., None, :] + (turn < rest[..., None, :])
    return counts


def _csv(path: Path, options: Options) -> GatingTrace:
    names, rows = _csv_rows(path)
    if set(LONG) <= set(names):
        columns = {name: _column(path, names, rows, name) for name in LONG}
        return _long(path, columns, options, None, first_row=2)
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
    _check_size(path, shape)
    cell = np.ravel_multi_index((i, j, expert), shape)
    row = _first_twice(cell)
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
    top_k = _top_k(path, options, found)
    notes["layer_indices"] = ", ".join(str(index) for index in layers)
    return _spread_trace(path, loads, top_k, options, notes)


def _npz(path: Path, options: Options) -> GatingTrace:
    _no_stage(path, options)
    arrays = _npz_arrays(path)
    found = None
    if "top_k" in arrays:
        value = arrays["top_k"]
        if value.size != 1 or value.dtype.kind not in "ui":
            raise InputError(
                f"{path}: array top_k: {value.dtype}{list(value.shape)}: must be one whole number"
            )
        found = int(value.reshape(()))
    for name, form in (("counts", 4), ("loads", 3)):
        if name not in arrays:
            continue
        array = arrays[name]
        if array.ndim != form or 0 in array.shape:
            axes = (
                "[iteration, layer, source, expert]" if form == 4 else "[iteration, layer, expert]"
            )
            raise InputError(
                f"{path}: array {name}: shape {array.shape}: must be {axes}, none of them 0"
            )
        if array.dtype.kind not in "ui":
            raise InputError(f"{path}: array {name}: {array.dtype} values: must be whole numbers")
        if int(array.min()) < 0 or int(array.max()) > 0xFFFFFFFF:
            where = np.unravel_index(
                int(array.argmin() if array.min() < 0 else array.argmax()), array.shape
            )
            raise InputError(
                f"{path}: array {name}, {[int(n) for n in where]}: {array[where]}: "
                "must be 0 to 4294967295"
            )
        top_k = _top_k(path, options, found)
        if form == 3:
            return _spread_trace(path, array, top_k, options, {})
        _no_sources(path, options, array.shape[2])
        return _trace(path, array, top_k, options, {"sources": "as in the file"})
    raise InputError(
        f"{path}: arrays {', '.join(sorted(arrays)) or '(none)'}: must include counts "
        "[iteration, layer, source, expert] or loads [iteration, layer, expert]"
    )


def _npz_arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {reason(error)}") from error
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            # What the archive says of itself comes before anything is unpacked: a small file can
            # unpack to fill a memory.
            size = sum(entry.file_size for entry in archive.infolist())
        if size > 8 * MAX_VALUES:
            raise InputError(f"{path}: unpacks to {size} bytes: must be at most {8 * MAX_VALUES}")
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            return {name: file[name] for name in ("counts", "loads", "top_k") if name in file}
    except InputError:
        raise
    except Exception as error:  # zip, zlib and numpy raise anything on damaged bytes
        raise InputError(f"{path}: not a whole NPZ file: {reason(error)}") from error


def _parquet(path: Path, options: Options) -> GatingTrace:
    _no_stage(path, options)
    table = read_parquet(path)
    if KEY in (table.schema.metadata or {}):
        trace = from_table(table, path)
        _no_sources(path, options, trace.sources)
        _top_k(path, options, trace.top_k)
        return trace
    columns: dict[str, Ints] = {}
    for name in LONG:
        if table.column_names.count(name) != 1:
            raise InputError(
                f"{path}: columns {shown(*table.column_names)}: must include {', '.join(LONG)}, "
                "each once"
            )
        column = table.column(name)
        if not pa.types.is_integer(column.type) or column.null_count:
            raise InputError(
                f"{path}: column {name}: {column.type}: must be whole numbers, no nulls"
            )
        try:
            columns[name] = column.cast(pa.int64()).to_numpy()
        except pa.ArrowInvalid as error:
            raise InputError(f"{path}: column {name}: {reason(error)}") from error
    return _long(path, columns, options, None, first_row=0)


def _long(
    path: Path, columns: Mapping[str, Ints], options: Options, found: int | None, first_row: int
) -> GatingTrace:
    _no_stage(path, options)
    if len(columns["tokens"]) == 0:
        raise InputError(f"{path}: no rows: must have at least one")
    for name in LONG:
        high = 0xFFFFFFFF if name == "tokens" else MAX_VALUES
        wrong = np.flatnonzero((columns[name] < 0) | (columns[name] > high))
        if len(wrong):
            row = int(wrong[0])
            raise InputError(
                f"{path}: row {row + first_row}, column {name}: {columns[name][row]}: "
                f"must be 0 to {high}"
            )
    _, i = np.unique(columns["iteration"], return_inverse=True)
    _, j = np.unique(columns["layer"], return_inverse=True)
    shape = (
        int(i.max()) + 1,
        int(j.max()) + 1,
        int(columns["source"].max()) + 1,
        int(columns["expert"].max()) + 1,
    )
    _check_size(path, shape)
    _no_sources(path, options, shape[2])
    cell = np.ravel_multi_index((i, j, columns["source"], columns["expert"]), shape)
    row_twice = _first_twice(cell)
    if row_twice is not None:
        at = ", ".join(f"{name} {columns[name][row_twice]}" for name in LONG[:4])
        raise InputError(f"{path}: row {row_twice + first_row}: {at} is there twice")
    counts = np.zeros(shape, dtype=np.int64)
    counts.reshape(-1)[cell] = columns["tokens"]
    return _trace(
        path, counts, _top_k(path, options, found), options, {"sources": "as in the file"}
    )


def _spread_trace(
    path: Path, loads: npt.NDArray[Any], top_k: int, options: Options, notes: dict[str, Any]
) -> GatingTrace:
    sources = options.sources or loads.shape[2]
    _check_size(path, (*loads.shape, sources))
    said = f"not in the file: each expert's load was spread evenly over {sources} sources"
    return _trace(path, spread(loads, sources), top_k, options, {"sources": said, **notes})


def _trace(
    path: Path, counts: npt.NDArray[Any], top_k: int, options: Options, notes: dict[str, Any]
) -> GatingTrace:
    flags = {"stage": options.stage, "sources": options.sources, "top-k": options.top_k}
    words = [f" --{flag} {value}" for flag, value in flags.items() if value is not None]
    meta = {
        "origin": "imported",
        "command": f"lightloom trace import {path.name}{''.join(words)}",
        "lightloom": __version__,
        **notes,
    }
    try:
        return GatingTrace(counts, top_k, meta)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _top_k(path: Path, options: Options, found: int | None) -> int:
    if found is None and options.top_k is None:
        raise InputError(f"{path}: does not say how many experts a token chooses: say --top-k")
    if found is not None and options.top_k is not None and found != options.top_k:
        raise InputError(f"{path}: --top-k {options.top_k}: the file says {found}")
    top_k = options.top_k if found is None else found
    assert top_k is not None  # one of the two is given: checked first
    return top_k


def _no_stage(path: Path, options: Options) -> None:
    if options.stage is not None:
        raise InputError(
            f"{path}: --stage {options.stage}: read only with expert loads that have a column stage"
        )


def _no_sources(path: Path, options: Options, there: int) -> None:
    if options.sources not in (None, there):
        raise InputError(
            f"{path}: --sources {options.sources}: the file has its own sources, {there}"
        )


def _check_size(path: Path, shape: Sequence[int]) -> None:
    size = 1
    for length in shape:
        size *= int(length)
    if size > MAX_VALUES:
        raise InputError(f"{path}: shape {tuple(shape)}: must hold at most {MAX_VALUES} values")


def _first_twice(cell: Ints) -> int | None:
    """Return the row that repeats an earlier one, if any."""
    _, first = np.unique(cell, return_index=True)
    if len(first) == len(cell):
        return None
    return int(np.setdiff1d(np.arange(len(cell)), first)[0])
