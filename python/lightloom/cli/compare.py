"""``lightloom compare``: one job on several fabrics, at several rates."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import typer

from lightloom import kinds

app = typer.Typer()

# What `--json` prints of each row.
FIELDS = (
    "model",
    "fabric",
    "bandwidth_gbps",
    "gpus",
    "iteration_s",
    "compute_s",
    "exposed_a2a_s",
    "exposed_other_s",
    "reconfiguration_s",
    "cost_usd",
    "perf_per_dollar_vs_fat_tree",
    "pareto",
)


@app.command()
def compare(
    job: str = typer.Argument(
        ..., metavar="MODEL", help="A model preset, a specification (TOML) or a config.json."
    ),
    gpus: int | None = typer.Option(
        None, "--gpus", help="GPUs of the cluster (1024 unless the job says)."
    ),
    bandwidth: str | None = typer.Option(
        None,
        "--bandwidth",
        help="Link rates, in Gbps where no unit is given.",
        show_default="100,200,400,800",
    ),
    fabrics: str | None = typer.Option(None, "--fabrics", help="Fabric presets, with commas."),
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
    micro_batches: int | None = typer.Option(
        None, "--micro-batches", help="Fewer micro-batches than the job's; the Result says so."
    ),
    out: Path | None = typer.Option(
        None, "--out", help="Directory of the Result (results/compare-MODEL-GPUS-DIGEST)."
    ),
    force: bool = typer.Option(
        False, "--force", help="Replace the Result in --out: its own files, and no others."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Compare fabrics for one training job: time, cost, performance per dollar.

    Every layer and micro-batch of one iteration is simulated on each fabric at each rate, with real
    routing data. Performance per dollar is relative to the non-blocking fat-tree at the same rate.

    Example: lightloom compare mixtral-8x7b --gpus 1024
    """
    from lightloom import progress, store
    from lightloom.cli import options
    from lightloom.comparison import compare as run_comparison

    overrides = options.settings(
        settings, seed=seed, gpus=gpus, engine=engine, transport=transport, balancer=balancer,
        fabrics=options.fabrics(fabrics), bandwidth=bandwidth and options.bandwidths(bandwidth),
    )  # fmt: skip
    base, reduced_from = options.job(job, overrides, micro_batches)
    chosen, rates = options.grid(base, overrides, fabrics, bandwidth)
    name = f"compare-{base.model.name}-{base.cluster.gpus}"
    what = (*chosen, *rates, str(reduced_from))
    place = out or store.default_place(name, base.to_toml(), *what)
    with progress.runs(len(chosen) * len(rates)) as on_progress:
        result = run_comparison(
            base,
            fabrics=chosen,
            bandwidths=rates,
            out=place,
            force=force or out is None,
            command=shlex.join(["lightloom", *sys.argv[1:]]),
            reduced_from=reduced_from,
            on_progress=on_progress,
        )
    from lightloom.report.terminal import PACKETS

    fields = (*FIELDS, *(name for name in PACKETS if name in result.rows[0]))
    rows = [{name: row[name] for name in fields} for row in result.rows]
    if as_json:
        print(json.dumps({"rows": rows}, indent=2))
        return
    options.show(result)
