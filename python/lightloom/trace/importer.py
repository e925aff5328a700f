"""Read gating traces that others made: CSV, NPZ, Parquet, JSONL.

Four kinds of content, distinguished by the names of their columns or arrays:

- *expert loads* (CSV): ``batch_id``, ``stage``, ``router_layer_index``, ``expert_id``,
  ``assigned_tokens`` and, to find top-k, ``total_tokens``; every expert of a layer has a row. The
  file knows no sources: each load is spread evenly over them, and the trace's metadata says so.
- *long tables* (CSV or Parquet): ``iteration``, ``layer``, ``source``, ``expert``, ``tokens``; a
  missing combination is 0.
- *arrays* (NPZ): ``counts`` [iteration, layer, source, expert], or ``loads`` [iteration, layer,
  expert], which is spread evenly; optionally ``top_k``.

- *ids of tokens*, the experts that each chose (NPZ, Parquet, JSONL, directories): `token_ids`.

A Parquet file of `lightloom.trace.gating_trace` is read as it is. Ignored: other columns, expert
capacity and overflow. Checked: sums are kept, and damaged bytes give `InputError` only
(``tests/test_trace_import.py``).
"""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lightloom.errors import InputError
from lightloom.trace import parquet_file, records, token_ids
from lightloom.trace.csv_file import read_csv
from lightloom.trace.gating_trace import GatingTrace
from lightloom.trace.imported import (
    LONG,
    Ints,
    Options,
    from_counts,
    from_loads,
    from_long,
    refuse_ids,
    refuse_sources,
    refuse_stage,
    top_k_of,
)
from lightloom.trace.parquet_file import MAX_VALUES
from lightloom.trace.wording import reason, shown

_ARRAYS = ("counts", "loads", "top_k", "experts", token_ids.PROMPT, *token_ids.ARRAYS)
FORMATS = ("csv", "npz", "parquet", "jsonl")


def import_trace(
    path: str | Path, format: str = "auto", options: Options | None = None
) -> GatingTrace:
    """Read a gating trace of one of the kinds that the module lists.

    Parameters
    ----------
    path
        The file, or a directory of ids of tokens.
    format
        One of `FORMATS`; ``"auto"`` goes by the file's ending.
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
    for flag in ("sources", "top_k", "experts", "tokens"):
        value = getattr(options, flag)
        if value is not None and not 1 <= value <= 1 << 20:
            raise InputError(f"--{flag.replace('_', '-')} {value}: must be 1 to 1048576")
    if file.is_dir() and format == "auto":
        return records.from_directory(file, options)
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
    read = {"csv": read_csv, "npz": _npz, "parquet": _parquet, "jsonl": _jsonl}[ending]
    return read(file, options)


def _jsonl(path: Path, options: Options) -> GatingTrace:
    return records.from_records(path, [path], options)


def _npz(path: Path, options: Options) -> GatingTrace:
    refuse_stage(path, options)
    arrays = _npz_arrays(path)
    found = None
    if "top_k" in arrays:
        value = arrays["top_k"]
        if value.size != 1 or value.dtype.kind not in "ui":
            raise InputError(
                f"{path}: array top_k: {value.dtype}{list(value.shape)}: must be one whole number"
            )
        found = int(value.reshape(()))
    if any(name in arrays for name in token_ids.ARRAYS):
        return token_ids.from_arrays(path, arrays, found, options)
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
        top_k = top_k_of(path, options, found)
        if form == 3:
            return from_loads(path, array, top_k, options, {})
        refuse_sources(path, options, array.shape[2])
        refuse_ids(path, options)
        return from_counts(path, array, top_k, options, {"sources": "as in the file"})
    raise InputError(
        f"{path}: arrays {', '.join(sorted(arrays)) or '(none)'}: must include counts "
        "[iteration, layer, source, expert], loads [iteration, layer, expert], topk_ids "
        "[iteration, layer, source, token, k] or routed_experts [token, layer, k]"
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
            return {name: file[name] for name in _ARRAYS if name in file}
    except InputError:
        raise
    except Exception as error:  # zip, zlib and numpy raise anything on damaged bytes
        raise InputError(f"{path}: not a whole NPZ file: {reason(error)}") from error


def _parquet(path: Path, options: Options) -> GatingTrace:
    refuse_stage(path, options)
    if any(name in token_ids.COLUMNS for name in parquet_file.names_and_rows(path)[0]):
        return token_ids.from_table(path, options)
    table = parquet_file.read_table(path)
    if parquet_file.KEY in (table.schema.metadata or {}):
        trace = GatingTrace.load(path)
        refuse_sources(path, options, trace.sources)
        refuse_ids(path, options)
        top_k_of(path, options, trace.top_k)
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
    return from_long(path, columns, options, first_row=0)
