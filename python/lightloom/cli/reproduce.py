"""``lightloom reproduce``: the figures of a paper, and its numbers beside ours."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import typer

app = typer.Typer()
PAPERS = ("rails",)


@app.command()
def reproduce(
    paper: str = typer.Argument(..., metavar="PAPER", help="rails."),
    figures: str | None = typer.Option(
        None, "--figures", help="Numbers with commas (7,8,9,10,11,12,13)."
    ),
    domains: int = typer.Option(128, "--domains", help="Scale-up domains of 8 GPUs."),
    size: str | None = typer.Option(
        None, "--size", help="What a GPU sends in one all-to-all (4 MiB; Mixtral: its phase's)."
    ),
    engine: str = typer.Option("packet", "--engine", help="Engine: packet or flow."),
    transport: str = typer.Option("spray", "--transport", help="Transport of the packet engine."),
    seed: int = typer.Option(1, "--seed", help="Seed of every random draw."),
    out: Path | None = typer.Option(None, "--out", help="Directory (results/reproduce-PAPER)."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Make the figures of a paper anew: pictures, tables, and its numbers beside ours.

    What an earlier call finished in the same directory is not run again, so that an interrupted one
    goes on.

    Example: lightloom reproduce rails --figures 7,11 --domains 16
    """
    from lightloom.cli import progress
    from lightloom.errors import InputError
    from lightloom.presets import unknown
    from lightloom.rails.figures import FIGURES
    from lightloom.rails.figures import reproduce as make

    if paper not in PAPERS:
        raise InputError(f'paper "{paper}": is not reproduced{unknown(paper, PAPERS)}')
    allowed = ", ".join(map(str, FIGURES))
    numbers = []
    for part in figures.split(",") if figures is not None else map(str, FIGURES):
        if not (part.strip().isascii() and part.strip().isdecimal()):
            raise InputError(f'--figures "{part}": must be a number; allowed: {allowed}')
        numbers.append(int(part))
        if numbers[-1] not in FIGURES:
            raise InputError(f"--figures {part.strip()}: is not made; allowed: {allowed}")
    chosen = tuple(dict.fromkeys(numbers))
    place = out or Path("results") / f"reproduce-{paper}"
    parts = len({name for number in chosen for name in FIGURES[number]})
    with progress.runs(parts) as on_progress:
        made = make(
            chosen, directory=place, domains=domains, size=size, engine=engine,
            transport=transport, seed=seed, on_progress=on_progress,
        )  # fmt: skip
    if as_json:
        print(json.dumps({"rows": made.rows, "table": made.table}, indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else 110, highlight=False)
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for heading in ("figure", "workload", "what", "RailS says", "here"):
        table.add_column(heading)
    for row in made.table:
        table.add_row(*row.values())
    console.print(table)
    console.print(f"\n{domains} domains x 8 GPUs; figures and tables in {made.directory}")
