"""What nodes have for each other, from a file: a matrix, or what a gate sent in one layer.

- A matrix of bytes: CSV (rows of whole numbers with commas) or ``.npy``, square, from each node
  (rows) to each (columns). What a node has for itself stays at home.
- A gating trace: Parquet, a shipped name such as ``e32k4``, or CSV as `lightloom.trace` reads it.
  Experts lie on the ranks in order; sources are summed into ranks; and the counts are scaled so
  that a rank has ``bytes_per_rank`` for the others on average.

Checked: every refusal, and damaged files (fuzzed), which give one message.
"""

from __future__ import annotations

import csv
import io
import re
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


def read(source: str | Path, of_trace: OfTrace | None = None) -> Matrix:
    r"""Read a demand.

    Parameters
    ----------
    source
        A file, or the name of a shipped trace.
    of_trace
        What to take of a trace; a matrix has no use for it.

    Returns
    -------
    numpy.ndarray
        Bytes [from, to] of 2 to 512 nodes.

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
    >>> int(read("e32k4", OfTrace(layer=1, bytes_per_rank=Size.parse("64 MB"))).sum())
    2048000000
    """
    name, options = str(source), of_trace or OfTrace()
    path = Path(source)
    ending = path.suffix.lower()
    if _SHIPPED.fullmatch(name) or ending == ".parquet":
        return _of_trace(name, _load(name), options)
    if ending == ".npy":
        return _matrix(path, _npy(path), options)
    if ending == ".csv":
        rows = _csv(path)
        # A trace has a header of names.
        if any(
            cell and not re.match(r"[0-9+\-.]|nan|inf", cell, re.IGNORECASE) for cell in rows[0]
        ):
            from lightloom.trace import import_trace

            return _of_trace(name, import_trace(path), options)
        return _matrix(path, _whole(path, rows), options)
    raise InputError(
        f"{path}: cannot tell what it is from the ending {shown(path.suffix) or 'of nothing'}; "
        "allowed: .csv, .npy, .parquet, or a shipped trace such as e32k4"
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


def _whole(path: Path, rows: list[list[str]]) -> list[list[int]]:
    if len(rows) > MOST_NODES:
        raise InputError(f"{path}: {len(rows)} rows: must be at most {MOST_NODES}")
    for number, row in enumerate(rows, start=1):
        if len(row) != len(rows):
            raise InputError(
                f"{path}: row {number}: {len(row)} entries of {len(rows)} rows: must be square"
            )
        for column, cell in enumerate(row, start=1):
            if not _WHOLE.fullmatch(cell):
                raise InputError(
                    f"{path}: row {number}, column {column}: {cell[:40]!r}: "
                    "must be a whole number of bytes, 0 or more"
                )
    return [[int(cell) for cell in row] for row in rows]


def _npy(path: Path) -> npt.NDArray[Any]:
    try:
        with path.open("rb") as file:
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
            if shape[0] > MOST_NODES:
                raise InputError(f"{path}: {shape[0]} nodes: must be at most {MOST_NODES}")
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
        raise InputError(f"{path}: not a whole .npy file: {reason(error)}") from None


def _matrix(path: Path, entries: list[list[int]] | npt.NDArray[Any], options: OfTrace) -> Matrix:
    """Check a square matrix of numbers."""
    if given := options.given():
        raise InputError(f"--{given[0]}: is of gating traces; {path} is a matrix")
    if len(entries) < 2:
        raise InputError(f"{path}: {len(entries)} nodes: must be 2 to {MOST_NODES}")
    if isinstance(entries, np.ndarray):
        wrong = ~np.isfinite(entries) | (entries < 0)
        if entries.dtype.kind == "f":
            with np.errstate(invalid="ignore"):
                wrong |= entries != np.floor(entries)
        at = np.argwhere(wrong)
        if len(at):
            row, column = (int(i) for i in at[0])
            raise InputError(
                f"{path}: [{row}][{column}] = {entries[row, column]}: "
                "must be a whole number of bytes, 0 or more"
            )
        entries = entries.tolist()
    total = sum(int(size) for i, row in enumerate(entries) for j, size in enumerate(row) if i != j)
    _check_total(str(path), total)
    return np.array(
        [[0 if i == j else int(size) for j, size in enumerate(row)]
         for i, row in enumerate(entries)],
        dtype=np.uint64,
    )  # fmt: skip


def _check_total(name: str, total: int) -> None:
    if not 1 <= total <= MOST_BYTES:
        raise InputError(
            f"{name}: {total} bytes between nodes: must be 1 to {MOST_BYTES} ({Size(MOST_BYTES)})"
        )


def _load(name: str) -> Any:
    from lightloom.trace import GatingTrace

    return GatingTrace.load(name)


def _of_trace(name: str, trace: Any, options: OfTrace) -> Matrix:
    from lightloom.rails.workloads import _apportioned

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
    return _apportioned(between.reshape(1, -1), [each * ranks]).reshape(ranks, ranks)
