"""Performs runs in processes of this machine, no more at once than memory holds.

A process is begun when there is a run for it that fits, performs one run after the other, and gets
the next one of its last run's workload if that is not much lighter than others that wait. What a
run needs is its estimate, put right by what runs of the set have taken that ended; it fits if that
is available beyond what those under way may still take. One run is always under way. A run whose
process is killed, as for want of memory, is performed once more, alone.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import lightloom
from lightloom.errors import RunError
from lightloom.runs import memory, worker
from lightloom.runs.executor import TICK_S, Ended, Events, Progress, cpus
from lightloom.runs.outcome import Failure, Outcome
from lightloom.runs.run import Run

# A run of the same workload is preferred to another one if it is at least this share of it.
_NOT_MUCH_LIGHTER = 0.5
# Of available memory this is left to others [B].
_RESERVE = 256 << 20


class Processes:
    """Performs runs in processes of this machine."""

    def __init__(self, jobs: int | None = None, available: int | None = None) -> None:
        """Take `jobs` processes, as many as there are cores unless given, in `available` bytes."""
        self.jobs, self.available = jobs or cpus(), available

    def __call__(self, runs: Sequence[Run], *, tables: bool) -> Events:
        """Perform runs; see `Executor`."""
        work = _Work(runs, tables, self.jobs, self.available)
        try:
            while work.waiting or work.again or work.busy:
                work.begin()
                told = False
                for event in work.listen():
                    told = True
                    yield event
                if not told:
                    yield None
        finally:
            work.close()


@dataclass(eq=False)
class _Worker:
    """A process and what it does."""

    process: subprocess.Popen[bytes]
    group: str = ""
    at: int | None = None
    heard: bytearray = field(default_factory=bytearray)

    def frames(self) -> Iterator[tuple[bytes, bytes]]:
        """Take whole messages from what was heard."""
        while len(self.heard) >= worker.HEAD.size:
            kind, size = worker.HEAD.unpack_from(self.heard)
            end = worker.HEAD.size + size
            if len(self.heard) < end:
                return
            body = bytes(self.heard[worker.HEAD.size : end])
            del self.heard[:end]
            yield kind, body


class _Work:
    """A set's processes, and the runs that wait."""

    def __init__(self, runs: Sequence[Run], tables: bool, jobs: int, available: int | None) -> None:
        self.runs, self.tables, self.jobs, self.available = runs, tables, jobs, available
        self.waiting = sorted(range(len(runs)), key=lambda at: -runs[at].weight)
        self.again: list[int] = []
        self.alone = False
        self.workers: list[_Worker] = []
        self.selector = selectors.DefaultSelector()
        # How much more than its estimate a run took, at most.
        self.factor: float | None = None

    @property
    def busy(self) -> list[_Worker]:
        """Those that perform a run."""
        return [each for each in self.workers if each.at is not None]

    def begin(self) -> None:
        """Give runs to processes, as many as fit; those that were killed alone, at the end."""
        while self.waiting and len(self.busy) < self.jobs:
            idle = [each for each in self.workers if each.at is None]
            by, at = next(
                ((each, at) for each in idle if (at := self._alike(each)) is not None),
                (idle[0] if idle else None, self.waiting[0]),
            )
            if not self._fits(at, by):
                return
            self.waiting.remove(at)
            self._give(by or self._start(), at)
        if self.again and not self.waiting and not self.busy:
            for each in list(self.workers):
                self._end(each)
            self.alone = True
            self._give(self._start(), self.again.pop())

    def listen(self) -> Iterator[Progress | Ended]:
        """Wait a moment for what processes tell."""
        for key, _ in self.selector.select(TICK_S):
            each: _Worker = key.data
            data = os.read(key.fd, 1 << 20)
            each.heard += data
            for kind, body in each.frames():
                assert each.at is not None
                if kind == worker.SHARE:
                    yield Progress(each.at, *worker.SHARES.unpack(body))
                else:
                    at, each.at = each.at, None
                    yield self._ended(at, kind, body)
            if not data:
                at_ended = self._lost(each)
                if at_ended is not None:
                    yield at_ended

    def close(self) -> None:
        """End every process."""
        for each in self.workers:
            each.process.kill()
        for each in list(self.workers):
            self._end(each)
        self.selector.close()

    def _alike(self, idle: _Worker) -> int | None:
        """Return the heaviest run of a process's last workload, if it is not much lighter."""
        least = _NOT_MUCH_LIGHTER * self.runs[self.waiting[0]].weight
        return next(
            (
                at
                for at in self.waiting
                if self.runs[at].group == idle.group and self.runs[at].weight >= least
            ),
            None,
        )

    def _fits(self, at: int, by: _Worker | None) -> bool:
        busy = self.busy
        if not busy:
            return True
        free = memory.available() if self.available is None else self.available
        if free is None:
            return True
        if self.available is None:
            free -= _RESERVE
        owed = sum(self._need(each.at, each) for each in busy if each.at is not None)
        return owed + self._need(at, by) <= free

    def _need(self, at: int, by: _Worker | None) -> int:
        """Return what a run takes beyond what its process holds; all, of a given amount."""
        whole = int(self.runs[at].memory * (1.0 if self.factor is None else self.factor))
        if by is None or self.available is not None:
            return whole
        return max(0, whole - memory.held(by.process.pid))

    def _start(self) -> _Worker:
        here = str(Path(lightloom.__file__).parent.parent)
        path = os.pathsep.join(filter(None, (here, os.environ.get("PYTHONPATH"))))
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", worker.__name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": path},
            process_group=0,  # an interrupt from the terminal is for who began it
        )
        each = _Worker(process)
        self.workers.append(each)
        assert process.stdout is not None
        self.selector.register(process.stdout, selectors.EVENT_READ, each)
        return each

    def _give(self, each: _Worker, at: int) -> None:
        run = self.runs[at]
        each.at, each.group = at, run.group
        request = {"run": run.to_json(), "key": run.key, "tables": self.tables}
        assert each.process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended, which is heard at its other pipe
            each.process.stdin.write(worker.frame(worker.RUN, json.dumps(request).encode()))
            each.process.stdin.flush()

    def _ended(self, at: int, kind: bytes, body: bytes) -> Ended:
        if kind == worker.FAILURE:
            return Ended(at, Failure.from_json(json.loads(body)))
        run = self.runs[at]
        outcome = Outcome.from_bytes(body, run.key)
        assert outcome is not None and outcome.spent is not None
        peak = outcome.spent.peak_bytes
        if peak and run.memory:
            self.factor = max(self.factor or 0.0, peak / run.memory)
        return Ended(at, outcome, body)

    def _lost(self, each: _Worker) -> Ended | None:
        """See to a process that has ended by itself."""
        at = each.at
        code = self._end(each)
        if at is None:
            return None
        if not self.alone:
            self.again.append(at)
            return None
        how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        return Ended(
            at, Failure(RunError(f"its process was ended {how}, twice; memory may have run out"))
        )

    def _end(self, each: _Worker) -> int:
        self.workers.remove(each)
        process = each.process
        assert process.stdin is not None and process.stdout is not None
        self.selector.unregister(process.stdout)
        process.stdout.close()
        with suppress(BrokenPipeError):
            process.stdin.close()
        return process.wait()
