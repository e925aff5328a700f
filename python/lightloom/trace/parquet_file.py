"""Trace files: Parquet (zstd) with one row per iteration and layer.

Columns ``iteration`` and ``layer`` (both int32) and ``counts``, the source x expert matrix in
row-major order (a list of uint16, or uint32 where a count needs it). Everything else is JSON under
``lightloom.trace`` in the schema's metadata. Ignored: other columns. Checked: byte-identical files,
every wrong table and damaged bytes in ``tests/test_trace_file.py``.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from lightloom.errors import InputError
from lightloom.trace.wording import reason, shown

KEY = b"lightloom.trace"
# The largest array that a file may ask for: a damaged or hostile header must not exhaust memory.
MAX_VALUES = 1 << 28


def write(
    path: Path, counts: npt.NDArray[np.integer[Any]], top_k: int, meta: Mapping[str, Any]
) -> None:
    """Write a trace whole or not at all; the same trace gives the same bytes.

    Parameters
    ----------
    path
        Replaced at once when all is written.
    counts
        Integers below 2^32, [iteration, layer, source, expert].
    top_k, meta
        As of a `GatingTrace`.

    Raises
    ------
    InputError
        If the file cannot be written.
    """
    iterations, layers, sources, experts = counts.shape
    rows = iterations * layers
    flat = counts.reshape(-1)
    values = pa.array(flat.astype(np.uint16) if flat.max() < 1 << 16 else flat)
    width = sources * experts
    offsets = pa.array(np.arange(rows + 1, dtype=np.int64) * width, pa.int64())
    index = np.arange(rows, dtype=np.int32)
    header = {
        "format": 1,
        "sources": sources,
        "experts": experts,
        "top_k": top_k,
        "meta": dict(meta),
    }
    table = pa.table(
        {
            "iteration": pa.array(index // layers),
            "layer": pa.array(index % layers),
            "counts": pa.LargeListArray.from_arrays(offsets, values),
        }
    ).replace_schema_metadata({KEY: json.dumps(header, sort_keys=True)})
    try:
        _write_atomically(table, path)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be written: {reason(error)}") from error


@contextmanager
def _opened(path: Path) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file; whatever is wrong with it is said in one line."""
    try:
        # Bytes first: a Parquet error then never carries a path of its own, and a file that
        # changes while it is read cannot be seen half old, half new.
        data = pa.BufferReader(path.read_bytes())
        # Of the file's metadata only what reading needs: where pyarrow shows more of it, damage
        # ends the process instead of raising.
        with pq.ParquetFile(data, page_checksum_verification=True) as file:
            yield file
    except OSError as error:
        if isinstance(error, (FileNotFoundError, IsADirectoryError, PermissionError)):
            raise InputError(f"{path}: cannot be read: {reason(error)}") from error
        raise InputError(f"{path}: not a whole Parquet file: {reason(error)}") from error
    except (pa.ArrowException, ValueError, KeyError, MemoryError, OverflowError) as error:
        raise InputError(f"{path}: not a whole Parquet file: {reason(error)}") from error


def names_and_rows(path: Path) -> tuple[list[str], int]:
    """Return the names of a file's columns, and how many rows it says that it has."""
    with _opened(path) as file:
        return [str(name) for name in file.schema_arrow.names], int(file.metadata.num_rows)


