"""``lightloom testbed rails``: RailS's schemes over real TCP, beside the packet engine."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from lightloom.testbed import SchemesComparison


def rails(
    workload: str = typer.Option(
        "uniform",
        "--workload",
        help="uniform, sparse:S, sender-skewed[:A], receiver-skewed[:A], mixtral:PHASE, "
        "trace[:NAME], as of `lightloom rails`.",
    ),
    schemes: str = typer.Option(
        "rails,rails-hash,round-robin,ecmp,reps,plb,min-rtt",
        "--schemes",
        show_default="rails, rails-hash, round-robin, ecmp, reps, plb, min-rtt",
        help="With commas: rails, rails-round-robin, rails-hash (hash), rails-pxn (pxn), "
        "rails-source (source), ecmp, plb, reps, min-rtt, round-robin.",
    ),
    size: str = typer.Option("2 MB", "--size", help="What a rank sends, on average over ranks."),
    count: int = typer.Option(3, "--count", help="All-to-alls by each scheme, each another draw."),
    chunk: str = typer.Option("8 KiB", "--chunk", help="The longest chunk."),
    window: str = typer.Option(
        "128 KiB", "--window", help="In flight from a server to one NIC of another, at most."
    ),
    ways: int = typer.Option(4, "--ways", help="Connections between two NICs."),
    seed: int = typer.Option(1, "--seed", help="Of the demands and of the simulator."),
    out: Path | None = typer.Option(None, "--out", help="Directory of JSON and pictures (none)."),
    force: bool = typer.Option(False, "--force", help="Replace what --out wrote before."),
    name: str = typer.Option("testbed", "--name", help="The testbed's name."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Compare RailS's schemes on a testbed of rails, over real TCP, and beside the packet engine.

    The testbed has rails and a rank a NIC. All bytes are checked. Times, loads and their MSE are
    as `lightloom rails` has them; docs/rails.md says what a process cannot do of each scheme.

    Example: lightloom testbed rails --workload sparse:0.6 --schemes rails,ecmp,reps
    """
    from lightloom import store
    from lightloom import testbed as beds
    from lightloom.cli.testbed_jobs import parsed_bytes
    from lightloom.testbed import rootless

    rootless.enter(name)
    request = beds.SchemesRequest(
        workload=workload, schemes=schemes, size_bytes=parsed_bytes("--size", size), count=count,
        chunk_bytes=parsed_bytes("--chunk", chunk), window_bytes=parsed_bytes("--window", window),
        ways=ways, seed=seed,
    )  # fmt: skip
    if out is not None:
        store.check_place(out, force=force)
    found = beds.schemes(name, request, lambda line: print(line, file=sys.stderr))
    # Printed first: what was measured is not lost with a disk that is full.
    if as_json:
        print(json.dumps(found.said(), indent=2))
    else:
        _show(found)
    if out is not None:
        found.save(out, force=force)


def _show(found: SchemesComparison) -> None:
    from lightloom import screen
    from lightloom.screen import Column

    columns = (
        Column("scheme", name=True), Column("", name=True), Column("all-to-all\nms"),
        Column("mean", rank=5), Column("p80", rank=7), Column("p95", rank=8),
        Column("p99", rank=2), Column("bus bw\nMbps"), Column("over\nECMP"),
        Column("sender\nMSE"), Column("receiver\nMSE"), Column("resent", rank=9),
        Column("detours", rank=10),
    )  # fmt: skip
    table = []
    for ours, theirs, detours in zip(
        found.measured.rows, found.simulated.rows, found.detours, strict=True
    ):
        for row, side in ((ours, "TCP"), (theirs, "simulator")):
            times = (row.completion_s, row.cct_mean_s, row.cct_p80_s, row.cct_p95_s, row.cct_p99_s)
            gain = "-" if row.gain_over_ecmp is None else f"{row.gain_over_ecmp:.2f}x"
            ends = (str(row.resent), str(detours)) if side == "TCP" else ("", "")
            table.append([
                row.scheme if side == "TCP" else "", side,
                *(f"{1e3 * time:,.0f}" for time in times),
                f"{1e3 * row.bus_bandwidth_gbps:.2f}", gain,
                f"{row.sender_mse:.4f}", f"{row.receiver_mse:.4f}", *ends,
            ])  # fmt: skip
    shape, job, console = found.shape, found.measured.job, screen.console()
    console.print(
        f"{job.workload}: {job.domains} servers x {job.gpus_per_domain} ranks and NICs at"
        f" {shape.rate}, {shape.spines} spines at {shape.spine_rate},"
        f" {job.collectives} all-to-all{'s' if job.collectives > 1 else ''}\n"
    )
    screen.print_table(columns, table, console)
