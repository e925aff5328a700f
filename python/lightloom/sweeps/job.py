"""From axes to a `Sweep`: resolve the points, perform the distinct runs, gather what they came to.

`prepared` says what a sweep would do, and `perform` does it; `lightloom.sweep` is both. What is
performed where, what is kept and what goes on after a kill is `lightloom.runs`'. Checked: in
``tests/test_sweep.py``.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa

from lightloom import _core, runs, shapes, store
from lightloom.cost import Cost, bill_of, cost_of
from lightloom.errors import InputError, Interrupted
from lightloom.presets import unknown
from lightloom.progress import OnProgress, displayed
from lightloom.runs.cache import Cache
from lightloom.runs.outcome import Failure, Outcome
from lightloom.runs.scenario import ScenarioRun
from lightloom.runs.tables import of_rows
from lightloom.scenario import Scenario, leaves
from lightloom.sweeps import where_runs
from lightloom.sweeps.axes import Axes, gathered
from lightloom.sweeps.points import Point, own_micro_batches, points
from lightloom.sweeps.result import DONE, FAILED, MISFIT, UNFINISHED, Sweep

_MOST_WARNINGS = 20


@dataclass(frozen=True)
class Prepared:
    """A sweep before it runs."""

    axes: Axes
    points: tuple[Point, ...]
    runs: tuple[ScenarioRun, ...]
    """The distinct runs, in the order of their first points."""
    of: tuple[int | None, ...]
    """The run of each point; None for a misfit."""
    reduced_from: int | None = None
    """How many micro-batches the jobs have, if fewer are run."""

    @cached_property
    def digest(self) -> str:
        """Tells this sweep from every other: its axes, and what their points resolve to."""
        specs = sorted(run.scenario.to_toml() for run in self.runs)
        text = "\0".join((*specs, *(point.name for point in self.points), str(self.reduced_from)))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def first(self) -> Scenario:
        """The scenario of the first point that has one."""
        return self.runs[0].scenario

    @property
    def misfits(self) -> list[Point]:
        """Points whose values do not fit together."""
        return [point for point in self.points if point.misfit]

    def check_keys(self, wanted: Mapping[str, str | None]) -> None:
        """Refuse what is neither an axis nor a key of a run, or twice; `wanted` is by option."""
        given = {option: key for option, key in wanted.items() if key is not None}
        if len(set(given.values())) < len(given):
            both = " and ".join(given)
            raise InputError(f"{both} {given.popitem()[1]}: must be two keys; allowed: one of them")
        keys = {name for run in self.runs for name, _ in leaves(run.spec)} if given else set()
        for option, key in given.items():
            if key not in {*self.axes.keys, *keys}:
                raise InputError(f'{option} "{key}": no such axis{unknown(key, self.axes.keys)}')

    def left(self, cache: Cache | None) -> list[ScenarioRun]:
        """Return the runs that have no outcome yet."""
        return [run for run in self.runs if cache is None or cache.get(run.key) is None]


def prepared(
    job: str | Scenario,
    axes: Axes,
    settings: Mapping[str, Any],
    *,
    micro_batches: int | None = None,
    label: str = "override",
) -> Prepared:
    """Resolve the points of a sweep, and find out which runs they are.

    Parameters
    ----------
    micro_batches
        Fewer micro-batches than the jobs have, for all of them.

    Others are those of `lightloom.sweeps.points.points`, which also says what is raised.
    """
    key, reduced = "training.micro_batches", None
    found = points(job, axes, settings, label=label)
    if micro_batches is not None:
        own = own_micro_batches(found)
        if micro_batches > own:
            raise InputError(
                f"--micro-batches {micro_batches}: the job has {key} = {own}; allowed: 1 to {own}, "
                f"or --set {key}={micro_batches}"
            )
        found = points(job, axes, {**settings, key: micro_batches}, label=label)
        reduced = own if micro_batches < own else None
    made: list[ScenarioRun] = []
    places: dict[str, int] = {}
    of: list[int | None] = []
    for at, point in enumerate(found):
        scenario = point.scenario
        if scenario is None:
            of.append(None)
            continue
        spec = scenario.to_toml()
        if spec not in places:
            try:
                made.append(ScenarioRun.of(scenario, name=point.name, cost=_cost(scenario)))
            except InputError as error:
                found[at] = replace(point, scenario=None, misfit=str(error))
                of.append(None)
                continue
            places[spec] = len(made) - 1
        of.append(places[spec])
    if not made:
        raise InputError(found[0].misfit)
    return Prepared(axes, tuple(found), tuple(made), tuple(of), reduced)


def perform(
    sweep: Prepared,
    *,
    executor: runs.Executor | None = None,
    jobs: int | None = None,
    cache: Cache | None = None,
    on_progress: OnProgress | None = None,
    command: str = "lightloom.sweep",
) -> tuple[Sweep, KeyboardInterrupt | None]:
    """Perform the runs; return what came of them, and the interrupt that ended them if one did.

    Raises
    ------
    RunError, InputError
        If no run came to anything: why the first did not.
    """
    done = runs.perform(
        sweep.runs, cache=cache, tables=False, executor=executor, jobs=jobs, on_progress=on_progress
    )
    if not any(done.outcomes):
        if done.interrupted is None:
            raise done.failures[0][1]
        if isinstance(done.interrupted, where_runs.Submitted):
            raise done.interrupted
        raise Interrupted("no run was finished") from done.interrupted
    return _gathered(sweep, done, command), done.interrupted


def sweep(
    job: Scenario | str | PathLike[str],
    over: Mapping[str, Any] | None = None,
    *,
    seeds: object = None,
    where: str | Iterable[str] | None = None,
    zip: Sequence[Sequence[str]] | None = None,
    on: str | runs.Executor = "local",
    jobs: int | None = None,
    cache: bool = True,
    out: str | PathLike[str] | None = None,
    force: bool = False,
    progress: bool = True,
    on_progress: OnProgress | None = None,
    **overrides: Any,
) -> Sweep:
    """Run a job at every point of some axes.

    Parameters
    ----------
    job
        A `Scenario`, a model preset, or the path of a specification.
    over
        Values by dotted key: any sequence, or text as on a command line, ``"1..8"``. A plain number
        for a ``link_bandwidth`` is in Gbps.
    seeds
        Values of the key ``seed``.
    where
        Conditions over the keys of a point, such as ``"cluster.gpus >= 8 * parallelism.ep"``.
    zip
        Groups of keys of `over` that move together.
    on
        Where runs are performed: ``local``, ``ray``, ``ray:ADDRESS``, ``slurm``, or an executor of
        `lightloom.runs`.
    jobs
        Runs at once; as many as there are cores unless given.
    cache
        Whether runs that were performed before are taken as they were, and these are kept.
    out, force, progress, on_progress
        As in `lightloom.simulate`.
    **overrides
        Sections as dicts, or values by dotted key, as in `Scenario.with_`.

    Returns
    -------
    Sweep
        Runs that failed are listed in `Sweep.failures`, points that do not fit together in
        `Sweep.misfits`.

    Raises
    ------
    InputError
        If an axis, a filter or `out` cannot be used, or no point fits together; nothing has been
        run then.
    RunError
        If every run failed.

    Examples
    --------
    >>> import lightloom
    >>> job = lightloom.Scenario.preset("mixtral-8x7b", gpus=128, training={"micro_batches": 2})
    >>> found = lightloom.sweep(
    ...     job, over={"fabric.link_bandwidth": [100, 400], "fabric.preset": "mixnet,fat-tree"}
    ... )
    >>> found
    Sweep(4 points over fabric.link_bandwidth, fabric.preset: 4 runs)
    >>> found.best("iteration_s")["fabric.preset"], found.best("cost_usd")["fabric.preset"]
    ('fat-tree', 'mixnet')
    """
    from lightloom.layers import nested
    from lightloom.sweeps.axes import check_apart

    axes = gathered(over, seeds=seeds, where=where, zip=zip)
    settings = dict(leaves(nested(overrides, "override")))
    check_apart(axes, {key: f"{key} as an override" for key in settings})
    named = job if isinstance(job, Scenario) else os.fspath(job)
    ready = prepared(named, axes, settings)
    if out is not None:
        force = check_place(Path(out), ready, force=force)
    kept = runs.users() if cache else None
    executor: runs.Executor | None = None if isinstance(on, str) else on
    if isinstance(on, str):
        executor = where_runs.chosen(on, jobs=jobs, cache=kept, digest=ready.digest)
    with displayed(len(ready.runs), progress, on_progress) as report:
        found, interrupt = perform(
            ready, executor=executor, jobs=jobs, cache=kept, on_progress=report
        )
    if out is not None:
        found = found.save(out, force=force, pictures=interrupt is None)
    if interrupt is not None:
        raise Interrupted(said_of_stop(found, kept, out)) from interrupt
    return found


def check_place(directory: Path, sweep: Prepared, *, force: bool) -> bool:
    """Refuse a place that cannot be used; return whether what is there may be replaced.

    A sweep that was interrupted may be, by the same one.
    """
    with_force = force
    try:
        info = store.read_info(directory)
    except InputError:
        info = {}
    of = info.get("sweep")
    if info.get("complete") is False and isinstance(of, dict):
        with_force = force or of.get("digest") == sweep.digest
    store.check_place(directory, force=with_force)
    return with_force


def said_of_stop(found: Sweep, cache: Cache | None, out: str | PathLike[str] | None) -> str:
    """Return what an interrupt says was kept."""
    done = f"{found.table.num_rows:,} of {found.info['sweep']['runs']:,} runs"
    where = f" in {out}" if out is not None else ""
    if cache is None:
        return f"{done} are kept{where}" if where else "nothing was kept"
    return f"{done} are kept{where}; the same command goes on from there"


def _cost(scenario: Scenario) -> Cost | None:
    try:
        return cost_of(bill_of(scenario), scenario.prices)
    except InputError:
        return None


def _gathered(sweep: Prepared, done: runs.Done, command: str) -> Sweep:
    rows: list[dict[str, Any]] = []
    for point, at in zip(sweep.points, sweep.of, strict=True):
        run = None if at is None else sweep.runs[at]
        match None if run is None else done.ended.get(run.key):
            case Outcome():
                state, message = DONE, None
            case Failure(error=error):
                state, message = FAILED, str(error)
            case _:
                state, message = (UNFINISHED, None) if run else (MISFIT, point.misfit)
        of = {"run": run and run.digest, "point": run and run.name}
        rows.append({**point.values, **of, "state": state, "message": message})
    figures: dict[str, None] = {}
    for each, outcome in zip(sweep.runs, done.outcomes, strict=True):
        if outcome is not None:
            figures |= dict.fromkeys(each.figures(outcome))
    info: dict[str, Any] = {
        "lightloom": _core.__version__,
        "python": ".".join(map(str, sys.version_info[:3])),
        "pyarrow": pa.__version__,
        "command": command,
        "sweep": {
            "digest": sweep.digest,
            "axes": sweep.axes.to_tree(),
            "points": len(sweep.points),
            "runs": len(sweep.runs),
            "figures": list(figures),
        },
        "warnings": _warnings(sweep, done),
        "complete": done.interrupted is None,
    }
    return Sweep(
        None,
        info,
        sweep.first.to_toml(),
        {"runs": runs.table(done), "points": of_rows(rows), "times": runs.times(done)},
    )


def _warnings(sweep: Prepared, done: runs.Done) -> list[str]:
    """Return what there is to be said of the runs, each once."""
    said: dict[str, None] = {}
    for run, outcome in zip(sweep.runs, done.outcomes, strict=True):
        if outcome is not None:
            said |= dict.fromkeys((*shapes.warnings(run.scenario), *outcome.warnings))
    found = list(said)
    if len(found) > _MOST_WARNINGS:
        rest = len(found) - _MOST_WARNINGS
        found[_MOST_WARNINGS:] = [f"and {rest:,} more warnings, which a run of its own prints"]
    if sweep.reduced_from is not None:
        few = sweep.first.training.micro_batches
        found.insert(
            0,
            f"training.micro_batches = {few}: reduced from the job's {sweep.reduced_from} by "
            "--micro-batches; an iteration is shorter than the job's, and the pipeline's ends "
            "weigh more",
        )
    if done.unkept is not None:
        found.append(done.unkept_text)
    return found
