"""Where runs are performed: what every executor offers, and the one of this process's threads.

An executor is called with runs and gives what happens to them, as it happens, and None now and then
so that whoever waits sees an interrupt. Closing the iterator stops what is under way. It neither
reads nor writes a cache and knows no order but that of the runs: the heaviest first. Another one,
of a cluster, is one more file.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Protocol

from lightloom.runs.outcome import Failure, Outcome
from lightloom.runs.run import Memo, Run, timed

# How long to wait for an event before an interrupt may be seen [s].
TICK_S = 0.1


@dataclass(frozen=True)
class Progress:
    """How far the run at an index is."""

    at: int
    share: float


@dataclass(frozen=True)
class Ended:
    """What the run at an index came to."""

    at: int
    outcome: Outcome | Failure
    data: bytes | None = None
    """`Outcome.to_bytes`, if it came that way."""


Events = Generator[Progress | Ended | None, None, None]


class Executor(Protocol):
    """Performs runs somewhere."""

    def __call__(self, runs: Sequence[Run], *, tables: bool) -> Events:
        """Perform runs, each once and in any order; `tables` says whether figures are not all."""


class Threads:
    """Performs runs in threads of this process: at once, and where a run is more than data."""

    def __init__(self, jobs: int | None = None) -> None:
        """Take `jobs` threads; unless given, as many as there are cores."""
        self.jobs = jobs or cpus()

    def __call__(self, runs: Sequence[Run], *, tables: bool) -> Events:
        """Perform runs; see `Executor`."""
        events: queue.SimpleQueue[Progress | Ended] = queue.SimpleQueue()
        waiting = iter(enumerate(runs))
        lock, halt, memo = threading.Lock(), threading.Event(), Memo()

        def work() -> None:
            while not halt.is_set():
                with lock:
                    at, run = next(waiting, (-1, None))
                if run is None:
                    return
                events.put(_performed(at, run, _reporter(at, events, halt), memo, tables))

        threads = [threading.Thread(target=work) for _ in range(min(self.jobs, len(runs)))]
        left = len(runs)
        try:
            for thread in threads:
                thread.start()
            while left:
                try:
                    event = events.get(timeout=TICK_S)
                except queue.Empty:
                    yield None
                    continue
                left -= isinstance(event, Ended)
                yield event
        finally:
            halt.set()
            for thread in threads:
                if thread.ident is not None:
                    thread.join()


class _HaltedError(Exception):
    """A run was told to stop."""


def _reporter(
    at: int, events: queue.SimpleQueue[Progress | Ended], halt: threading.Event
) -> Callable[[float], None]:
    said = 0.0

    def report(share: float) -> None:
        nonlocal said
        if halt.is_set():
            raise _HaltedError
        if time.monotonic() - said > TICK_S:
            said = time.monotonic()
            events.put(Progress(at, share))

    return report


def _performed(
    at: int, run: Run, report: Callable[[float], None], memo: Memo, tables: bool
) -> Ended:
    try:
        # Of a run with threads of its own the process is asked, others' work beside it included.
        clock = time.thread_time if run.threads == 1 else time.process_time
        return Ended(at, timed(lambda: run.perform(report, memo, tables=tables), clock))
    except BaseException as error:
        return Ended(at, Failure(error))  # whoever waits must hear of every end


def cpus() -> int:
    """Return how many runs to perform beside each other.

    >>> cpus() >= 1
    True
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
