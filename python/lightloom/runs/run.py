"""A run as data: what it depends on, which is its key, and how any process performs it.

Modelled: a run is of a *kind*, a module with ``perform(run, on_progress, memo, tables)``, and has a
`payload` of plain values that says all that its outcome depends on; large arrays by their digest,
with `where` saying from where a worker gets them. So a worker needs no more than kind, payload and
where, and two runs with the same key come to the same. Checked: keys differ by specification, seed,
trace, version and core, in ``tests/test_runs.py``.
"""

from __future__ import annotations

import hashlib
import json
import platform
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from lightloom import _core
from lightloom.errors import InputError
from lightloom.runs.outcome import Figure, Outcome, Spent

KINDS = {
    "collective": "lightloom.runs.collective",
    "jobs": "lightloom.runs.jobs",
    "rails": "lightloom.runs.rails",
    "scenario": "lightloom.runs.scenario",
}
"""The module of each kind of run."""

# Of what is kept of a run; another number, and nothing kept before is used.
_FORM = 1

OnShare = Callable[[float], None]
"""Is told the share of a run that is done; may raise to stop it."""
T = TypeVar("T")


class Memo:
    """The last thing that a process made for its runs, for the next run that needs the same.

    >>> memo = Memo()
    >>> memo.get("a", lambda: [1]) is memo.get("a", lambda: [2])
    True
    """

    def __init__(self) -> None:
        """Keep nothing yet."""
        self._lock = threading.Lock()
        self._kept: tuple[str, Any] | None = None

    def get(self, key: str, make: Callable[[], T]) -> T:
        """Return what was made last if it is `key`, else make it; others wait meanwhile."""
        with self._lock:
            if self._kept is None or self._kept[0] != key:
                self._kept = None
                self._kept = key, make()
            made: T = self._kept[1]
            return made


@dataclass(frozen=True, eq=False)
class Run:
    """One run, as data."""

    kind: str
    """One of `KINDS`, or a module's name."""
    name: str
    """Of the point in its set, for people: unique there."""
    payload: Mapping[str, Any]
    """All that the outcome depends on, as JSON can hold it."""
    where: Mapping[str, Any] = field(default_factory=dict)
    """From where a worker gets what the payload names by a digest."""
    spec: Mapping[str, Any] = field(default_factory=dict)
    """The resolved specification, nested tables in the user's form: columns of the set's table."""
    title: str = ""
    """What an error begins with."""
    weight: float = 1.0
    """About how long it takes [CPU s]."""
    memory: int = 1 << 28
    """About how much memory a process with it takes [B]."""
    group: str = ""
    """Runs of one group share what a process keeps in its `Memo`."""
    threads: int = 1
    """CPU threads of the flow or packet engine; its outcome depends on none, so no key has them."""

    @cached_property
    def digest(self) -> str:
        """Tells this run from every other, whatever computes it."""
        return digest_of([self.kind, self.payload])[:16]

    @cached_property
    def key(self) -> str:
        """Tells its outcome from every other: of the run, of what is kept, and of the engine."""
        return digest_of([_FORM, *engine(), self.kind, self.payload])

    @property
    def plain(self) -> bool:
        """Whether data is all it is, so that its outcome can be kept and made elsewhere."""
        return True

    def perform(self, on_progress: OnShare, memo: Memo, *, tables: bool) -> Outcome:
        """Perform it in this process.

        Parameters
        ----------
        on_progress
            Is told the share done.
        memo
            What this process keeps from one run to the next.
        tables
            Whether to return more than figures.

        Raises
        ------
        InputError, RunError
            If it cannot be performed, or failed.
        """
        return self._kind().perform(self, on_progress, memo, tables=tables)  # type: ignore[no-any-return]

    def figures(self, outcome: Outcome) -> Mapping[str, Figure]:
        """Return what the set's table shows of its outcome."""
        return outcome.figures

    def to_json(self) -> dict[str, Any]:
        """Return what a worker needs to perform it."""
        parts = ("kind", "name", "payload", "where", "group", "threads")
        return {part: getattr(self, part) for part in parts}

    def _kind(self) -> Any:
        return import_module(KINDS.get(self.kind, self.kind))


def allow_threads(threads: int, engine: str, *, chooser: bool = False) -> None:
    """Refuse threads where none but one would be used.

    >>> allow_threads(2, "packet")
    >>> allow_threads(2, "flow")

    Raises
    ------
    InputError
        Unless it is one, or the packet engine chooses paths itself.
    """
    if threads < 1:
        raise InputError(f"threads {threads}: must be at least 1")
    if threads > 1 and engine not in ("flow", "packet"):
        raise InputError(
            f'threads {threads}: engine.kind = "{engine}" runs on one; '
            'allowed: more with "flow" or "packet"'
        )
    if threads > 1 and chooser:
        raise InputError(f"threads {threads}: a balancer in Python runs on one")


def timed(perform: Callable[[], Outcome], clock: Callable[[], float] = time.thread_time) -> Outcome:
    """Return an outcome with what it took by `clock`; its peak is whoever's who has the process."""
    began, cpu = time.monotonic(), clock()
    outcome = perform()
    took = Spent(round(clock() - cpu, 6), round(time.monotonic() - began, 6), None, platform.node())
    return replace(outcome, spent=took)


@cache
def engine() -> tuple[str, str]:
    """Return version and digest of the compiled core: one that is built anew is another engine.

    >>> len(engine()[1])
    64
    """
    with Path(_core.__file__).open("rb") as file:
        return _core.__version__, hashlib.file_digest(file, "sha256").hexdigest()


def digest_of(value: Any) -> str:
    """Return the SHA-256 digest of plain values, whatever the order of their keys.

    >>> digest_of({"a": 1, "b": 2}) == digest_of({"b": 2, "a": 1})
    True
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
