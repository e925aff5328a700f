"""The words of a command line that several subcommands have, each with one meaning."""

from __future__ import annotations

import typer

from lightloom import kinds

GPUS = typer.Option(None, "--gpus", help="GPUs of the cluster (1024 unless the job says).")
BANDWIDTH = typer.Option(
    None,
    "--bandwidth",
    help="Link rates, in Gbps where no unit is given.",
    show_default="100,200,400,800",
)
FABRICS = typer.Option(None, "--fabrics", help="Fabric presets, with commas.")
SETTINGS = typer.Option([], "--set", metavar="KEY=VALUE", help="Change one value; may be repeated.")
SEED = typer.Option(None, "--seed", help="Seed of every random draw (1).")
ENGINE = typer.Option(None, "--engine", help="Engine: flow, packet or flit (flow).")
TRANSPORT = typer.Option(
    None, "--transport", help=f"Of the packet engine: {kinds.names('transport')} (spray)."
)
BALANCER = typer.Option(
    None,
    "--balancer",
    help=f"Of the packet engine: {kinds.names('balancer')}; the transport's unless given.",
)
MICRO_BATCHES = typer.Option(
    None, "--micro-batches", help="Fewer micro-batches than the job's; the Result says so."
)
ALLOW_OVERSIZE = typer.Option(
    False,
    "--allow-oversize",
    help="Run a job that does not fit in the GPUs' memory; the Result says so.",
)
THREADS = typer.Option(
    1,
    "--threads",
    min=1,
    help="CPU threads of the flow or packet engine; any number gives the same.",
)
FORCE = typer.Option(
    False, "--force", help="Replace the Result in --out: its own files, and no others."
)
JSON = typer.Option(False, "--json", help="Print JSON.")
