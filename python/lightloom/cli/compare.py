"""``lightloom compare``: one job on several fabrics, at several rates."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import typer

from lightloom.cli import words

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
    "network_usd",
    "servers_usd",
    "energy_usd",
    "cluster_usd",
    "watts",
    "perf_per_network_dollar_vs_fat_tree",
    "perf_per_cluster_dollar_vs_fat_tree",
    "usd_per_trillion_tokens",
    "missing",
    "tokens_per_s",
    "tokens_per_s_per_gpu",
    "mfu",
    "mfu_full_attention",
)


@app.command()
def compare(
    job: str = typer.Argument(
        ..., metavar="MODEL", help="A model preset, a specification (TOML) or a config.json."
    ),
    gpus: int | None = words.GPUS,
    bandwidth: str | None = words.BANDWIDTH,
    fabrics: str | None = words.FABRICS,
    settings: list[str] = words.SETTINGS,
    seed: int | None = words.SEED,
    engine: str | None = words.ENGINE,
    transport: str | None = words.TRANSPORT,
    balancer: str | None = words.BALANCER,
    micro_batches: int | None = words.MICRO_BATCHES,
    seeds: int = typer.Option(
        1, "--seeds", help="How many seeds, from the job's on; with intervals over them."
    ),
    traces: str | None = typer.Option(
        None, "--traces", help="Gating traces to repeat all of it for, with commas."
    ),
    profiles: str | None = typer.Option(
        None,
        "--profiles",
        help="Compute profiles, with commas: share, shape, a table, compute.KEY=VALUE.",
    ),
    price_lists: str | None = typer.Option(
        None, "--price-lists", help="Price lists, with commas: presets, prices.KEY=VALUE."
    ),
    out: Path | None = typer.Option(
        None, "--out", help="Directory of the Result (results/compare-MODEL-GPUS-DIGEST)."
    ),
    allow_oversize: bool = words.ALLOW_OVERSIZE,
    force: bool = words.FORCE,
    as_json: bool = words.JSON,
) -> None:
    """Compare fabrics for one training job: time, cost, performance per dollar.

    Every layer and micro-batch of one iteration is simulated on each fabric at each rate, with real
    routing data. Performance per dollar is relative to the non-blocking fat-tree at the same rate.
    Of a cluster dollar: servers, network, energy over the years; of a network dollar: the network
    as a buyer pays it, by whole chassis (docs/money.md), which Pareto goes by, too. In JSON,
    cost_usd and perf_per_dollar_vs_fat_tree are the papers' count, by ports in use.

    With --seeds, --traces, --profiles, --price-lists everything is run for each combination, the
    same on each fabric; the table then shows medians with the 5th to the 95th percentile, of ratios
    that of the paired ratio. The last sentences say who wins, and which prices would reverse it.

    Example: lightloom compare mixtral-8x7b --gpus 1024

    Example, to compare two fabrics at one rate: lightloom compare mixtral-8x7b --gpus 128
    --fabrics fat-tree,mixnet --bandwidth 400

    Example, to know how sure a ratio is: lightloom compare mixtral-8x7b --gpus 128 --seeds 20
    --profiles share,shape

    Example, to change what the job does: lightloom compare deepseek-v3 --gpus 2048 --set
    training.overlap=dualpipe --micro-batches 16
    """
    from lightloom import progress, store
    from lightloom.cli import options
    from lightloom.comparison import compare as run_comparison
    from lightloom.comparison import rails_for

    overrides = options.settings(
        settings, seed=seed, gpus=gpus, engine=engine, transport=transport, balancer=balancer,
        fabrics=options.fabrics(fabrics), bandwidth=bandwidth and options.bandwidths(bandwidth),
        allow_oversize=allow_oversize,
    )  # fmt: skip
    given = options.fabrics(fabrics)
    overrides |= rails_for(overrides, given or None)
    base, reduced_from = options.job(job, overrides, micro_batches)
    chosen, rates = options.grid(base, overrides, fabrics, bandwidth)
    varied, count = options.draws(base, seeds, traces, profiles, price_lists)
    name = f"compare-{base.model.name}-{base.cluster.gpus}"
    what = (*chosen, *rates, str(reduced_from), *(map(str, varied.items()) if varied else ()))
    place = out or store.default_place(name, base.to_toml(), *what)
    with progress.runs(len(chosen) * len(rates) * count) as on_progress:
        result = run_comparison(
            base,
            fabrics=chosen,
            bandwidths=rates,
            out=place,
            force=force or out is None,
            command=shlex.join(["lightloom", *sys.argv[1:]]),
            reduced_from=reduced_from,
            on_progress=on_progress,
            **varied,
        )
    from lightloom.report.draws import DRAWN
    from lightloom.report.terminal import PACKETS

    fields = (*FIELDS, *(name for name in (*PACKETS, *DRAWN) if name in result.rows[0]))
    rows = [{name: row[name] for name in fields} for row in result.rows]
    if as_json:
        found: dict[str, Any] = {"rows": rows}
        if result.verdict is not None:
            found["verdict"] = result.verdict.as_json()
        if count > 1:
            found |= {"varied": result.info["draws"], "draws": result.draws.to_pylist()}
        print(json.dumps(found, indent=2))
        return
    options.show(result)
