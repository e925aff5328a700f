"""``lightloom reproduce``: the figures of a paper, and its numbers beside ours."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

app = typer.Typer()
# The options of each paper that the other's figures know nothing of.
PAPERS = {
    "rails": ("domains", "size", "engine", "transport", "seed"),
    "swot": ("sizes", "effort"),
    "railx": ("tables",),
    "mixnet": (),
}


@app.command()
def reproduce(
    paper: str = typer.Argument(..., metavar="PAPER", help="mixnet, rails, swot or railx."),
    figures: str | None = typer.Option(
        None,
        "--figures",
        help="Numbers with commas: mixnet 2 to 28 (those with data), rails 7 to 13, swot 7 to 11, "
        "railx 14 to 17 (all).",
    ),
    tables: str | None = typer.Option(
        None,
        "--tables",
        help="railx: numbers with commas of 2, 3, 6 (all, or none with --figures).",
    ),
    domains: int | None = typer.Option(
        None, "--domains", help="rails: scale-up domains of 8 GPUs (128)."
    ),
    size: str | None = typer.Option(
        None, "--size", help="rails: what a GPU sends in an all-to-all (4 MiB; Mixtral: its own)."
    ),
    engine: str | None = typer.Option(None, "--engine", help="rails: packet or flow (packet)."),
    transport: str | None = typer.Option(
        None, "--transport", help="rails: transport of the packet engine (spray)."
    ),
    seed: int | None = typer.Option(None, "--seed", help="rails: seed of every random draw (1)."),
    sizes: str | None = typer.Option(
        None, "--sizes", help="swot: buffers of a node with commas (256KB to 1GB, doubling)."
    ),
    effort: str | None = typer.Option(
        None, "--effort", help="swot: quick, normal or thorough (normal)."
    ),
    out: Path | None = typer.Option(None, "--out", help="Directory (results/reproduce-PAPER)."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Make the figures of a paper anew: pictures, tables, and its numbers beside ours.

    What an earlier call finished in the same directory is not run again, so that an interrupted one
    goes on.

    Example: lightloom reproduce mixnet --figures 11,18

    Example: lightloom reproduce rails --figures 7,11 --domains 16

    Example: lightloom reproduce swot --figures 8

    Example: lightloom reproduce railx --tables 3,6
    """
    from lightloom.errors import InputError, Interrupted
    from lightloom.presets import unknown

    if paper not in PAPERS:
        raise InputError(f'paper "{paper}": is not reproduced{unknown(paper, tuple(PAPERS))}')
    given = {
        name: value
        for name, value in (
            ("domains", domains), ("size", size), ("engine", engine), ("transport", transport),
            ("seed", seed), ("sizes", sizes), ("effort", effort), ("tables", tables),
        )
        if value is not None
    }  # fmt: skip
    for name in given:
        if name not in PAPERS[paper]:
            allowed = ", ".join(f"--{option}" for option in ("figures", *PAPERS[paper]))
            raise InputError(f"--{name}: is no setting of {paper}'s figures; allowed: {allowed}")
    place = out or Path("results") / f"reproduce-{paper}"
    make = {"rails": _rails, "swot": _swot, "railx": _railx, "mixnet": _mixnet}[paper]
    try:
        made, says, end = make(figures, place, given)
    except KeyboardInterrupt as error:
        if place.exists():
            kept = f"what was finished is kept in {place}; the same command goes on from there"
            raise Interrupted(kept) from error
        raise
    if as_json:
        print(json.dumps({"rows": made.rows, "table": made.table}, indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else 110, highlight=False)
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for heading in says:
        table.add_column(heading)
    for row in made.table:
        table.add_row(*row.values())
    console.print(table)
    console.print(f"\n{end} figures and tables in {made.directory}")


# What was made, the headings of its table, and what is said below it.
_Made = tuple[Any, Sequence[str], str]


def _rails(figures: str | None, place: Path, given: Mapping[str, Any]) -> _Made:
    from lightloom.cli import progress
    from lightloom.papers.rails.compared import FIGURES, HEADINGS
    from lightloom.papers.rails.compared import reproduce as make

    chosen = _numbers(figures, FIGURES)
    parts = len({name for number in chosen for name in FIGURES[number]})
    with progress.runs(parts) as on_progress:
        made = make(chosen, directory=place, on_progress=on_progress, **given)
    end = f"{given.get('domains', 128)} domains x 8 GPUs;"
    return made, HEADINGS, end


def _swot(figures: str | None, place: Path, given: Mapping[str, Any]) -> _Made:
    from lightloom.cli import progress
    from lightloom.papers.swot.points import panels
    from lightloom.plan.job import quantity
    from lightloom.swot.figures import FIGURES, HEADINGS
    from lightloom.swot.figures import reproduce as make
    from lightloom.units import Size

    chosen = _numbers(figures, FIGURES)
    settings = dict(given)
    if "sizes" in given:
        read = (quantity("sizes", part.strip(), Size) for part in given["sizes"].split(","))
        settings["sizes"] = sorted(set(map(int, read)))
    with progress.runs(len(panels(chosen))) as on_progress:
        made = make(chosen, directory=place, on_progress=on_progress, **settings)
    end = "800 Gbps a node, 200 us to switch and 5 us of latency where nothing else is said;"
    return made, HEADINGS, end


def _railx(figures: str | None, place: Path, given: Mapping[str, Any]) -> _Made:
    from lightloom.cli import progress
    from lightloom.railx.figures import FIGURES, HEADINGS, TABLES, parts
    from lightloom.railx.figures import reproduce as make

    tables: str | None = given.get("tables")
    chosen = None if figures is None else _numbers(figures, FIGURES)
    wanted = None if tables is None else _numbers(tables, TABLES, "--tables")
    with progress.runs(parts(chosen, wanted)) as on_progress:
        made = make(chosen, wanted, directory=place, on_progress=on_progress)
    end = "docs/railx.md explains departures;"
    return made, HEADINGS, end


def _mixnet(figures: str | None, place: Path, given: Mapping[str, Any]) -> _Made:
    from lightloom.cli import progress
    from lightloom.papers.frame import FIGURES, HEADINGS, outstanding
    from lightloom.papers.frame import reproduce as make

    chosen = _numbers(figures, FIGURES)
    with progress.runs(outstanding(chosen, place)) as on_progress:
        made = make(chosen, directory=place, on_progress=on_progress)
    each = ", ".join(f"{number} {seconds:.0f}" for number, seconds in made.seconds.items())
    end = f"CPU seconds a figure, shared runs counted in each: {each}; {made.cpu_s:.0f} in all\n"
    return made, HEADINGS, f"{end}docs/validation.md explains departures;"


def _numbers(
    figures: str | None, known: Iterable[int], option: str = "--figures"
) -> tuple[int, ...]:
    from lightloom.errors import InputError

    known = tuple(known)
    allowed = ", ".join(map(str, known))
    numbers = []
    for part in figures.split(",") if figures is not None else map(str, known):
        if not (part.strip().isascii() and part.strip().isdecimal()):
            raise InputError(f'{option} "{part}": must be a number; allowed: {allowed}')
        numbers.append(int(part))
        if numbers[-1] not in known:
            raise InputError(f"{option} {part.strip()}: is not made; allowed: {allowed}")
    return tuple(dict.fromkeys(numbers))
