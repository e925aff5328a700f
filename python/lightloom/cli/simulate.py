"""``lightloom simulate``: one specification, one iteration."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import typer

app = typer.Typer()


@app.command()
def simulate(
    job: str = typer.Argument(
        ..., metavar="SPEC", help="A specification (TOML), a model preset or a config.json."
    ),
    settings: list[str] = typer.Option(
        [], "--set", metavar="KEY=VALUE", help="Change one value; may be repeated."
    ),
    seed: int | None = typer.Option(None, "--seed", help="Seed of every random draw (1)."),
    engine: str | None = typer.Option(None, "--engine", help="Engine: flow."),
    out: Path | None = typer.Option(None, "--out", help="Directory of the Result (results/NAME)."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Simulate one training iteration.

    Example: lightloom simulate job.toml --set "fabric.link_bandwidth=200 Gbps" --json
    """
    from lightloom.cli import options, progress
    from lightloom.resolve import load_job
    from lightloom.simulation import simulate as run_one

    overrides = options.settings(settings)
    if seed is not None:
        overrides["seed"] = seed
    if engine is not None:
        overrides["engine.kind"] = engine
    scenario = load_job(job, overrides, override_label="command line").scenario
    with progress.runs(1) as on_progress:
        result = run_one(
            scenario,
            out=out,
            command=shlex.join(["lightloom", *sys.argv[1:]]),
            on_progress=on_progress,
        )
    row = result.rows[0]
    if as_json:
        print(json.dumps(row, indent=2))
        return
    from rich.console import Console

    from lightloom.report.terminal import render_compare

    console = Console(width=None if sys.stdout.isatty() else 100, highlight=False)
    render_compare(result.rows, console)
    console.print(f"\nresult in {result.directory}; open {result.directory / 'report.html'}")
