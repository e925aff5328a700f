"""``lightloom testbed replay`` and ``demo``: a simulated iteration with real bytes and circuits."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from lightloom import extras
from lightloom.cli import words

if TYPE_CHECKING:
    from lightloom.testbed import Replay
    from lightloom.units import Rate

JSON = typer.Option(False, "--json", help="Print JSON.")


def replay(
    job: str = typer.Argument(
        ..., metavar="SPEC", help="A specification (TOML), a model preset or a config.json."
    ),
    settings: list[str] = words.SETTINGS,
    rate: str = typer.Option("20 Mbps", "--rate", help="Of each NIC, each way."),
    slower: float = typer.Option(
        5.0, "--slower", help="How many times longer everything takes than in the simulation."
    ),
    iterations: int = typer.Option(1, "--iterations", help="How often the iteration is run."),
    as_json: bool = JSON,
) -> None:
    """Run a simulated job's iteration on a testbed that it builds and takes down.

    All-to-alls are real bytes over real circuits; computation, and all other communication, is
    slept. Bytes, rates and the optical switch's delay keep the job's proportions. The job has no
    pipeline stages and one micro-batch.

    Example: lightloom testbed replay mixtral-8x7b --set cluster.gpus=32 --set fabric.preset=mixnet
    --set parallelism.pp=1 --set training.micro_batches=1 --set model.layers=4
    """
    from lightloom import testbed as beds
    from lightloom.cli import options

    scenario, _ = options.job(job, options.settings(settings))
    found = beds.replay(scenario, _rate(rate), slower, iterations, _told)
    if as_json:
        print(json.dumps(found.said(), indent=2))
        return
    show([("", [found])])


def demo(
    rate: str = typer.Option(
        "20 Mbps",
        "--rate",
        help="Of each NIC, each way; with eight servers half of it, in training twice as much.",
    ),
    seconds: float = typer.Option(
        4.0, "--seconds", help="About how long an iteration of a replay shall take."
    ),
    iterations: int = typer.Option(50, "--iterations", help="Steps that are trained."),
    training: bool = typer.Option(
        True, "--training/--no-training", help="Train, too, which needs PyTorch."
    ),
    as_json: bool = JSON,
) -> None:
    """Show what circuits do to training, on testbeds that it builds and takes down.

    MixNet's Figure 10 as replays of the prototype's three models; eight servers whose demand is of
    hot pairs, and even; and a small mixture of experts that is trained, on all NICs at the Ethernet
    switch and with one NIC there and three at the optical switch.

    Example: lightloom testbed demo
    """
    from lightloom.testbed import demo as shown

    found = shown.demo(_rate(rate), seconds, iterations if training else 0, _told)
    if as_json:
        print(json.dumps(found.said(), indent=2))
        return
    show(found.replays)
    if found.trained:
        _show_training(found.trained)
    elif training:
        print(f"training: NOT RUN: PyTorch is not installed ({extras.install('torch')})")


def show(parts: Sequence[tuple[str, Sequence[Replay]]]) -> None:
    """Print replays as a table, part by part."""
    from rich.console import Console
    from rich.table import Table

    table = Table(
        "", "iteration s", "simulated", "ratio", "computing", "waiting", "all-to-alls",
        "simulated", "changes", "simulated", box=None,
    )  # fmt: skip
    for title, rows in parts:
        if title:
            table.add_row(f"[bold]{title}[/bold]")
        for row in rows:
            table.add_row(
                row.name, f"{row.median_s:.2f}", f"{row.simulated_s:.2f}", f"{row.ratio:.3f}",
                f"{row.compute_s:.2f}", f"{row.waited_s:.2f}", f"{row.exchange_s:.2f}",
                f"{row.simulated_exchange_s:.2f}", f"{row.changes:g}", str(row.simulated_changes),
            )  # fmt: skip
    Console(width=None if sys.stdout.isatty() else 140, highlight=False).print(table)
    for row in (row for _, rows in parts for row in rows if row.late):
        print(f"{row.name}: {row.late} demands were not answered within 5 s: this machine is busy")


def _show_training(rows: Sequence[dict[str, object]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("training", "ms a step", "all-to-alls", "loss at first", "at last", box=None)
    for row in rows:
        table.add_row(
            str(row["name"]), f"{row['step_ms']:.0f}", f"{row['all_to_all_ms']:.0f}",
            f"{row['first_loss']:.4f}", f"{row['last_loss']:.4f}",
        )  # fmt: skip
    Console(width=None if sys.stdout.isatty() else 140, highlight=False).print(table)


def _told(line: str) -> None:
    print(line, file=sys.stderr)


def _rate(text: str) -> Rate:
    from lightloom.errors import InputError
    from lightloom.units import Rate

    try:
        return Rate.parse(text)
    except ValueError as error:
        raise InputError(f"--rate: {text}: {error}") from None
