"""Result directories: Parquet tables, JSON and text, written whole or not at all.

A Result is built in a directory beside its place and renamed into it, so that a reader never sees
half of one and an interrupted run leaves nothing. It names its files in `INFO`, under "files", and
only these are replaced by another Result; what a user put beside them stays. The bytes depend on
the contents alone: no time, no host, fixed compression. Ignored: appending to a Result, two
processes that write the same one at once. Checked: byte equality of two writes, every refusal, and
a stop at each step of a replacement.

Examples
--------
>>> import tempfile
>>> import pyarrow as pa
>>> with tempfile.TemporaryDirectory() as place:
...     with create(Path(place) / "out") as result:
...         write_tables(result, {"runs": pa.table({"run": [0]})})
...         write_json(result / INFO, {"lightloom": "0.2.0", "seed": 1})
...     read_table(Path(place) / "out", "runs").to_pydict(), read_info(Path(place) / "out")["seed"]
({'run': [0]}, 1)
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lightloom.errors import InputError

# The file that makes a directory a Result; it says which version wrote it, under "lightloom".
INFO = "result.json"
SPEC = "spec.toml"


# What Results are made of; one that was written before Results named their files wrote no others.
KNOWN = frozenset(
    (
        INFO,
        SPEC,
        "report.html",
        "timeline.json.gz",
        *(f"{name}.png" for name in ("bars", "pareto", "heatmap", "timeline", "queues", "sweep")),
        *(
            f"{name}.parquet"
            for name in (
                *(
                    "runs",
                    "bill",
                    "money",
                    "tasks",
                    "links",
                    "transfers",
                    "demand",
                    "reconfigurations",
                ),
                *(
                    "circuits",
                    "queues",
                    "reorder",
                    "schemes",
                    "collectives",
                    "nics",
                    "ends",
                    "flows",
                ),
                *("points", "times"),
                *("jobs", "iterations", "shared"),
            )
        ),
        *("draws.parquet", "price_map.png"),
        *(
            f"{name}.png"
            for name in ("bus_bandwidth", "completion", "sender_loads", "receiver_loads", "jobs")
        ),
    )
)


def default_place(name: str, *specification: str) -> Path:
    """Return where a command puts a Result unless a user says: a name, and a digest of what is run.

    Examples
    --------
    >>> default_place("two racks / 400G", "gpus = 128")
    PosixPath('results/two-racks-400G-ca24a96c')
    """
    digest = hashlib.sha256("\0".join(specification).encode()).hexdigest()
    words = "".join(c if c.isalnum() or c == "." else " " for c in name).split()
    return Path("results") / "-".join((*words, digest[:8]))


def check_place(directory: Path, *, force: bool = False) -> None:
    """Refuse a place that a Result cannot take; call before a long run.

    Raises
    ------
    InputError
        If `directory` is a file, or holds something other than a Result, or a Result without
        `force`, or cannot be written to, or is where the process stands.
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
        elif any(directory.iterdir()):
            _check_taken(directory, force)
    except OSError as error:
        raise InputError(f"{directory}: cannot be used: {error.strerror or error}") from None


@contextmanager
def create(directory: Path, *, force: bool = False) -> Iterator[Path]:
    """Build a Result: yields a directory to fill, which takes its place when all went well.

    With `force` a Result that stands there is replaced: its own files, and no others.

    Raises
    ------
    InputError
        As `check_place`; nothing has been written then.
    OSError
        If it cannot be written, as on a full disk; it names `directory`, which stays as it was.
    """
    check_place(directory, force=force)
    directory = directory.resolve()  # a link to a Result stays a link
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=directory.parent))
    except OSError as error:
        raise InputError(f"{directory}: cannot be written: {error.strerror or error}") from None
    try:
        yield draft
        draft.chmod(0o755)  # mkdtemp's own is for its maker alone
        add_files(draft, (path.name for path in draft.iterdir()))
        _take_place(draft, directory)
    except OSError as error:
        if error.errno is None:
            raise
        # Arrow names no file, and others name one in the draft, which nobody knows.
        raise OSError(error.errno, os.strerror(error.errno), str(directory)) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def add_files(directory: Path, names: Iterable[str]) -> None:
    """Count files in a Result as written by it."""
    everything = sorted({*files(directory), *names})
    write_json(directory / INFO, read_info(directory) | {"files": everything})