def batches(path: Path, columns: list[str], size: int = 1 << 16) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file, of the columns that are there of some names."""
    with _opened(path) as file:
        for batch in file.iter_batches(batch_size=size, columns=columns, use_threads=False):
            batch.validate(full=True)
            yield batch


def read_table(path: Path) -> pa.Table:
    """Read a whole Parquet file into memory, or say in one line why not."""
    with _opened(path) as file:
        read, values = [], 0
        for batch in file.iter_batches(batch_size=1024, use_threads=False):
            batch.validate(full=True)
            values += sum(_values(column) for column in batch.columns)
            if values > 5 * MAX_VALUES:
                raise InputError(f"{path}: must be at most {MAX_VALUES} counts")
            read.append(batch)
        return pa.Table.from_batches(read, schema=file.schema_arrow)


def parse(table: pa.Table, path: Path) -> tuple[npt.NDArray[np.integer[Any]], int, dict[str, Any]]:
    """Turn a table in the format of this module into the parts of a trace.

    Parameters
    ----------
    table
        Columns iteration, layer, counts; JSON in the schema's metadata.
    path
        Named in error messages.

    Returns
    -------
    tuple
        Counts [iteration, layer, source, expert], top-k, metadata: what `GatingTrace` takes.

    Raises
    ------
    InputError
        If a row is missing, twice there, or has not sources x experts counts.
    """
    header = _header(table, path)
    sources, experts = header["sources"], header["experts"]
    columns = {}
    for name in ("iteration", "layer"):
        if name not in table.column_names or table.column(name).type != pa.int32():
            raise InputError(f"{path}: column {name}: must be there, as int32")
        if table.column(name).null_count:
            raise InputError(f"{path}: column {name}: must have no nulls")
        columns[name] = table.column(name).to_numpy()
    if table.column_names.count("counts") != 1:
        raise InputError(f"{path}: column counts: must be there, once")
    kind = table.column("counts").type
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)) or (
        kind.value_type not in (pa.uint16(), pa.uint32())
    ):
        raise InputError(f"{path}: column counts: {kind}: must be a list of uint16 or uint32")
    lists = table.column("counts").combine_chunks()
    if isinstance(lists, pa.ChunkedArray):
        lists = pa.concat_arrays(lists.chunks) if lists.num_chunks else pa.array([], kind)
    lengths = lists.value_lengths().to_numpy(zero_copy_only=False)
    wrong = np.flatnonzero(lengths != sources * experts)
    if lists.null_count or len(wrong):
        row = int(wrong[0]) if len(wrong) else 0
        raise InputError(
            f"{path}: row {row}: {lengths[row]} counts: must be {sources} sources x {experts} "
            f"experts = {sources * experts}"
        )
    values = lists.flatten()
    if values.null_count:
        raise InputError(f"{path}: column counts: must have no nulls")
    iterations, layers = (int(columns[name].max(initial=-1)) + 1 for name in columns)
    rows = len(table)
    expected = np.arange(rows, dtype=np.int64)
    if rows == 0 or iterations * layers != rows:
        raise InputError(
            f"{path}: {rows} rows for {iterations} iterations x {layers} layers: "
            "each pair must have one row, and there must be at least one"
        )
    order = columns["iteration"].astype(np.int64) * layers + columns["layer"]
    wrong = np.flatnonzero(order != expected)
    if len(wrong):
        row = int(wrong[0])
        raise InputError(
            f"{path}: row {row}: iteration {columns['iteration'][row]}, layer "
            f"{columns['layer'][row]}: rows must go by iteration, then layer, without a gap"
        )
    counts = values.to_numpy().reshape(iterations, layers, sources, experts)
    return counts, header["top_k"], header["meta"]


def _values(column: pa.Array) -> int:
    kind = column.type
    nested = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    return len(column.flatten()) if nested else len(column)


def _header(table: pa.Table, path: Path) -> dict[str, Any]:
    raw = (table.schema.metadata or {}).get(KEY)
    if raw is None:
        raise InputError(
            f"{path}: no `lightloom.trace` in the schema's metadata: not a trace; "
            "a table of counts is read by `lightloom trace import`"
        )
    try:
        header = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: lightloom.trace: not JSON: {reason(error)}") from error
    if not isinstance(header, dict) or header.get("format") != 1:
        raise InputError(f"{path}: lightloom.trace: must be a JSON object with format = 1")
    for key in ("sources", "experts", "top_k"):
        value = header.get(key)
        if type(value) is not int or not 1 <= value <= 1 << 20:
            raise InputError(
                f"{path}: {key} = {shown(repr(value))}: must be a whole number, 1 to 1048576"
            )
    if not isinstance(header.get("meta"), dict):
        raise InputError(f"{path}: meta = {shown(repr(header.get('meta')))}: must be a JSON object")
    return header


def _write_atomically(table: pa.Table, path: Path) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            # Counts rarely repeat, so a dictionary only costs; splitting them into byte planes
            # leaves zstd one plane of noise and three of zeros. Checksums make damage an error.
            pq.write_table(
                table,
                file,
                compression="zstd",
                compression_level=19,
                use_dictionary=False,
                column_encoding={
                    "iteration": "PLAIN",
                    "layer": "PLAIN",
                    "counts.list.element": "BYTE_STREAM_SPLIT",
                },
                write_statistics=False,
                write_page_checksum=True,
            )
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
