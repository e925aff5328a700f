"""Result directories: Parquet tables, JSON and text, written whole or not at all.

A Result is built in a directory beside its place and renamed into it, so that a reader never sees
half of one and an interrupted run leaves nothing. The bytes depend on the contents alone: no time,
no host, fixed compression. Ignored: appending to a Result. Checked: byte equality of two writes,
and every refusal.

Examples
--------
>>> import tempfile
>>> import pyarrow as pa
>>> with tempfile.TemporaryDirectory() as place:
...     with create(Path(place) / "out") as result:
...         write_tables(result, {"runs": pa.table({"run": [0]})})
...         write_json(result / INFO, {"lightloom": "0.1.0", "seed": 1})
...     read_table(Path(place) / "out", "runs").to_pydict(), read_info(Path(place) / "out")["seed"]
({'run': [0]}, 1)
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lightloom.errors import InputError

# The file that makes a directory a Result; it says which version wrote it, under "lightloom".
INFO = "result.json"
SPEC = "spec.toml"


def check_place(directory: Path) -> None:
    """Refuse a place that holds something other than a Result; call before a long run.

    Raises
    ------
    InputError
        If `directory` is a file, or is neither empty nor a Result, or cannot be written to, or is
        where the process stands (it would be replaced under its feet).
    """
    try:
        if Path.cwd().is_relative_to(directory.resolve()):
            raise InputError(f"{directory}: holds the current directory; allowed: one below it")
        if not directory.exists():
            parent = next(p for p in (directory, *directory.absolute().parents) if p.exists())
            if not parent.is_dir():
                raise InputError(f"{directory}: cannot be made: {parent} is not a directory")
        elif not directory.is_dir():
            raise InputError(
                f"{directory}: is a file; allowed: a new or empty directory, or a Result"
            )
        elif any(directory.iterdir()) and not is_result(directory):
            raise InputError(
                f"{directory}: is not empty and not a Result; allowed: a new or empty directory, "
                "or a Result to replace"
            )
    except OSError as error:
        raise InputError(f"{directory}: cannot be used: {error.strerror or error}") from None


@contextmanager
def create(directory: Path) -> Iterator[Path]:
    """Build a Result: yields a directory to fill, which takes its place when all went well.

    A Result that stood there is replaced.

    Raises
    ------
    InputError
        As `check_place`; nothing has been written then.
    """
    check_place(directory)
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=directory.parent))
    except OSError as error:
        raise InputError(f"{directory}: cannot be written: {error.strerror or error}") from None
    try:
        yield draft
        draft.chmod(0o755)  # mkdtemp's own is for its maker alone
        _take_place(draft, directory)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def write_tables(directory: Path, tables: Mapping[str, pa.Table]) -> None:
    """Write each table as ``NAME.parquet``; equal tables give equal bytes."""
    for name, table in tables.items():
        pq.write_table(
            table.replace_schema_metadata(None),
            directory / f"{name}.parquet",
            compression="zstd",
            compression_level=6,
            version="2.6",
            row_group_size=1 << 20,
        )


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write JSON in the order given, one key a line."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    path.write_text(f"{text}\n", encoding="utf-8")


def is_result(directory: Path) -> bool:
    """Whether a directory holds a Result (by its `INFO` file alone)."""
    try:
        read_info(directory)
    except InputError:
        return False
    return True


def read_info(directory: Path) -> dict[str, Any]:
    """Read what a Result says of itself: versions, seed, command, warnings, notes.

    Raises
    ------
    InputError
        If the directory is no Result.
    """
    path = directory / INFO
    try:
        info = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{directory}: not a Result: {INFO}: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise InputError(f"{directory}: not a Result: {INFO} is not valid JSON") from None
    if not isinstance(info, dict) or "lightloom" not in info:
        raise InputError(f'{directory}: not a Result: {INFO} does not name a version ("lightloom")')
    return info


def read_table(directory: Path, name: str) -> pa.Table:
    """Read one table of a Result.

    Raises
    ------
    InputError
        If the table is absent or not Parquet.
    """
    path = directory / f"{name}.parquet"
    try:
        return pq.read_table(path, memory_map=False)
    except FileNotFoundError:
        held = ", ".join(sorted(p.stem for p in directory.glob("*.parquet"))) or "none"
        raise InputError(f"{directory}: no table {name!r}; it has: {held}") from None
    except (pa.ArrowException, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise InputError(f"{path}: not a readable Parquet file: {reason}") from None


def _take_place(draft: Path, directory: Path) -> None:
    """Rename the draft into place, and back to what was if that fails."""
    old = None
    if directory.exists() and any(directory.iterdir()):
        old = Path(tempfile.mkdtemp(prefix=f".{directory.name}.old.", dir=directory.parent))
        directory.rename(old)  # onto an empty directory
    try:
        draft.rename(directory)
    except OSError:
        if old is not None:
            old.rename(directory)
        raise
    if old is not None:
        shutil.rmtree(old, ignore_errors=True)
