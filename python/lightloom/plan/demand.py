"""What nodes have for each other, from a file: a matrix, or what a gate sent in one layer.

- A matrix of bytes: CSV (rows of whole numbers with commas), ``.npy``, ``.npz`` of one array or
  Parquet, square, from each node (rows) to each (columns). What a node has for itself stays there.
- The same as a list: CSV or Parquet of the columns source, destination and bytes.
- A gating trace: Parquet, a shipped name such as ``e32k4``, or CSV as `lightloom.trace` reads it.
  Experts lie on the ranks in order; sources are summed into ranks; and the counts are scaled so
  that a rank has ``bytes_per_rank`` for the others on average.

Checked: every refusal, and damaged files (fuzzed), which give one message.
"""

from __future__ import annotations

import contextlib
import csv
import io
import re
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lightloom.errors import InputError
from lightloom.trace.wording import reason, shown
from lightloom.units import Size

Matrix = npt.NDArray[np.uint64]

MOST_NODES = 512
MOST_BYTES = 1 << 50
BYTES_PER_RANK = "64 MB"
_LIST = ["source", "destination", "bytes"]
_WHOLE = re.compile(r"[0-9]{1,19}", re.ASCII)
_SHIPPED = re.compile(r"e[0-9]{1,6}k[0-9]{1,6}", re.ASCII)


@dataclass(frozen=True)
class OfTrace:
    """Which part of a gating trace, and how much it stands for."""

    layer: int | None = None
    iteration: int | None = None
    ranks: int | None = None
    """None: one a source."""
    bytes_per_rank: Size | None = None

    def given(self) -> list[str]:
        """Return the options that were set."""
        return [name.replace("_", "-") for name, value in vars(self).items() if value is not None]


def read(source: str | Path, of_trace: OfTrace | None = None, *, most: int = MOST_NODES) -> Matrix:
    r"""Read a demand.

    Parameters
    ----------
    source
        A file, or the name of a shipped trace.
    of_trace
        What to take of a trace; a matrix has no use for it.
    most
        Nodes that there may be.

    Returns
    -------
    numpy.ndarray
        Bytes [from, to] of 2 nodes or more.

    Raises
    ------
    InputError
        Naming the file, the entry, and what is allowed.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "demand.csv"
    >>> _ = file.write_text("0, 5\n7, 0\n")
    >>> read(file).tolist()
    [[0, 5], [7, 0]]
    >>> _ = file.write_text("source,destination,bytes\n0,2,5\n0,2,1\n")
    >>> read(file).tolist()
    [[0, 0, 6], [0, 0, 0], [0, 0, 0]]
    >>> int(read("e32k4", OfTrace(layer=1, bytes_per_rank=Size.parse("64 MB"))).sum())
    2048000000
    """
    name, options = str(source), of_trace or OfTrace()
    path = Path(source)
    ending = path.suffix.lower()
    if _SHIPPED.fullmatch(name):
        return _of_trace(name, _load(name), options)
    if ending == ".parquet":
        found = _parquet(path, most)
        if found is None:
            return _of_trace(name, _load(name), options)
        return matrix(found, str(path), most, options)
    if ending in (".npy", ".npz"):
        return matrix(_npy(path, most), str(path), most, options)
    if ending == ".csv":
        rows = _csv(path)
        if [cell.lower() for cell in rows[0]] == _LIST:
            cells = [_numbers(path, number, row) for number, row in enumerate(rows[1:], start=2)]
            if wrong := next((i for i, row in enumerate(cells, 2) if len(row) != 3), None):
                raise InputError(f"{path}: row {wrong}: must have source, destination and bytes")
            listed = np.array(cells, dtype=np.uint64).reshape(-1, 3)
            return matrix(_listed(path, listed, most), str(path), most, options)
        # A trace has a header of names.
        if any(
            cell and not re.match(r"[0-9+\-.]|nan|inf", cell, re.IGNORECASE) for cell in rows[0]
        ):
            from lightloom.trace import import_trace

            return _of_trace(name, import_trace(path), options)
        return matrix(_whole(path, rows, most), str(path), most, options)
    raise InputError(
        f"{path}: cannot tell what it is from the ending {shown(path.suffix) or 'of nothing'}; "
        "allowed: .csv, .npy, .npz, .parquet, or a shipped trace such as e32k4"
    )


