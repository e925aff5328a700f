"""``lightloom.run_jobs``: each job alone, all together, and all moved apart."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightloom import memory, shapes, store
from lightloom.errors import Interrupted
from lightloom.gating import unrecorded
from lightloom.jobs.spec import JobsSpec, Places
from lightloom.progress import OnProgress, displayed

if TYPE_CHECKING:
    from lightloom.jobs.result import JobsResult
    from lightloom.runs.jobs import JobsRun


def run_jobs(
    jobs: JobsSpec | str | PathLike[str] | Mapping[str, Any],
    *,
    settings: Mapping[str, Any] | None = None,
    out: str | PathLike[str] | None = None,
    force: bool = False,
    progress: bool = True,
    command: str = "lightloom.run_jobs",
    on_progress: OnProgress | None = None,
) -> JobsResult:
    """Run several jobs on one fabric: each alone, all together, and all moved apart.

    Parameters
    ----------
    jobs
        A `JobsSpec`, the path of its TOML file, or tables in the same form.
    settings
        Values by dotted key on top, for every job: ``{"fabric.oversubscription": 2.0}``.
    out, force
        A directory to write the Result to, and whether to replace the one there.
    progress, on_progress, command
        As of `lightloom.simulate`.

    Raises
    ------
    InputError
        One message that names what is wrong, and what is allowed; nothing has been written then.
    RunError
        If a run failed.

    Examples
    --------
    >>> import lightloom
    >>> job = {"model": {"preset": "mixtral-8x7b", "layers": 2}, "gpus": 32, "servers": "spread"}
    >>> job |= {"parallelism": {"pp": 1}, "training": {"micro_batches": 1}}
    >>> fabric = {"preset": "leaf-spine", "oversubscription": 3.0, "radix": 64}
    >>> both = {"cluster": {"gpus": 64}, "fabric": fabric, "jobs": [job, job]}
    >>> result = lightloom.run_jobs(both, progress=False)
    >>> row = result.rows[0]
    >>> row["servers"], row["slowdown"] > 1.1, round(row["apart_slowdown"], 3)
    ('0,4,1,5', True, 1.0)
    """
    from lightloom.jobs.result import gathered
    from lightloom.runs import perform

    spec = jobs if isinstance(jobs, JobsSpec) else None
    if spec is None:
        label = "command line" if command != "lightloom.run_jobs" else "override"
        spec = JobsSpec.load(jobs, settings, override_label=label)  # type: ignore[arg-type]
    elif settings:
        raise TypeError("settings go with a file or tables, not with a JobsSpec")
    if out is not None:
        store.check_place(Path(out), force=force)
    places = spec.place()
    runs = runs_of(spec, places)
    with displayed(len(runs), progress, on_progress) as report:
        done = perform(list(runs.values()), first_failure_stops=True, on_progress=report)
    if done.interrupted is not None:
        raise Interrupted("nothing was kept") from None
    for _, error in done.failures:
        raise error
    outcomes = dict(zip(runs, done.outcomes, strict=True))
    notes, warnings = [*spec.notes, *_notes(places)], []
    for job in spec.jobs:
        own = (*shapes.warnings(job.scenario), unrecorded(job.scenario))
        warnings += [f"{job.name}: {line}" for line in own if line]
        notes += [f"{job.name}: {line}" for line in memory.notes(job.scenario)]
    result = gathered(spec, places, outcomes, notes=notes, warnings=warnings, command=command)
    return result if out is None else result.save(out, force=force)


def runs_of(spec: JobsSpec, places: Places) -> dict[str, JobsRun]:
    """Return the runs by name: ``alone: JOB`` of each job, ``together``, ``apart`` if it can be."""
    from lightloom.runs.jobs import JobsRun

    names = {number: f"alone: {job.name}" for number, job in enumerate(spec.jobs)}
    runs = {
        name: JobsRun.of(spec, places.together, name=name, only=[number])
        for number, name in names.items()
    }
    runs["together"] = JobsRun.of(spec, places.together, name="together")
    if places.apart is not None:
        runs["apart"] = JobsRun.of(spec, places.apart, name="apart")
    return runs


def _notes(places: Places) -> list[str]:
    if places.apart is not None:
        return []
    return ["no job was moved apart: there are not as many leaves or pods as that would take"]
