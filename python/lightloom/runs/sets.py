"""Sets of runs: what is kept is not performed again, the rest is, and each outcome is kept at once.

One bad point does not end a set. An interrupt, and a kill at any moment, lose what is under way and
nothing that had ended. Checked: parents and workers killed with -9, full disks, interrupts, in
``tests/test_runs.py``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lightloom import interrupts
from lightloom.progress import OnProgress
from lightloom.runs.cache import Cache
from lightloom.runs.executor import Ended, Executor, Progress, Threads
from lightloom.runs.local import Processes
from lightloom.runs.outcome import Failure, Outcome
from lightloom.runs.run import Run

# Less work than this is not worth processes of its own [CPU s].
_WORTH_S = 10.0


@dataclass(frozen=True)
class Done:
    """A set of runs that was performed, or stopped."""

    runs: tuple[Run, ...]
    ended: Mapping[str, Outcome | Failure]
    """What each run came to, by its key; one that is not here was not finished."""
    cached: int
    """How many runs had been performed before."""
    interrupted: KeyboardInterrupt | None = None
    unkept: OSError | None = None
    """Why outcomes could not be kept, if so: a full disk. They are here all the same."""

    @property
    def outcomes(self) -> tuple[Outcome | None, ...]:
        """The outcome of each run, in the order of the runs; None where there is none."""
        found = (self.ended.get(run.key) for run in self.runs)
        return tuple(one if isinstance(one, Outcome) else None for one in found)

    @property
    def failures(self) -> tuple[tuple[Run, BaseException], ...]:
        """The runs that failed, and why, in the order of the runs."""
        found = ((run, self.ended.get(run.key)) for run in self.runs)
        return tuple((run, one.error) for run, one in found if isinstance(one, Failure))

    @property
    def unkept_text(self) -> str:
        """What to say if outcomes could not be kept."""
        why = self.unkept
        place = "" if why is None else f"{why.filename}: {why.strerror}"
        return f"{place}: runs that ended are not kept for a next time"


@dataclass
class _Set:
    """A set while it is performed."""

    cache: Cache | None
    on_progress: OnProgress
    ended: dict[str, Outcome | Failure] = field(default_factory=dict)
    unkept: OSError | None = None

    def end(self, run: Run, event: Ended) -> None:
        """Keep what a run came to."""
        outcome = event.outcome
        if isinstance(outcome, Failure):
            if not isinstance(outcome.error, Exception):
                raise outcome.error
            outcome = Failure(_titled(outcome.error, run.title))
        self.ended[run.key] = outcome
        if self.cache and run.plain and not self.unkept and isinstance(outcome, Outcome):
            try:
                self.cache.put(run.key, event.data or outcome.to_bytes(run.key))
            except OSError as error:
                self.unkept = error
        self.on_progress(run.name, 1.0)


def perform(
    runs: Sequence[Run],
    *,
    cache: Cache | None = None,
    tables: bool = True,
    executor: Executor | None = None,
    jobs: int | None = None,
    first_failure_stops: bool = False,
    on_progress: OnProgress | None = None,
) -> Done:
    """Perform a set of runs.

    Parameters
    ----------
    runs
        In any order; of those with the same key one is performed.
    cache
        Where outcomes are kept, as `lightloom.runs.cache.users` gives the user's own.
    tables
        Whether outcomes have tables; if not, less is kept, sent and held.
    executor
        Where runs are performed. Unless given, processes of this machine where there is work for
        some seconds, and threads of this process where there is not.
    jobs
        Runs beside each other, unless an executor is given; at most as many as there are cores.
    first_failure_stops
        Whether a run that fails ends the set.
    on_progress
        Is told a run's name and the share of it that is done; a KeyboardInterrupt from it, as from
        the user, ends the set. If it has ``expect``, that is told the work of each run by name.

    Returns
    -------
    Done
        What ended, failed or was interrupted; nothing of it is raised.

    Examples
    --------
    >>> from lightloom import Scenario
    >>> from lightloom.runs.scenario import ScenarioRun
    >>> job = Scenario.preset("mixtral-8x7b", gpus=128, training={"micro_batches": 1})
    >>> done = perform([ScenarioRun.of(job)])
    >>> [run.name for run in done.runs], done.failures
    (['mixtral-8x7b on fat-tree'], ())
    """
    made = _Set(cache, on_progress or (lambda _name, _share: None))
    interrupted: KeyboardInterrupt | None = None
    cached = 0
    try:
        todo: dict[str, Run] = {}
        for run in runs:
            kept = cache.get(run.key, tables=tables) if cache and run.plain else None
            if kept is None:
                todo.setdefault(run.key, run)
            else:
                made.ended[run.key] = kept
                cached += 1
        left = sorted(todo.values(), key=lambda run: -run.weight)
        if expect := getattr(on_progress, "expect", None):
            expect({run.name: run.weight for run in left})
        for run in runs:
            if run.key in made.ended:
                made.on_progress(run.name, 1.0)
        if left:
            _perform(left, made, executor or chosen(left, jobs), tables, first_failure_stops)
    except KeyboardInterrupt as error:
        interrupted = error
    return Done(tuple(runs), made.ended, cached, interrupted, made.unkept)


def chosen(runs: Sequence[Run], jobs: int | None = None) -> Executor:
    """Return where runs are performed unless a user says: processes, where they are worth it."""
    alone = len(runs) == 1 or not sys.executable  # a program may hold an interpreter
    if alone or not all(run.plain for run in runs):
        return Threads(jobs)
    return Processes(jobs) if sum(run.weight for run in runs) > _WORTH_S else Threads(jobs)


def _perform(
    runs: Sequence[Run], made: _Set, executor: Executor, tables: bool, first_failure_stops: bool
) -> None:
    events = executor(runs, tables=tables)
    try:
        for event in events:
            interrupts.check()
            if isinstance(event, Progress):
                made.on_progress(runs[event.at].name, min(event.share, 0.999))
            elif isinstance(event, Ended):
                made.end(runs[event.at], event)
                if first_failure_stops and isinstance(event.outcome, Failure):
                    return
    finally:
        events.close()


def _titled(error: Exception, title: str) -> Exception:
    """Return an error that a user is meant to read with the run's title in front."""
    from lightloom.errors import LightloomError

    return (
        type(error)(f"{title}: {error}") if title and isinstance(error, LightloomError) else error
    )