def files(directory: Path) -> list[str]:
    """Return the names of the files that a Result wrote and that are still there."""
    return sorted(name for name in _own(directory) if (directory / name).is_file())


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


def report_of_same(draft: Path, directory: Path) -> list[str]:
    """Return the report's files of a Result that is the draft's, byte for byte, or none.

    Equal Results have equal reports, so that they can be taken from there.
    """
    try:
        info = read_info(directory)
        names = {path.name for path in draft.iterdir()}
        drawn = sorted(set(info.pop("files", ())) - names)
        same = info == read_info(draft) and all(
            (draft / name).read_bytes() == (directory / name).read_bytes()
            for name in names - {INFO}
        )
        whole = all((directory / name).is_file() for name in ("report.html", *drawn))
    except (InputError, OSError):
        return []
    return drawn if same and whole else []


def read_spec(directory: Path) -> str:
    """Read the specification of a Result.

    Raises
    ------
    InputError
        If it is absent or not text.
    """
    try:
        return (directory / SPEC).read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{directory / SPEC}: missing from the Result: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{directory / SPEC}: is not UTF-8 text") from None


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


def _check_taken(directory: Path, force: bool) -> None:
    """Refuse what is no Result, a Result without `force`, and a user's file in the way of one."""
    if not is_result(directory):
        raise InputError(
            f"{directory}: is not empty and not a Result; allowed: a new or empty directory, "
            "or a Result to replace"
        )
    if not force:
        raise InputError(
            f"{directory}: holds a Result; allowed: another directory, or --force "
            "(force=True in Python), which replaces its files and no others"
        )
    own = _own(directory)
    for name in sorted(KNOWN - own):
        if os.path.lexists(directory / name):
            raise InputError(
                f"{directory / name}: the Result there did not write it, and another would replace "
                "it; move it away"
            )


def _own(directory: Path) -> frozenset[str]:
    """Return the names of the files that a Result wrote."""
    files = read_info(directory).get("files")
    if not isinstance(files, list) or not all(isinstance(name, str) for name in files):
        return KNOWN
    return frozenset(files) | {INFO}


def _take_place(draft: Path, directory: Path) -> None:
    """Put the draft in its place, with what users added to the Result there, in one step.

    The draft's directory is then that of the old Result; whatever else it holds is in both.
    """
    if not directory.exists() or not any(directory.iterdir()):
        draft.rename(directory)
        return
    own = _own(directory)
    _share(directory, draft, own)
    if not _exchanged(draft, directory):
        _swap(draft, directory)
    _share(draft, directory, own)  # what was added meanwhile


def _share(source: Path, target: Path, own: frozenset[str] = frozenset()) -> None:
    """Link everything but what is `own` from one directory into another, where it is not yet."""
    for entry in os.scandir(source):
        to = target / entry.name
        if entry.name in own and not entry.is_dir(follow_symlinks=False):
            continue
        if entry.is_dir(follow_symlinks=False):
            to.mkdir(exist_ok=True)
            _share(Path(entry.path), to)
            shutil.copystat(entry.path, to)
        elif not os.path.lexists(to):
            try:
                os.link(entry.path, to, follow_symlinks=False)
            except OSError:  # a filesystem without links
                shutil.copy2(entry.path, to, follow_symlinks=False)


def _exchanged(a: Path, b: Path) -> bool:
    """Exchange two directories in one step, where the system can (Linux's renameat2)."""
    call = getattr(ctypes.CDLL(None), "renameat2", None)
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return call is not None and call(here, os.fsencode(a), here, os.fsencode(b), exchange) == 0


def _swap(draft: Path, directory: Path) -> None:
    """Exchange two directories in three steps, and go back if one fails."""
    old = Path(tempfile.mkdtemp(prefix=f".{directory.name}.old.", dir=directory.parent))
    directory.rename(old)  # onto an empty directory
    try:
        draft.rename(directory)
    except BaseException:
        old.rename(directory)
        raise
    old.rename(draft)
