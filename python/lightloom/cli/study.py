"""``lightloom study``: questions about fabrics that no paper answers."""

from __future__ import annotations

from pathlib import Path

import typer

app = typer.Typer()


@app.command()
def study(
    name: str = typer.Argument(
        ..., metavar="STUDY", help="reconfiguration, ingredients or constants."
    ),
    figures: str | None = typer.Option(None, "--figures", help="Numbers with commas (all)."),
    tables: str | None = typer.Option(None, "--tables", help="Numbers with commas (all)."),
    out: Path | None = typer.Option(None, "--out", help="Directory (results/study-STUDY)."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Run a study: pictures, tables, and what follows.

    reconfiguration: when circuits that change pay, over the skew of demand, the delay of the switch
    and the time that a layer computes.

    ingredients: what delegation, optics, reconfiguration, prediction and hysteresis give MixNet,
    each on and off: four models, two rates, three demands.

    constants: what constants without an outside source decide, each halved and doubled.

    What an earlier call finished in the same directory is not run again, so that an interrupted one
    goes on.

    Example: lightloom study reconfiguration --figures 1
    """
    from lightloom.cli import reproduce
    from lightloom.errors import InputError
    from lightloom.papers import load
    from lightloom.presets import unknown
    from lightloom.studies import STUDIES

    if name not in STUDIES:
        raise InputError(f'study "{name}": there is none{unknown(name, STUDIES)}')
    place = out or Path("results") / f"study-{name}"
    about = load(name, "lightloom.studies")
    reproduce.make(about, figures, tables, {}, place, as_json=as_json)
