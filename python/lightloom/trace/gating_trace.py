"""Gating traces: how many token assignments each source rank sends to each expert.

Modelled: one count per iteration, MoE layer, source rank and expert, which is all that the volume
of an all-to-all depends on. Ignored: which token went where, the gate's weights, dropped tokens (no
capacity limit). Checked: round trips, byte-identical files, and damaged files in
``tests/test_trace_file.py``.

A file is Parquet (zstd) with one row per iteration and layer: ``iteration``, ``layer`` (both
int32) and ``counts``, the source x expert matrix in row-major order (a list of uint16, or uint32
where a count needs it). Everything else is JSON under ``lightloom.trace`` in the schema's metadata.
"""

from __future__ import annotations

import json
import math
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from lightloom.errors import InputError

Counts = npt.NDArray[np.integer[Any]]
Meta = Mapping[str, str | int | float | bool]

BUILTIN_DIRECTORY = Path(__file__).resolve().parent.parent / "traces"
KEY = b"lightloom.trace"
# The largest array that a file may ask for: a damaged or hostile header must not exhaust memory.
MAX_VALUES = 1 << 28
_NAME = re.compile(r"e([0-9]{1,6})k([0-9]{1,6})", re.ASCII)


@dataclass(frozen=True, eq=False)
class GatingTrace:
    """Token assignments per iteration, MoE layer, source rank and expert.

    Parameters
    ----------
    counts
        Assignments, integers of shape [iteration, layer, source, expert] (a token counts once for
        each of the `top_k` experts that it chose). Kept as read-only uint32.
    top_k
        Experts that each token chooses, 1 to the number of experts.
    meta
        Where the trace comes from: `origin` (recorded, imported or synthetic), the command and
        seed that made it, versions, model shape, text; plain values only.

    Raises
    ------
    InputError
        If the counts are not such an array, or an iteration's layer holds no token at all.

    Examples
    --------
    >>> trace = GatingTrace(np.full((3, 2, 4, 8), 16), top_k=2)
    >>> trace.iterations, trace.layers, trace.sources, trace.experts
    (3, 2, 4, 8)
    """

    counts: Counts
    top_k: int
    meta: Meta = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the shape and freeze the array."""
        counts = np.asarray(self.counts)
        if counts.ndim != 4 or 0 in counts.shape:
            raise InputError(
                f"counts: shape {counts.shape}: must be [iteration, layer, source, expert], "
                "none of them 0"
            )
        if counts.dtype.kind not in "ui":
            raise InputError(f"counts: {counts.dtype} values: must be whole numbers")
        if counts.size > MAX_VALUES:
            raise InputError(f"counts: {counts.size} values: must be at most {MAX_VALUES}")
        low, high = int(counts.min()), int(counts.max())
        if low < 0 or high > np.iinfo(np.uint32).max:
            raise InputError(f"counts: {low if low < 0 else high}: must be 0 to 4294967295")
        experts = counts.shape[3]
        if not 1 <= self.top_k <= experts:
            raise InputError(f"top_k = {self.top_k}: must be 1 to the number of experts, {experts}")
        empty = np.argwhere(counts.sum(axis=(2, 3), dtype=np.uint64) == 0)
        if len(empty):
            iteration, layer = (int(i) for i in empty[0])
            raise InputError(
                f"counts: iteration {iteration}, layer {layer} holds no token: "
                "every iteration and layer must hold at least one"
            )
        for key, value in self.meta.items():
            plain = isinstance(value, (str, int)) or (
                isinstance(value, float) and math.isfinite(value)
            )
            if not isinstance(key, str) or not plain:
                raise InputError(
                    f"meta.{shown(key)} = {shown(repr(value))}: must be text, a finite number, "
                    "true or false"
                )
        frozen = np.array(counts, dtype=np.uint32, order="C")
        frozen.setflags(write=False)
        object.__setattr__(self, "counts", frozen)
        object.__setattr__(self, "meta", MappingProxyType(dict(self.meta)))

    @property
    def iterations(self) -> int:
        """Iterations recorded."""
        return int(self.counts.shape[0])

    @property
    def layers(self) -> int:
        """MoE layers recorded."""
        return int(self.counts.shape[1])

    @property
    def sources(self) -> int:
        """Source ranks: shards of the batch, at most the EP degree that the trace can serve."""
        return int(self.counts.shape[2])

    @property
    def experts(self) -> int:
        """Experts of each layer."""
        return int(self.counts.shape[3])

    def loads(self) -> npt.NDArray[np.uint64]:
        """Return the assignments of each expert, [iteration, layer, expert].

        Examples
        --------
        >>> int(GatingTrace(np.full((1, 1, 4, 8), 16), top_k=2).loads()[0, 0, 7])
        64
        """
        loads: npt.NDArray[np.uint64] = self.counts.sum(axis=2, dtype=np.uint64)
        return loads

    def save(self, path: str | Path) -> None:
        """Write the trace; the same trace gives the same bytes, and a reader never sees a part.

        Parameters
        ----------
        path
            The Parquet file to write; an existing one is replaced at once when all is written.

        Raises
        ------
        InputError
            If the file cannot be written.
        """
        rows = self.iterations * self.layers
        flat = self.counts.reshape(-1)
        values = pa.array(flat.astype(np.uint16) if flat.max() < 1 << 16 else flat)
        width = self.sources * self.experts
        offsets = pa.array(np.arange(rows + 1, dtype=np.int64) * width, pa.int64())
        index = np.arange(rows, dtype=np.int32)
        header = {
            "format": 1,
            "sources": self.sources,
            "experts": self.experts,
            "top_k": self.top_k,
            "meta": dict(self.meta),
        }
        table = pa.table(
            {
                "iteration": pa.array(index // self.layers),
                "layer": pa.array(index % self.layers),
                "counts": pa.LargeListArray.from_arrays(offsets, values),
            }
        ).replace_schema_metadata({KEY: json.dumps(header, sort_keys=True)})
        try:
            _write_atomically(table, Path(path))
        except (OSError, ValueError) as error:
            raise InputError(f"{path}: cannot be written: {reason(error)}") from error

    @classmethod
    def load(cls, source: str | Path) -> GatingTrace:
        """Read a trace from a file, or a shipped one by its name.

        Parameters
        ----------
        source
            A path, or a name such as ``"e8k2"`` (8 experts, top-2).

        Raises
        ------
        InputError
            If there is no such file, or it is not a whole trace.

        Examples
        --------
        >>> GatingTrace.load("e8k2").experts
        8
        """
        name = _NAME.fullmatch(source) if isinstance(source, str) else None
        path = find_builtin(int(name[1]), int(name[2])) if name else Path(source)
        return from_table(read_parquet(path), path)

    @classmethod
    def builtin(cls, experts: int, top_k: int) -> GatingTrace:
        """Load the shipped recording for this many experts.

        Raises
        ------
        InputError
            If none is shipped; the message says how to make one.

        Examples
        --------
        >>> GatingTrace.builtin(8, 2).meta["origin"]
        'recorded'
        """
        return cls.load(find_builtin(experts, top_k))


def builtin_names() -> list[str]:
    """Return the names of the shipped recordings, such as ``e8k2``, fewest experts first."""
    names = [path.stem for path in BUILTIN_DIRECTORY.glob("e*k*.parquet")]
    return sorted(names, key=lambda name: [int(part) for part in name[1:].split("k")])


def find_builtin(experts: int, top_k: int) -> Path:
    """Return the file of the shipped recording for this many experts and this top-k.

    Raises
    ------
    InputError
        If none is shipped: a trace for 8 experts says nothing about 64, so none is ever stretched.

    Examples
    --------
    >>> find_builtin(8, 2).name
    'e8k2.parquet'
    >>> find_builtin(48, 3)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    lightloom.errors.InputError: gating: no trace is shipped for 48 experts, top-3 (shipped: ...
    """
    path = BUILTIN_DIRECTORY / f"e{experts}k{top_k}.parquet"
    if path.is_file():
        return path
    shape = f"--experts {experts} --top-k {top_k} --sources {min(experts, 64)} --layers 8"
    raise InputError(
        f"gating: no trace is shipped for {experts} experts, top-{top_k} "
        f"(shipped: {', '.join(builtin_names())}); record one with "
        f"`lightloom trace record {shape} --iterations 20 --out F`, "
        f"or make one up with `lightloom trace generate uniform {shape} --iterations 20 --out F`, "
        "and name it as gating.trace"
    )


def read_parquet(path: Path) -> pa.Table:
    """Read a whole Parquet file into memory, or say in one line why not."""
    try:
        # Bytes first: a Parquet error then never carries a path of its own, and a file that
        # changes while it is read cannot be seen half old, half new.
        data = pa.BufferReader(path.read_bytes())
        # Of the file's metadata only what reading needs: where pyarrow shows more of it, damage
        # ends the process instead of raising.
        with pq.ParquetFile(data, page_checksum_verification=True) as file:
            batches, values = [], 0
            for batch in file.iter_batches(batch_size=1024, use_threads=False):
                batch.validate(full=True)
                values += sum(_values(column) for column in batch.columns)
                if values > 5 * MAX_VALUES:
                    raise InputError(f"{path}: must be at most {MAX_VALUES} counts")
                batches.append(batch)
            return pa.Table.from_batches(batches, schema=file.schema_arrow)
    except OSError as error:
        if isinstance(error, (FileNotFoundError, IsADirectoryError, PermissionError)):
            raise InputError(f"{path}: cannot be read: {reason(error)}") from error
        raise InputError(f"{path}: not a whole Parquet file: {reason(error)}") from error
    except (pa.ArrowException, ValueError, KeyError, MemoryError, OverflowError) as error:
        raise InputError(f"{path}: not a whole Parquet file: {reason(error)}") from error


def from_table(table: pa.Table, path: Path) -> GatingTrace:
    """Turn a table in the format of this module into a trace.

    Parameters
    ----------
    table
        Columns iteration, layer, counts; JSON in the schema's metadata.
    path
        Named in complaints.

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
    try:
        return GatingTrace(counts, header["top_k"], header["meta"])
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def shown(*names: object) -> str:
    r"""Return names from a file as they may stand in a message: short, and on one line.

    Examples
    --------
    >>> shown("layer", "to\nkens")
    "layer, 'to\\nkens'"
    """
    texts = [str(name) for name in names[:20]]
    short = [text if text.isprintable() and len(text) <= 40 else repr(text[:40]) for text in texts]
    return ", ".join(short) + (f", and {len(names) - 20} more" if len(names) > 20 else "")


def reason(error: BaseException) -> str:
    """Return what went wrong on one short printable line, without error number and path."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    line = "".join(c if c.isprintable() else " " for c in text)
    return " ".join(line.split())[:200] or type(error).__name__


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
