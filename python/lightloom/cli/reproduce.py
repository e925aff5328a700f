"""``lightloom reproduce``: the figures of a paper, and its numbers beside ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from lightloom.papers import Paper

app = typer.Typer()


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
    from lightloom.errors import InputError
    from lightloom.papers import PAPERS, load
    from lightloom.presets import unknown

    if paper not in PAPERS:
        raise InputError(f'paper "{paper}": is not reproduced{unknown(paper, PAPERS)}')
    about = load(paper)
    known = (*(("tables",) if about.numbers("table") else ()), *about.options)
    given = {
        name: value
        for name, value in (
            ("domains", domains), ("size", size), ("engine", engine), ("transport", transport),
            ("seed", seed), ("sizes", sizes), ("effort", effort), ("tables", tables),
        )
        if value is not None
    }  # fmt: skip
    for name in given:
        if name not in known:
            allowed = ", ".join(f"--{option}" for option in ("figures", *known))
            raise InputError(f"--{name}: is no setting of {paper}'s figures; allowed: {allowed}")
    given.pop("tables", None)
    place = out or Path("results") / f"reproduce-{paper}"
    make(about, figures, tables, given, place, as_json=as_json)


def make(
    about: Paper,
    figures: str | None,
    tables: str | None,
    given: dict[str, Any],
    place: Path,
    *,
    as_json: bool,
) -> None:
    """Make figures and tables of a paper or a study in a directory, and print what they say."""
    from lightloom import progress
    from lightloom.papers import Reproduction

    work = Reproduction(
        about,
        None if figures is None else _numbers(figures, about.numbers("figure"), "--figures"),
        None if tables is None else _numbers(tables, about.numbers("table"), "--tables"),
        directory=place,
        **given,
    )
    with progress.runs(work.outstanding) as on_progress:
        made = work.make(on_progress)
    if as_json:
        print(json.dumps({"rows": made.rows, "table": made.table}, indent=2))
        return
    from lightloom import screen
    from lightloom.screen import Column

    console = screen.console()
    columns = [Column(heading, name=True) for heading in about.headings]
    screen.print_table(columns, [list(row.values()) for row in made.table], console)
    console.print()
    if about.timed:
        each = ", ".join(f"{name.split()[1]} {s:.0f}" for name, s in made.seconds.items())
        text = f"CPU seconds a figure, shared runs counted in each: {each}; {made.cpu_s:.0f} in all"
        console.print(text)
    console.print(f"{about.remark(given)} figures and tables in {made.directory}")


def _numbers(text: str, known: tuple[int, ...], option: str) -> tuple[int, ...]:
    from lightloom.errors import InputError

    allowed = ", ".join(map(str, known))
    numbers = []
    for part in text.split(","):
        if not (part.strip().isascii() and part.strip().isdecimal()):
            raise InputError(f'{option} "{part}": must be a number; allowed: {allowed}')
        numbers.append(int(part))
        if numbers[-1] not in known:
            raise InputError(f"{option} {part.strip()}: is not made; allowed: {allowed}")
    return tuple(dict.fromkeys(numbers))
