"""``lightloom simulate``: one specification, one iteration."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import typer

from lightloom import kinds

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
    engine: str | None = typer.Option(
        None, "--engine", help="Engine: flow, packet or flit (flow)."
    ),
    transport: str | None = typer.Option(
        None, "--transport", help=f"Of the packet engine: {kinds.names('transport')} (spray)."
    ),
    balancer: str | None = typer.Option(
        None,
        "--balancer",
        help=f"Of the packet engine: {kinds.names('balancer')}; the transport's unless given.",
    ),
    fail: list[str] = typer.Option(
        [],
        "--fail",
        metavar="KIND:TARGET@TIME",
        help="What fails, as nic:server3.nic2@1.2s; may be repeated (docs/failures.md).",
    ),
    micro_batches: int | None = typer.Option(
        None, "--micro-batches", help="Fewer micro-batches than the job's; the Result says so."
    ),
    out: Path | None = typer.Option(
        None, "--out", help="Directory of the Result (results/NAME-DIGEST)."
    ),
    force: bool = typer.Option(
        False, "--force", help="Replace the Result in --out: its own files, and no others."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Simulate one training iteration.

    Example: lightloom simulate job.toml --set "fabric.link_bandwidth=200 Gbps" --json
    """
    from lightloom import progress, store
    from lightloom.cli import options
    from lightloom.failures import added
    from lightloom.simulation import simulate as run_one

    overrides = options.settings(
        settings, seed=seed, engine=engine, transport=transport, balancer=balancer, fail=fail
    )
    scenario, reduced_from = options.job(job, overrides, micro_batches)
    scenario = added(scenario, fail)
    place = out or store.default_place(scenario.title, scenario.to_toml(), str(reduced_from))
    with progress.runs(1) as on_progress:
        result = run_one(
            scenario,
            out=place,
            force=force or out is None,
            command=shlex.join(["lightloom", *sys.argv[1:]]),
            reduced_from=reduced_from,
            on_progress=on_progress,
        )
    row = result.rows[0]
    if as_json:
        print(json.dumps(row, indent=2))
        return
    options.show(result)
