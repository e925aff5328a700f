"""``lightloom sweep``: one job over axes of its specification."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from lightloom.cli import words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lightloom.runs import Run
    from lightloom.sweeps import Sweep
    from lightloom.sweeps.job import Prepared

app = typer.Typer()


@app.command()
def sweep(
    job: str = typer.Argument(
        ..., metavar="MODEL", help="A model preset, a specification (TOML) or a config.json."
    ),
    over: list[str] = typer.Option(
        [],
        "--over",
        metavar="KEY=VALUES",
        help="An axis: values with commas, 1..8, 1..9:2, 1MiB..1GiB*2; may be repeated.",
    ),
    seeds: str | None = typer.Option(None, "--seeds", metavar="SEEDS", help="Seeds, as 1..5."),
    where: list[str] = typer.Option(
        [],
        "--where",
        metavar="CONDITION",
        help='Which points, as "cluster.gpus >= 8 * parallelism.ep"; may be repeated.',
    ),
    axes_file: Path | None = typer.Option(
        None, "--axes", metavar="FILE", help="A TOML file of axes: [over], seeds, where, zip."
    ),
    settings: list[str] = words.SETTINGS,
    gpus: int | None = words.GPUS,
    seed: int | None = words.SEED,
    engine: str | None = words.ENGINE,
    transport: str | None = words.TRANSPORT,
    balancer: str | None = words.BALANCER,
    micro_batches: int | None = words.MICRO_BATCHES,
    on: str = typer.Option(
        "local", "--on", metavar="PLACE", help="Where: local, ray, ray:ADDRESS or slurm."
    ),
    jobs: int | None = typer.Option(
        None, "--jobs", help="Runs at once; with slurm its tasks at once."
    ),
    slurm: list[str] = typer.Option(
        [], "--slurm", metavar="OPTION=VALUE", help="Of sbatch, as partition=gpu; may be repeated."
    ),
    wait: bool = typer.Option(
        True, "--wait/--no-wait", help="Wait for Slurm's tasks; later the same command collects."
    ),
    plot: str = typer.Option("iteration_s", "--plot", metavar="FIGURE", help="What is plotted."),
    x: str | None = typer.Option(None, "--x", metavar="KEY", help="What lies along x."),
    by: str | None = typer.Option(None, "--by", metavar="KEY", help="What makes the lines."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Print the points, and run none."),
    out: Path | None = typer.Option(
        None, "--out", help="Directory of the Result (results/sweep-JOB-DIGEST)."
    ),
    allow_oversize: bool = words.ALLOW_OVERSIZE,
    force: bool = words.FORCE,
    as_json: bool = words.JSON,
) -> None:
    """Run one job at every point of some axes.

    A point is run once, whatever it was part of before; a point whose values do not fit together is
    listed, and the others run. After an interrupt the same command goes on.

    Example: lightloom sweep mixtral-8x7b --over fabric.link_bandwidth=100,400 --over
    fabric.preset=mixnet,fat-tree

    Example, to sweep a number, for several seeds: lightloom sweep mixtral-8x7b --over
    training.micro_batch=1..8 --seeds 1..3
    """
    from lightloom import progress, runs, store
    from lightloom.cli import options
    from lightloom.errors import InputError, Interrupted, RunError
    from lightloom.presets import unknown
    from lightloom.sweeps import job as sweeps
    from lightloom.sweeps import terminal, where_runs
    from lightloom.sweeps.axes import check_apart, of_command
    from lightloom.sweeps.where_runs import Submitted

    given = {"seed": seed, "gpus": gpus, "engine": engine, "transport": transport,
             "balancer": balancer}  # fmt: skip
    overrides = options.settings(settings, **given, allow_oversize=allow_oversize)
    axes = of_command(over, seeds, where, axes_file)
    said = {options.KEYS[name]: f"--{name} {value}" for name, value in given.items()
            if value is not None}  # fmt: skip
    if micro_batches is not None:
        said["training.micro_batches"] = f"--micro-batches {micro_batches}"
    check_apart(axes, {key: f"--set {key}" for key in overrides} | said)
    ready = sweeps.prepared(job, axes, overrides, micro_batches=micro_batches, label="command line")
    ready.check_keys({"--x": x, "--by": by})
    cache = runs.users()
    executor = where_runs.chosen(
        on, jobs=jobs, cache=cache, slurm=slurm, wait=wait, digest=ready.digest
    )
    summary = _summary(ready, ready.left(cache))
    if dry_run:
        _dry(ready, summary, as_json)
        return
    place = out or store.default_place(f"sweep-{Path(job).stem}", ready.digest)
    force = sweeps.check_place(place, ready, force=force or out is None)
    for line in (*terminal.listed("misfit", terminal.misfit_names(ready.misfits)), summary):
        print(line, file=sys.stderr)
    try:
        with progress.runs(len(ready.runs)) as on_progress:
            found, interrupt = sweeps.perform(
                ready,
                executor=executor,
                jobs=jobs,
                cache=cache,
                command=shlex.join(["lightloom", *sys.argv[1:]]),
                on_progress=on_progress,
            )
    except Submitted as submitted:
        print(submitted)
        return
    if isinstance(interrupt, Submitted):
        print(interrupt)
        return
    drawable = plot in found.figures and any(row[plot] is not None for row in found.rows)
    drawn = drawable and interrupt is None
    found = found.save(place, force=force, pictures=drawn, x=x, y=plot, by=by)
    if interrupt is not None:
        raise Interrupted(sweeps.said_of_stop(found, cache, place)) from interrupt
    if not drawable:
        reason = unknown(plot, found.figures)
        raise InputError(f'--plot "{plot}": no run has such a figure{reason}; kept: {place}')
    if as_json:
        print(json.dumps(_told(found, str(place)), indent=2))
    else:
        terminal.render(found, plot)
        print(f"\nresult in {place}")
    for line in (*(f"warning: {text}" for text in found.info["warnings"]),
                 *terminal.listed("failed", found.failures)):  # fmt: skip
        print(line, file=sys.stderr)
    if found.failures:
        raise RunError(f"{len(found.failures):,} points failed; the others are in {place}")


def _summary(ready: Prepared, left: Sequence[Run]) -> str:
    """Return what a sweep is about to do, in one line."""
    kept = len(ready.runs) - len(left)
    points, distinct = len(ready.points), len(ready.runs)
    counts = f"{points:,} point{'s'[: points > 1]}, {distinct:,} run{'s'[: distinct > 1]}, "
    counts += f"{kept:,} kept"
    if not left:
        return counts
    work = sum(run.weight for run in left)
    about = f"{work / 3600:.1f} h" if work > 5400 else f"{max(1, work):.0f} s"
    return f"{counts}; about {about} of CPU time"


def _dry(ready: Prepared, summary: str, as_json: bool) -> None:
    from lightloom.sweeps import terminal

    if as_json:
        points = [{**point.values, "misfit": point.misfit or None} for point in ready.points]
        print(json.dumps({"points": points, "summary": summary}, indent=2))
        return
    terminal.render_points(ready.points)
    print(f"\n{summary}")
    for line in terminal.listed("misfit", terminal.misfit_names(ready.misfits)):
        print(line, file=sys.stderr)


def _told(found: Sweep, place: str) -> dict[str, Any]:
    names = (*found.axes, "run", *found.figures)
    return {
        "rows": [{name: row[name] for name in names} for row in found.rows],
        "misfits": [{"point": name, "message": message} for name, message in found.misfits],
        "failed": [{"point": name, "message": message} for name, message in found.failures],
        "result": place,
    }
