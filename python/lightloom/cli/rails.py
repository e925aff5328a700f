"""``lightloom rails``: schemes that spread an all-to-all over the rails, side by side."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from lightloom import kinds
from lightloom.cli import words

if TYPE_CHECKING:
    from lightloom.rails import Comparison

app = typer.Typer()


@app.command()
def rails(
    domains: int = typer.Option(16, "--domains", help="Scale-up domains (M)."),
    gpus_per_domain: int = typer.Option(
        8, "--gpus-per-domain", help="GPUs of a domain, a NIC and a rail each (N)."
    ),
    workload: str = typer.Option(
        "uniform",
        "--workload",
        help="uniform, sparse:S, sender-skewed[:A], receiver-skewed[:A], "
        "mixtral:PHASE (start, early, mid, stable; then :dense or :sparse), trace[:NAME].",
    ),
    schemes: str = typer.Option(
        "rails,reps,min-rtt,plb,ecmp",
        "--schemes",
        show_default="rails, reps, min-rtt, plb, ecmp",
        help=f"With commas: {kinds.names('balancer')}; chunks dealt by another rule than LPT: "
        "rails-both (LPT at both ends), rails-round-robin, rails-hash, rails-pxn (the receiver's "
        "rail), rails-source (the sender's).",
    ),
    size: str | None = typer.Option(
        None,
        "--size",
        help="Bytes that a GPU sends in one all-to-all, on average (16 MiB; Mixtral: its phase's).",
    ),
    collectives: int = typer.Option(
        1, "--collectives", help="All-to-alls, each with another draw of the gate."
    ),
    bandwidth: str = typer.Option(
        "400 Gbps", "--bandwidth", help="Rate of a NIC, in Gbps where no unit is given."
    ),
    engine: str = typer.Option("packet", "--engine", help="Engine: packet or flow."),
    transport: str = typer.Option(
        "spray",
        "--transport",
        help=f"Transport of the packet engine: {kinds.names('transport')}.",
    ),
    chunk: str = typer.Option("32 KiB", "--chunk", help="Size of RailS's chunks."),
    queue_pairs: int = typer.Option(64, "--queue-pairs", help="Queue pairs of a rail."),
    fabric: str = typer.Option(
        "rail-optimized",
        "--fabric",
        help="rail-optimized, or a tree without rails: leaf-spine, fat-tree; not over-subscribed.",
    ),
    spines: int | None = typer.Option(
        None, "--spines", help="Of rail-optimized: how many spines (as many as domains)."
    ),
    spine_bandwidth: str | None = typer.Option(
        None, "--spine-bandwidth", help="Rate of a link between a leaf and a spine (a NIC's)."
    ),
    nics: list[str] = typer.Option(
        [],
        "--nic",
        metavar="NIC=SHARE",
        help="Share of the bandwidth that a NIC has, 0 if it is down: domain3.rail2=0.5, or "
        "rail2=0 for all domains'; may be repeated.",
    ),
    feedback: bool = typer.Option(
        True,
        "--feedback/--no-feedback",
        help="Whether LPT weighs rails by what they gave in earlier all-to-alls.",
    ),
    settings: list[str] = typer.Option(
        [], "--set", metavar="KEY=VALUE", help="Change a value of the engine; may be repeated."
    ),
    seed: int = typer.Option(1, "--seed", help="Seed of every random draw."),
    out: Path | None = typer.Option(
        None, "--out", help="Directory of the Result (results/rails- and more)."
    ),
    force: bool = words.FORCE,
    as_json: bool = words.JSON,
) -> None:
    """Compare how schemes spread an all-to-all over the rails of a rail-optimized fabric.

    Completion time, bus bandwidth, the gain over ECMP beside the most that the demand allows, and
    how even the NICs' loads are.

    Example: lightloom rails --workload sparse:0.6 --schemes rails,reps,plb,ecmp

    Example, to hold a slow NIC against every scheme: lightloom rails --domains 16 --nic
    domain3.rail2=0.5
    """
    from lightloom import progress, store
    from lightloom.cli import options
    from lightloom.errors import InputError
    from lightloom.rails import Job, run
    from lightloom.toml_text import to_toml

    rates = options.bandwidths(bandwidth)
    if len(rates) != 1:
        raise InputError(f'--bandwidth "{bandwidth}": must be one rate')
    job = Job.of(
        domains=domains,
        gpus_per_domain=gpus_per_domain,
        workload=workload,
        schemes=schemes,
        size=size,
        collectives=collectives,
        bandwidth=rates[0],
        engine=engine,
        transport=transport,
        chunk=chunk,
        queue_pairs=queue_pairs,
        seed=seed,
        settings=options.settings(settings),
        fabric=fabric,
        nics=_nics(nics),
        feedback=feedback,
        spines=spines,
        spine_bandwidth=spine_bandwidth,
    )
    name = f"rails-{str(job.workload).replace(':', '-')}"
    place = out or store.default_place(name, to_toml(job.to_tree()))
    with progress.runs(len(job.schemes)) as on_progress:
        done = run(
            job, out=place, force=force or out is None,
            command=shlex.join(["lightloom", *sys.argv[1:]]), on_progress=on_progress,
        )  # fmt: skip
    if as_json:
        print(json.dumps({"rows": [asdict(row) for row in done.rows]}, indent=2))
        return
    _render(done)


def _nics(given: list[str]) -> dict[str, float]:
    from lightloom.errors import InputError

    nics: dict[str, float] = {}
    for text in given:
        name, is_there, share = text.partition("=")
        try:
            value: float | None = float(share)
        except ValueError:
            value = None
        if not is_there or value is None or name in nics:
            raise InputError(f'--nic "{text}": must be NIC=SHARE, a number, and each NIC once')
        nics[name] = value
    return nics


def _render(done: Comparison) -> None:
    from lightloom import screen
    from lightloom.screen import Column

    job, console = done.job, screen.console()
    columns = (
        Column("scheme", name=True), Column("all-to-all\nms", "all-to-\nall ms"),
        Column("mean", rank=6), Column("p80", rank=9), Column("p95", rank=8), Column("p99", rank=2),
        Column("bus bw\nGbps"), Column("share", rank=7), Column("over\nECMP"),
        Column("demand\nallows"), Column("sender\nMSE", rank=4),
        Column("receiver\nMSE", "recei-\nver MSE", rank=3),
        Column("lost/trim/resent", "lost/trim\n/resent", rank=1),
    )  # fmt: skip
    table = []
    for row in done.rows:
        times = (row.completion_s, row.cct_mean_s, row.cct_p80_s, row.cct_p95_s, row.cct_p99_s)
        gain = "-" if row.gain_over_ecmp is None else f"{row.gain_over_ecmp:.2f}x"
        table.append([
            row.scheme, *(f"{1e3 * time:.3f}" for time in times), f"{row.bus_bandwidth_gbps:.1f}",
            f"{row.bus_bandwidth_share:.0%}", gain, f"{row.gain_allowed:.2f}x",
            f"{row.sender_mse:.4f}", f"{row.receiver_mse:.4f}",
            f"{row.drops}/{row.trims}/{row.resent}",
        ])  # fmt: skip
    console.print(
        f"{job.workload}: {job.domains} domains x {job.gpus_per_domain} GPUs, {job.bandwidth}, "
        f"{job.fabric}, {job.collectives} all-to-all{'s' if job.collectives > 1 else ''}\n"
        + "".join(f"NIC {nic}: {share:.0%} of the rate\n" for nic, share in job.nics.items())
    )
    screen.print_table(columns, table, console)
    for note in done.notes:
        console.print(f"note: {note}", style="dim")
    console.print(f"\nresult in {done.directory}")