def _csv(path: Path) -> list[list[str]]:
    try:
        text = path.read_bytes().decode("utf-8-sig")
        rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {reason(error)}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.start}: not UTF-8 text") from None
    except csv.Error as error:
        raise InputError(f"{path}: not CSV: {reason(error)}") from None
    rows = [[cell.strip() for cell in row] for row in rows if row]
    if not rows:
        raise InputError(f"{path}: is empty; allowed: a square matrix of bytes, or a trace")
    return rows


def _whole(path: Path, rows: list[list[str]], most: int) -> Matrix:
    if len(rows) > most:
        raise InputError(f"{path}: {len(rows)} rows: must be at most {most}")
    entries = np.zeros((len(rows), len(rows)), dtype=np.uint64)
    for number, row in enumerate(rows, start=1):
        if len(row) != len(rows):
            raise InputError(
                f"{path}: row {number}: {len(row)} entries of {len(rows)} rows: must be square"
            )
        entries[number - 1] = np.array(_numbers(path, number, row), dtype=np.uint64)
    return entries


def _numbers(path: Path, number: int, row: list[str]) -> list[int]:
    for column, cell in enumerate(row, start=1):
        if not _WHOLE.fullmatch(cell):
            raise InputError(
                f"{path}: row {number}, column {column}: {cell[:40]!r}: "
                "must be a whole number of bytes, 0 or more"
            )
    return [int(cell) for cell in row]


