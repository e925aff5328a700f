"""``lightloom railx``: build, route, map, price and simulate a grid of circuit switches."""

from __future__ import annotations

import typer

from lightloom.cli.railx import allocate, build, cost, decompose, map, simulate

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="A 2D grid of optical circuit switches whose rails form tori, HyperX and dragonflies.\n\n"
    "Example: lightloom railx build --mesh 4 --ports 2 --ocs 128 --topology hyperx",
)
for command in (build, map, simulate, cost, allocate, decompose):
    app.command(command.__name__.rpartition(".")[2])(command.run)
