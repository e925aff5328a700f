"""``lightloom railx cost``."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from lightloom.railx.cost import Row


def run(
    chips: int | None = typer.Option(
        None, "--chips", help="Price a RailX of at least so many chips, instead of the paper's."
    ),
    scale: str | None = typer.Option(
        None, "--scale", help="Or one of columns x rows of nodes, such as 9x9."
    ),
    mesh: int | None = typer.Option(None, "--mesh", help="Its chips along a node's side [4]."),
    ports: int | None = typer.Option(None, "--ports", help="Its rail ports at a chip edge [9]."),
    ocs: int | None = typer.Option(None, "--ocs", help="Ports of an optical switch [128]."),
    packet_switch: float | None = typer.Option(
        None, "--packet-switch", help="Price of a 64-port packet switch [35000]."
    ),
    optical_switch: float | None = typer.Option(
        None, "--optical-switch", help="Price of an optical switch [35000]."
    ),
    copper: float | None = typer.Option(None, "--copper", help="Price of a copper cable [250]."),
    transceiver: float | None = typer.Option(
        None, "--transceiver", help="Price of a transceiver [1000]."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Price the networks of RailX's Tables 3 and 6, or a RailX of one's own beside others.

    Parts are counted from the shapes of the networks. Costs over bandwidth are relative to the
    first row. Prices are US dollars.

    Example: lightloom railx cost

    Example: lightloom railx cost --mesh 4 --ports 2 --ocs 128 --chips 1296
    """
    from lightloom.errors import InputError
    from lightloom.plan.terminal import console
    from lightloom.railx.cost import Prices, compare, table6

    prices = Prices.preset()
    for key, value in (
        ("packet_switch", packet_switch), ("optical_switch", optical_switch),
        ("copper_cable", copper), ("transceiver", transceiver),
    ):  # fmt: skip
        if value is not None:
            if not (math.isfinite(value) and 0 <= value <= 1e9):
                option = key.replace("_cable", "").replace("_", "-")
                raise InputError(f"--{option} {value:g}: must be a price from 0 to 1e9")
            prices = prices.with_price(key, value)
    if chips is None and scale is None:
        for option, value in (("mesh", mesh), ("ports", ports), ("ocs", ocs)):
            if value is not None:
                raise InputError(f"--{option} {value}: needs --chips or --scale beside it")
        rows = table6(prices)
    else:
        mesh, ports, ocs = (4 if mesh is None else mesh, 9 if ports is None else ports,
                            128 if ocs is None else ocs)  # fmt: skip
        columns, lines = _scale(chips, scale, mesh)
        try:
            rows = compare(
                mesh=mesh, ports=ports, ocs=ocs, columns=columns, rows=lines, prices=prices
            )
        except InputError as error:
            raise InputError(f"railx cost: {error}") from None
    if as_json:
        print(json.dumps({"rows": [row.as_json() for row in rows]}, indent=2))
        return
    screen = console()
    own = prices == Prices.preset()
    screen.print(table(rows, paper=own))
    screen.print()
    for line in notes(rows, paper=own):
        screen.print(line, style="dim", soft_wrap=True)


def _scale(chips: int | None, scale: str | None, mesh: int) -> tuple[int, int]:
    """Return columns and rows of nodes."""
    from lightloom.errors import InputError

    if scale is not None:
        if chips is not None:
            raise InputError(
                f'--scale "{scale}": --chips gives it already; allowed: one of the two'
            )
        found = re.fullmatch(r"([0-9]{1,6})x([0-9]{1,6})", scale.strip(), re.ASCII)
        if found is None:
            raise InputError(f'--scale "{scale}": must be columns x rows of nodes, such as 9x9')
        return int(found[1]), int(found[2])
    assert chips is not None  # one of the two is given
    if not 1 <= chips <= 1 << 22:
        raise InputError(f"--chips {chips}: must be from 1 to {1 << 22}")
    nodes = -(-chips // max(1, mesh) ** 2)
    columns = math.isqrt(nodes - 1) + 1
    return columns, -(-nodes // columns)


def table(rows: list[Row], *, paper: bool) -> Table:
    """Return the table; a cell that differs from the paper's is marked."""
    from rich.table import Table

    made = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    made.add_column("network", no_wrap=True)
    for heading in ("chips", "switches", "copper\nK", "optics\nK", "M$", "cost /\ninjected",
                    "cut\n%", "uniform\n%", "cost /\nglobal", "cost /\nuniform"):  # fmt: skip
        made.add_column(heading, justify="right", vertical="bottom")

    def cell(row: Row, column: str) -> str:
        ours = row.cell(column)
        return f"{ours}!" if paper and column in row.departures else ours

    for row in rows:
        parts = row.parts
        made.add_row(
            row.name, f"{parts.chips:,}", f"{parts.switches:,}", cell(row, "copper_k"),
            cell(row, "transceivers_k"), cell(row, "cost_musd"), cell(row, "per_injection"),
            f"{100 * parts.cut:.1f}{'*' if row.basis == 'cut' else ''}",
            f"{100 * parts.uniform:.1f}{'*' if row.basis == 'uniform' else ''}",
            cell(row, "per_global"), f"{row.per_uniform:.2f}",
        )  # fmt: skip
    return made


def notes(rows: list[Row], *, paper: bool) -> list[str]:
    """Return what is to be said below the table."""
    said = [
        "cut: what crosses the thinnest cut into halves; uniform: throughput of uniform traffic; "
        "both over injection, for large systems; * what RailX's tables call global bandwidth"
    ]
    said += [f"{row.name}: {row.parts.note}" for row in rows if row.parts.note]
    for row in rows if paper else ():
        for column, why in row.departures.items():
            heading = column.replace("_", " ")
            said.append(
                f"! {row.name}, {heading}: {row.cell(column)} follows, RailX prints "
                f"{row.paper[column]}: {why}"
            )
    return said