def _parquet(path: Path, most: int) -> npt.NDArray[Any] | None:
    """Read a square table, or a list; None of what is neither, which a trace may be."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        schema = pq.read_schema(path)
        columns = [schema.field(i) for i in range(len(schema))]
        numbers = all(pa.types.is_integer(c.type) or pa.types.is_floating(c.type) for c in columns)
        listed = sorted(c.name for c in columns) == sorted(_LIST)
        if not (numbers and columns) or not (
            listed or pq.read_metadata(path).num_rows == len(columns)
        ):
            return None
        table = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path}: cannot be read: {reason(error)}") from None
    if empty := next((name for name in table.column_names if table[name].null_count), None):
        raise InputError(f"{path}: column {empty}: a value is missing")
    if listed:
        cells = [_checked(str(path), table[name].to_numpy().reshape(-1, 1)) for name in _LIST]
        return _listed(path, np.hstack(cells), most)
    return np.column_stack([table[at].to_numpy() for at in range(len(columns))])


def _listed(path: Path, cells: Matrix, most: int) -> Matrix:
    """Sum up rows of source, destination and bytes; the greatest number says how many nodes."""
    sources, destinations, sizes = cells.T
    nodes = int(cells[:, :2].max(initial=0)) + 1
    if not len(cells) or nodes > most:
        raise InputError(f"{path}: {nodes if len(cells) else 0} nodes: must be 2 to {most}")
    if int(sizes.max()) > MOST_BYTES:
        _check_total(str(path), int(sizes.max()))
    entries = np.zeros((nodes, nodes), dtype=np.uint64)
    np.add.at(entries, (sources, destinations), sizes)
    return entries


def _npy(path: Path, most: int) -> npt.NDArray[Any]:
    try:
        with contextlib.ExitStack() as open_files:
            file: Any = open_files.enter_context(path.open("rb"))
            if path.suffix.lower() == ".npz":
                archive = open_files.enter_context(zipfile.ZipFile(file))
                if len(archive.namelist()) != 1:
                    raise InputError(f"{path}: {len(archive.namelist())} arrays: must hold one")
                file = open_files.enter_context(archive.open(archive.namelist()[0]))
            # The header first: a hostile shape must not exhaust memory.
            version = np.lib.format.read_magic(file)
            header = {
                (1, 0): np.lib.format.read_array_header_1_0,
                (2, 0): np.lib.format.read_array_header_2_0,
            }.get(version)
            if header is None:
                raise ValueError(f"version {version} of the format")
            shape, _, dtype = header(file)
            if len(shape) != 2 or shape[0] != shape[1]:
                raise InputError(f"{path}: shape {list(shape)}: must be square")
            if shape[0] > most:
                raise InputError(f"{path}: {shape[0]} nodes: must be at most {most}")
            if dtype.kind not in "iuf":
                raise InputError(f"{path}: {dtype} entries: must be numbers of bytes")
            file.seek(0)
            loaded: npt.NDArray[Any] = np.load(file, allow_pickle=False)
            return loaded
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {reason(error)}") from None
    except InputError:
        raise
    except Exception as error:  # whatever numpy says of damaged bytes
        ending = path.suffix.lower()
        raise InputError(f"{path}: not a whole {ending} file: {reason(error)}") from None


def matrix(
    entries: npt.NDArray[Any], name: str, most: int, options: OfTrace | None = None
) -> Matrix:
    """Check a matrix of numbers, and leave out what nodes have for themselves.

    Raises
    ------
    InputError
        Naming the entry, and what is allowed.

    Examples
    --------
    >>> matrix(np.array([[1, 2], [3, 4.0]]), "demand", 512).tolist()
    [[0, 2], [3, 0]]
    """
    if given := options.given() if options else ():
        raise InputError(f"--{given[0]}: is of gating traces; {name} is a matrix")
    if entries.ndim != 2 or entries.shape[0] != entries.shape[1]:
        raise InputError(f"{name}: shape {list(entries.shape)}: must be square")
    if not 2 <= len(entries) <= most:
        raise InputError(f"{name}: {len(entries)} nodes: must be 2 to {most}")
    checked = _checked(name, entries).copy()
    np.fill_diagonal(checked, 0)
    # No sum of such entries is beyond 64 bits.
    large = checked > MOST_BYTES
    _check_total(name, int(checked[large][0] if large.any() else checked.sum()))
    return checked


def _checked(name: str, entries: npt.NDArray[Any]) -> Matrix:
    if entries.dtype.kind not in "iuf":
        raise InputError(f"{name}: {entries.dtype} entries: must be numbers of bytes")
    wrong = entries < 0
    if entries.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            wrong |= ~np.isfinite(entries) | (entries != np.floor(entries)) | (entries >= 2.0**64)
    at = np.argwhere(wrong)
    if len(at):
        row, column = (int(i) for i in at[0])
        raise InputError(
            f"{name}: [{row}][{column}] = {entries[row, column]}: "
            "must be a whole number of bytes, 0 or more"
        )
    return entries.astype(np.uint64)


def _check_total(name: str, total: int) -> None:
    if not 1 <= total <= MOST_BYTES:
        raise InputError(
            f"{name}: {total} bytes between nodes: must be 1 to {MOST_BYTES} ({Size(MOST_BYTES)})"
        )


def _load(name: str) -> Any:
    from lightloom.trace import GatingTrace

    return GatingTrace.load(name)


def _of_trace(name: str, trace: Any, options: OfTrace) -> Matrix:
    from lightloom.rails.workloads import apportioned

    at: dict[str, int] = {}
    for option, value, count in (
        ("layer", options.layer, trace.layers),
        ("iteration", options.iteration, trace.iterations),
    ):
        at[option] = value or 0
        if not 0 <= at[option] < count:
            raise InputError(f"--{option} {value}: must be 0 to {count - 1}, of {name}")
    ranks = trace.sources if options.ranks is None else options.ranks
    if not 2 <= ranks <= MOST_NODES or trace.sources % ranks or trace.experts % ranks:
        raise InputError(
            f"--ranks {ranks}: must divide the {trace.sources} sources and {trace.experts} experts "
            f"of {name}, and be 2 to {MOST_NODES}"
        )
    counts = trace.counts[at["iteration"], at["layer"]].astype(np.float64)
    shape = (ranks, trace.sources // ranks, ranks, trace.experts // ranks)
    between = counts.reshape(shape).sum(axis=(1, 3))
    np.fill_diagonal(between, 0)
    if not between.any():
        raise InputError(f"{name}: no token left its rank; allowed: another layer or iteration")
    each = Size.parse(BYTES_PER_RANK) if options.bytes_per_rank is None else options.bytes_per_rank
    _check_total(f"--bytes-per-rank {each} of {ranks} ranks", each * ranks)
    return apportioned(between.reshape(1, -1), [each * ranks]).reshape(ranks, ranks)
