"""Outcomes that are kept from one set of runs to the next, a file each.

A file is written beside its place and renamed into it, and is checked when it is read
(`lightloom.runs.outcome`): one that is cut short, damaged or foreign counts as absent, so nothing
has to be flushed to the disk. Reading a file sets its time; when all files together are larger than
the limit, those that were not read for longest go. Processes may share a cache. Ignored: two that
perform the same run at the same time both do so. Checked: in ``tests/test_runs.py``.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from lightloom import _core
from lightloom.errors import InputError
from lightloom.runs.outcome import Outcome

PLACE = "LIGHTLOOM_CACHE"
LIMIT = "LIGHTLOOM_CACHE_LIMIT"
DEFAULT_LIMIT = "4 GiB"

_SUFFIX = ".run"
_DRAFT = ".draft-"
# A draft that is older was left by a process that was killed [s].
_STALE_S = 3600.0
# A file takes whole blocks of a disk [B].
_BLOCK = 4096


class Cache:
    """Outcomes by key, in a directory.

    Examples
    --------
    >>> place = Path(tempfile.mkdtemp())
    >>> cache = Cache(place)
    >>> cache.get("0af3") is None
    True
    >>> cache.put("0af3", Outcome({"iteration_s": 1.5}).to_bytes("0af3"))
    >>> Cache(place).get("0af3").figures
    {'iteration_s': 1.5}
    """

    def __init__(self, place: Path, limit: int | None = None) -> None:
        """Keep outcomes in `place`, at most `limit` bytes of them; nothing is written yet."""
        self.place, self.limit = place, limit
        self._size: int | None = None

    def get(self, key: str, *, tables: bool = False) -> Outcome | None:
        """Return what is kept of a run, with its tables if they are asked for; or None."""
        path = self._path(key)
        try:
            outcome = Outcome.from_bytes(path.read_bytes(), key)
        except OSError:
            return None
        if outcome is None or (tables and outcome.tables is None):
            return None
        with suppress(OSError):  # one may read what one may not write
            os.utime(path)
        return outcome

    def put(self, key: str, outcome: bytes) -> None:
        """Keep an outcome, as `Outcome.to_bytes` gives it.

        Raises
        ------
        OSError
            If it cannot be written; what was kept before still is.
        """
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, draft = tempfile.mkstemp(prefix=_DRAFT, dir=path.parent)
        try:
            with open(descriptor, "wb") as file:
                file.write(outcome)
            Path(draft).replace(path)
        except BaseException as error:
            with suppress(OSError):
                Path(draft).unlink()
            if isinstance(error, OSError) and error.filename is None:
                raise OSError(error.errno, error.strerror, str(path)) from None
            raise
        if self.limit is not None:
            self._bound(len(outcome))

    def _path(self, key: str) -> Path:
        return self.place / key[:2] / f"{key}{_SUFFIX}"

    def _bound(self, added: int) -> None:
        """Let the oldest go where there is more than the limit."""
        assert self.limit is not None
        if self._size is not None:
            self._size += _blocks(added)
        if self._size is not None and self._size <= self.limit:
            return
        files = []
        for entry in self._entries():
            with suppress(OSError):
                status = entry.stat()
                if entry.name.startswith(_DRAFT) and time.time() - status.st_mtime > _STALE_S:
                    os.unlink(entry.path)
                elif entry.name.endswith(_SUFFIX):
                    files.append((status.st_mtime_ns, _blocks(status.st_size), entry.path))
        self._size = sum(size for _, size, _ in files)
        # Some room is made, so that not every file that comes has one go.
        aim = self.limit if self._size <= self.limit else self.limit * 9 // 10
        for _, size, path in sorted(files):
            if self._size <= aim:
                break
            with suppress(OSError):
                os.unlink(path)
            self._size -= size

    def _entries(self) -> Iterator[os.DirEntry[str]]:
        """Walk all files: there may be tens of thousands, for which `Path.glob` takes a second."""
        with os.scandir(self.place) as groups:
            for group in groups:
                with suppress(OSError), os.scandir(group.path) as entries:
                    yield from entries


def users() -> Cache | None:
    """Return the user's own cache; None if ``LIGHTLOOM_CACHE`` is ``off``.

    Raises
    ------
    InputError
        If ``LIGHTLOOM_CACHE_LIMIT`` is no size.
    """
    named = os.environ.get(PLACE)
    if named == "off":
        return None
    given = os.environ.get(LIMIT) or DEFAULT_LIMIT
    try:
        limit = int(_core.parse_bytes(given))
    except ValueError as error:
        raise InputError(f"{LIMIT}={given}: {error}") from None
    if named:
        return Cache(Path(named), limit)
    try:
        above = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:  # nobody's home
        return None
    return Cache(Path(above) / "lightloom", limit)


def _blocks(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK
