"""Performs runs as an array job of Slurm, in batches of about equal work.

A submission is a directory in the cache: the batches, the script, each batch's log. Its tasks
perform their batch with `lightloom.runs` and keep each outcome there; whoever waits asks ``squeue``
which tasks are alive, and takes outcomes as they come. So the cache must be on a file system that
the nodes share. A sweep that was killed, or did not wait, finds its submissions again: what a task
still works on is awaited, what no task works on is submitted. Ignored: progress within a run.
Checked: with stand-ins for ``sbatch`` and ``squeue`` that run the tasks here, in
``tests/test_sweep_slurm.py``.
"""

from __future__ import annotations

import heapq
import json
import math
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import lightloom
from lightloom.errors import InputError, RunError
from lightloom.runs.cache import Cache
from lightloom.runs.executor import Ended, Events
from lightloom.runs.outcome import Failure
from lightloom.runs.run import Run
from lightloom.sweeps.where_runs import Submitted

# A task is to have this much work at least, and there are no more tasks than Slurm's usual limit
# [CPU s].
_WORK_S, _MOST_TASKS = 600.0, 1000
# Estimates are good to a factor of three.
_TIME_FACTOR, _TIME_MIN, _MEMORY_FACTOR, _MEMORY_MB = 3.0, 5, 2.0, 512
# How often to ask, and how long a task may be unknown to ``squeue`` after its submission [s].
_PACE_S, _PATIENCE_S, _MOST_UNANSWERED = 5.0, 10.0, 30
# How often a task's outcome may be missing after the task: a shared file system takes its time.
_GRACE = 3
_OPTION = re.compile(r"([a-z][a-z-]*)(?:=(\S.*))?")
_LISTED = re.compile(r"([0-9]+)\s+([A-Z_]+)")
_OURS = ("array", "job-name", "output", "error", "chdir", "wrap")


class Slurm:
    """Performs runs as tasks of an array job."""

    def __init__(
        self,
        place: Path,
        options: Sequence[str] = (),
        *,
        jobs: int | None = None,
        wait: bool = True,
        pace_s: float | None = None,
    ) -> None:
        """Take a directory that the nodes share, and options of ``sbatch``.

        Raises
        ------
        InputError
            If Slurm's commands are not there, or an option is none.
        """
        self.place, self.jobs, self.wait = place.absolute(), jobs, wait
        self.pace_s = _PACE_S if pace_s is None else pace_s
        self.options: dict[str, str] = {}
        for text in options:
            match = _OPTION.fullmatch(text)
            if match is None or not text.isprintable():
                raise InputError(
                    f'--slurm "{text}": must be an option of sbatch, as in --slurm partition=gpu'
                )
            if match[1] in _OURS:
                raise InputError(f'--slurm "{text}": lightloom says it; allowed: other options')
            if match[1] in self.options:
                raise InputError(f'--slurm "{text}": two values for {match[1]}; allowed: one')
            self.options[match[1]] = match[2] or ""
        for program in ("sbatch", "squeue"):
            _run(program, "--version")

    def __call__(self, runs: Sequence[Run], *, tables: bool) -> Events:
        """Perform runs; see `lightloom.runs.Executor`."""
        at = {run.key: n for n, run in enumerate(runs)}
        left = dict(zip(at, runs, strict=True))
        kept = Cache(self.place)
        submissions = [each for each in self._submissions() if each.keys & left.keys()]
        alive = {key for each in submissions for key in each.alive_keys()}
        # Only now: what ended before it was asked for is there.
        yield from self._taken(left, at, kept, tables)
        new = [run for key, run in left.items() if key not in alive]
        if new:
            submissions.append(self._submit(new, tables))
        if left and not self.wait:
            names = ", ".join(each.name for each in submissions)
            raise Submitted(
                f"{len(left):,} runs are with Slurm ({names}); the same command without --no-wait "
                "waits for them and collects"
            )
        failed = False
        missed = dict.fromkeys(left, 0)
        while left:
            alive = {key for each in submissions for key in each.alive_keys()}
            yield from self._taken(left, at, kept, tables)
            for key in list(left):
                missed[key] = 0 if key in alive else missed[key] + 1
                if missed[key] > _GRACE:
                    failed = True
                    del left[key]
                    yield Ended(at[key], self._why(key, submissions))
            until = time.monotonic() + self.pace_s
            while left and time.monotonic() < until:
                yield None
                time.sleep(min(0.1, self.pace_s))
        if not failed:
            shutil.rmtree(self.place, ignore_errors=True)

    def _taken(
        self, left: dict[str, Run], at: Mapping[str, int], kept: Cache, tables: bool
    ) -> Iterator[Ended]:
        """Take what has come to an end."""
        for key in list(left):
            outcome = kept.get(key, tables=tables)
            if outcome is not None:
                del left[key]
                yield Ended(at[key], outcome)

    def _submissions(self) -> list[Submission]:
        return [
            Submission(path)
            for path in sorted(self.place.glob("job-*"))
            if (path / _BATCHES).is_file()
        ]

    def _submit(self, runs: Sequence[Run], tables: bool) -> Submission:
        """Write batches and script, and hand them to Slurm."""
        taken = [int(path.name.removeprefix("job-")) for path in self.place.glob("job-*")]
        directory = self.place / f"job-{max(taken, default=0) + 1:03}"
        directory.mkdir(parents=True)
        batches = _batches(runs, self.jobs)
        text = json.dumps(
            {
                "tables": tables,
                "batches": [[run.to_json() | _estimates(run) for run in some] for some in batches],
                "keys": [[run.key for run in some] for some in batches],
            }
        )
        (directory / _BATCHES).write_text(text, encoding="utf-8")
        script = directory / "script.sh"
        script.write_text(self._script(directory, batches), encoding="utf-8")
        said = _run("sbatch", "--parsable", str(script)).strip()
        submission = Submission(directory)
        (directory / _JOB).write_text(said.partition(";")[0], encoding="utf-8")
        return submission

    def _script(self, directory: Path, batches: Sequence[Sequence[Run]]) -> str:
        works = [sum(run.weight for run in some) for some in batches]
        minutes = math.ceil(max(works) * _TIME_FACTOR / 60) + _TIME_MIN
        most = max(run.memory for some in batches for run in some)
        options = {
            "job-name": _job_name(directory),
            "array": f"0-{len(batches) - 1}" + (f"%{self.jobs}" if self.jobs else ""),
            "output": f"{directory}/task-%a.log",
            "time": str(minutes),
            "mem": f"{math.ceil(most * _MEMORY_FACTOR / 2**20) + _MEMORY_MB}M",
            "cpus-per-task": "1",
            **self.options,
        }
        lines = [
            f"#SBATCH --{key}" + (f"={shlex.quote(value)}" if value else "")
            for key, value in options.items()
        ]
        package = shlex.quote(str(Path(lightloom.__file__).parent.parent))
        task = shlex.join([sys.executable, "-P", "-m", __name__, str(directory)])
        return "\n".join(
            (
                "#!/bin/sh",
                *lines,
                f'PYTHONPATH={package}"${{PYTHONPATH:+:$PYTHONPATH}}"; export PYTHONPATH',
                f'exec {task} "$SLURM_ARRAY_TASK_ID"',
                "",
            )
        )

    def _why(self, key: str, submissions: Sequence[Submission]) -> Failure:
        """Return why a run has no outcome."""
        for each in reversed(submissions):
            if key in each.keys:
                return each.failure(key)
        raise AssertionError("every run is of a submission")


_BATCHES, _JOB = "batches.json", "job"


class Submission:
    """One array job: its batches, and which of its tasks live."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.name = directory, _job_name(directory)
        read = json.loads((directory / _BATCHES).read_text(encoding="utf-8"))
        self.batches: list[list[str]] = read["keys"]
        self.keys = frozenset(key for some in self.batches for key in some)
        self._began, self._unanswered = time.monotonic(), 0

    def alive_keys(self) -> set[str]:
        """Return the runs of tasks that wait or run; none that has failed already."""
        try:
            said = _run(
                *("squeue", "--noheader", "--array", "--name", self.name, "--format", "%K %T")
            )
        except RunError:  # the controller is busy, or away for a moment
            self._unanswered += 1
            if self._unanswered > _MOST_UNANSWERED:
                raise
            return set(self.keys)
        self._unanswered = 0
        lines = (_LISTED.fullmatch(line.strip()) for line in said.splitlines())
        states = {int(line[1]): line[2] for line in lines if line}  # a banner is no task
        mine = time.monotonic() - self._began < _PATIENCE_S and (self.directory / _JOB).exists()
        if not states and mine and not list(self.directory.glob("task-*.log")):
            return set(self.keys)  # Slurm has not listed it yet
        over = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY")
        alive = {
            key
            for task, state in states.items()
            if task < len(self.batches) and not state.startswith(over)
            for key in self.batches[task]
        }
        return {key for key in alive if not self._failed(key).exists()}

    def failure(self, key: str) -> Failure:
        """Return what a task told of a run that failed, or how the task itself ended."""
        told = self._failed(key)
        if told.exists():
            return Failure.from_json(json.loads(told.read_text(encoding="utf-8")))
        task = next(n for n, some in enumerate(self.batches) if key in some)
        return Failure(
            RunError(
                f"its Slurm task ended without it{self._state(task)}; see "
                f"{self.directory}/task-{task}.log; the same command submits it again"
            )
        )

    def _failed(self, key: str) -> Path:
        return self.directory / f"{key}.failed"

    def _state(self, task: int) -> str:
        """Return how Slurm's accounting calls the end of a task, if there is accounting."""
        job = self.directory / _JOB
        if not job.exists():
            return ""
        identity = f"{job.read_text(encoding='utf-8').strip()}_{task}"
        try:
            said = _run("sacct", "--noheader", "--parsable2", "-X", "-o", "State", "-j", identity)
        except (InputError, RunError):
            return ""
        return f" ({said.split()[0]})" if said.split() else ""


def main(directory: str, task: str) -> None:
    """Perform a batch: what a task of the array does."""
    from lightloom.runs.local import Processes
    from lightloom.runs.sets import perform

    place = Path(directory)
    read = json.loads((place / _BATCHES).read_text(encoding="utf-8"))
    runs = [Run(**each) for each in read["batches"][int(task)]]
    if [run.key for run in runs] != read["keys"][int(task)]:
        sys.exit("this node has another version of lightloom than whoever submitted")
    done = perform(
        runs,
        cache=Cache(place.parent),
        tables=read["tables"],
        executor=Processes(1),
        on_progress=lambda name, share: print(f"{name}: {share:.0%}", flush=True),
    )
    for run, error in done.failures:
        draft = place / f".{run.key}.{task}"
        draft.write_text(json.dumps(Failure(error).to_json()), encoding="utf-8")
        draft.replace(place / f"{run.key}.failed")
    if done.unkept is not None:
        sys.exit(done.unkept_text)


def _batches(runs: Sequence[Run], jobs: int | None) -> list[list[Run]]:
    """Share runs among tasks: the heaviest first, each to the task with least."""
    work = sum(run.weight for run in runs)
    count = min(len(runs), _MOST_TASKS, max(jobs or 1, math.ceil(work / _WORK_S)))
    tasks: list[tuple[float, int]] = [(0.0, n) for n in range(count)]
    batches: list[list[Run]] = [[] for _ in range(count)]
    for run in sorted(runs, key=lambda run: -run.weight):
        so_far, n = heapq.heappop(tasks)
        batches[n].append(run)
        heapq.heappush(tasks, (so_far + run.weight, n))
    # One after the other of one workload: a process keeps the last one.
    return [sorted(some, key=lambda run: run.group) for some in batches]


def _estimates(run: Run) -> dict[str, object]:
    return {"weight": run.weight, "memory": run.memory, "group": run.group}


def _job_name(directory: Path) -> str:
    return f"lightloom-{directory.parent.name}-{directory.name.removeprefix('job-')}"


def _run(*command: str) -> str:
    """Run a command of Slurm and return what it says."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise InputError(
            f"--on slurm: {command[0]}: no such command here; allowed: on a machine that submits "
            "to Slurm"
        ) from None
    except OSError as error:
        raise InputError(f"--on slurm: {command[0]}: {error.strerror or error}") from None
    if done.returncode:
        why = (done.stderr or done.stdout).strip().replace("\n", " ") or f"exit {done.returncode}"
        raise RunError(f"--on slurm: {command[0]}: {why}")
    return done.stdout


if __name__ == "__main__":
    main(*sys.argv[1:])
