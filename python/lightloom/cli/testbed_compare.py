"""``lightloom testbed compare``: the same demands on a testbed and in the flow engine."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from lightloom.cli.testbed_jobs import CHUNK, parsed_bytes, parsed_chunk

if TYPE_CHECKING:
    from lightloom.testbed import Comparison


def compare(
    demand: str = typer.Option(
        "trace", "--demand", help="A recording such as e8k2, even, or a workload of `rails`."
    ),
    size: str = typer.Option("4 MB", "--size", help="What a rank sends, on average over ranks."),
    path: str = typer.Option(
        "delegate,rails,stripe",
        "--path",
        help="One or several of delegate, rails, stripe, hash, pxn, source.",
    ),
    count: int = typer.Option(20, "--count", help="Demands, each by every path."),
    chunk: str | None = CHUNK,
    seed: int = typer.Option(1, "--seed", help="Of the demands."),
    out: Path | None = typer.Option(None, "--out", help="Directory of table and picture (none)."),
    force: bool = typer.Option(False, "--force", help="Replace what --out wrote before."),
    name: str = typer.Option("testbed", "--name", help="The testbed's name."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Measure all-to-alls on the testbed, and simulate them with the circuits that stood.

    The simulator gives chunks to NICs by its own decisions; its flow engine has the NICs' rate
    times what frames leave of it. A rate that the computer carries without effort is judged; one
    that it does not is not: --rate "20 Mbps" of `testbed up` is good for two cores.

    Example: lightloom testbed compare --demand e8k2 --count 20 --path delegate,rails,stripe
    """
    from lightloom import store
    from lightloom import testbed as beds
    from lightloom.testbed import rootless

    rootless.enter(name)

    request = beds.Request(
        size_bytes=parsed_bytes("--size", size), workload=demand, count=count,
        paths=tuple(dict.fromkeys(path.split(","))), chunk_bytes=parsed_chunk(chunk),
        seed=seed,
    )  # fmt: skip
    if out is not None:
        store.check_place(out, force=force)
    found = beds.compare(name, request, lambda line: print(line, file=sys.stderr))
    # Printed first: what was measured is not lost with a disk that is full.
    if as_json:
        print(json.dumps(found.said(), indent=2))
    else:
        _show(found)
    if out is not None:
        found.save(out, force=force)


def _show(found: Comparison) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    table = Table(
        "path", "demand", "MB between", "measured ms", "simulated ms", "ratio", "circuits",
        "MB elsewhere", box=None,
    )  # fmt: skip
    for row in found.rows:
        table.add_row(
            row.path, str(row.demand), f"{row.between_bytes / 1e6:,.1f}",
            f"{row.measured_seconds * 1e3:,.1f}", f"{row.simulated_seconds * 1e3:,.1f}",
            f"{row.ratio:.3f}", "" if row.circuits is None else str(row.circuits),
            f"{row.elsewhere_bytes / 1e6:.1f}",
        )  # fmt: skip
    console.print(table)
    table = Table("path", "median ratio", "median |ratio - 1|", "worst", box=None)
    for path in dict.fromkeys((*found.request.paths, None)):
        table.add_row(
            path or "all", f"{found.median_ratio(path):.3f}", f"{found.median_gap(path):.1%}",
            f"{found.worst_gap(path):.1%}",
        )  # fmt: skip
    console.print(table)
