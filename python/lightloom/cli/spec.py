"""``lightloom spec``: what a specification means, value by value, and what there is to choose."""

from __future__ import annotations

import json
import sys
from itertools import groupby
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from lightloom.resolve import Resolved

app = typer.Typer(no_args_is_help=True)


@app.callback()
def spec() -> None:
    """Show what a specification means, value by value.

    Example: lightloom spec resolve mixtral-8x7b --sources
    """


@app.command()
def resolve(
    job: str = typer.Argument(
        metavar="FILE", help="A specification (TOML), a config.json, or the name of a model preset."
    ),
    settings: list[str] = typer.Option(
        [], "--set", metavar="KEY=VALUE", help="Change one value; may be repeated."
    ),
    sources: bool = typer.Option(False, "--sources", help="Add who published each figure."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON, with sources."),
    as_toml: bool = typer.Option(False, "--toml", help="Print a specification that runs again."),
) -> None:
    """Print every effective value of a specification and where it came from.

    On a terminal the model's parameters are above them; --json has them too.

    Example: lightloom spec resolve job.toml --set fabric.link_bandwidth="100 Gbps"

    Example, to see where each value is from: lightloom spec resolve mixtral-8x7b --sources
    """
    from lightloom.cli import options
    from lightloom.errors import InputError
    from lightloom.gating import load_trace
    from lightloom.resolve import load_job

    if as_json and as_toml:
        raise InputError("--json and --toml: cannot stand together; allowed: one of the two")
    resolved = load_job(job, options.settings(settings), override_label="command line")
    if resolved.scenario.gating.trace != "builtin":
        load_trace(resolved.scenario)  # a trace that does not fit is an error of the specification
    if as_toml:
        print(resolved.scenario.to_toml(), end="")
    elif as_json:
        print(json.dumps(_as_json(resolved), indent=2, ensure_ascii=False))
    else:
        _print(resolved, sources)


@app.command()
def presets(
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """List the presets that a specification can name.

    Example: lightloom spec presets
    """
    from lightloom import presets as data

    kinds = {
        "model.preset": "models",
        "compute.gpu": "gpus",
        "compute.table": "compute",
        "fabric.preset": "fabrics",
        "fabric.ocs.device": "devices",
        "cluster.host.preset": "hosts",
        "prices.preset": "prices",
        "power.preset": "power",
        "money.preset": "money",
    }
    names = {key: list(data.names(kind)) for key, kind in kinds.items()}
    if as_json:
        print(json.dumps(names, indent=2))
    else:
        from lightloom import screen
        from lightloom.screen import Column

        rows = [(key, ", ".join(values)) for key, values in names.items()]
        columns = (Column("", left=True), Column("", name=True))
        screen.print_table(columns, rows, screen.console())


def _as_json(resolved: Resolved) -> dict[str, object]:
    return {
        "scenario": resolved.scenario.to_tree(),
        "parameters": resolved.scenario.model.parameters()._asdict(),
        "values": [
            {"key": key, "value": value, "origin": origin.layer, "source": origin.source}
            for key, value, origin in resolved.rows()
        ],
    }


def _parameters(resolved: Resolved) -> str:
    """Say how many parameters the model has."""
    total, active, embedding = (count / 1e9 for count in resolved.scenario.model.parameters())
    return (
        f"{total:.2f} billion parameters, {active:.2f} of them active a token "
        f"({active - embedding:.2f} without the embedding)"
    )


def _print(resolved: Resolved, sources: bool) -> None:
    from lightloom.toml_text import value_text

    if not sys.stdout.isatty():  # whole lines without colour, for grep and diff
        for key, value, (layer, source) in resolved.rows():
            note = f": {source}" if sources and source else ""
            print(f"{key} = {value_text(value)}  # {layer}{note}")
        return
    from rich.text import Text

    from lightloom import screen
    from lightloom.screen import Column

    console = screen.console()
    console.print(Text(resolved.scenario.title, style="bold"))
    console.print(Text(_parameters(resolved), style="dim"))
    table: list[list[Text] | None] = []
    for section, rows in groupby(resolved.rows(), key=lambda row: row[0].partition(".")[0]):
        table.append(None)
        for key, value, (layer, source) in rows:
            name = Text.assemble((section, "bold"), key.removeprefix(section))
            # Narrow terminals: a path below presets/ speaks for itself.
            origin = Text(layer.removeprefix("preset "), style="dim" if layer == "default" else "")
            if sources and source:
                origin.append(f": {source}", style="dim")
            many = isinstance(value, list) and any(isinstance(item, dict) for item in value)
            shown = f"({len(value)} entries)" if many else value_text(value)
            table.append([name, Text(shown, style="cyan"), origin])
    columns = (Column("", left=True), Column("", name=True), Column("", name=True))
    screen.print_table(columns, table, console)
