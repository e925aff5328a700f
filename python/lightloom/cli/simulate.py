"""``lightloom simulate``: one specification, one iteration."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import typer

from lightloom.cli import words

app = typer.Typer()


@app.command()
def simulate(
    job: str = typer.Argument(
        ..., metavar="SPEC", help="A specification (TOML), a model preset or a config.json."
    ),
    settings: list[str] = words.SETTINGS,
    seed: int | None = words.SEED,
    engine: str | None = words.ENGINE,
    transport: str | None = words.TRANSPORT,
    balancer: str | None = words.BALANCER,
    fail: list[str] = typer.Option(
        [],
        "--fail",
        metavar="KIND:TARGET@TIME",
        help="What fails, as nic:server3.nic2@1.2s; may be repeated (docs/failures.md).",
    ),
    micro_batches: int | None = words.MICRO_BATCHES,
    out: Path | None = typer.Option(
        None, "--out", help="Directory of the Result (results/NAME-DIGEST)."
    ),
    allow_oversize: bool = words.ALLOW_OVERSIZE,
    threads: int = words.THREADS,
    force: bool = words.FORCE,
    as_json: bool = words.JSON,
) -> None:
    """Simulate one training iteration.

    Example: lightloom simulate job.toml --set "fabric.link_bandwidth=200 Gbps" --json

    Example, to lose a NIC on the way: lightloom simulate examples/mixnet.toml --fail
    nic:server3.nic2@1.2s

    Example, to send packets instead of flows: lightloom simulate examples/mixnet.toml --engine
    packet --micro-batches 1
    """
    from lightloom import progress, store
    from lightloom.cli import options
    from lightloom.failures import added
    from lightloom.simulation import simulate as run_one

    overrides = options.settings(
        settings, seed=seed, engine=engine, transport=transport, balancer=balancer, fail=fail,
        allow_oversize=allow_oversize,
    )  # fmt: skip
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
            threads=threads,
        )
    row = result.rows[0]
    if as_json:
        print(json.dumps(row, indent=2))
        return
    options.show(result)
