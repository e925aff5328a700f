"""``lightloom railx cost``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from lightloom.railx.cost import Row


def run(
    chips: int | None = typer.Option(
        None, "--chips", help="Price every system at this size [those of RailX's Table 6]."
    ),
    mesh: str | None = typer.Option(
        None, "--mesh", help="With --chips: sides of HammingMesh's boards and RailX's nodes [4,7]."
    ),
    ports: int | None = typer.Option(
        None, "--ports", help="With --chips: ports of a chip, a multiple of 12 [36]."
    ),
    prices: str | None = typer.Option(
        None, "--prices", help="Prices of parts: a preset [railx-table-6]."
    ),
    settings: list[str] = typer.Option(
        [], "--set", metavar="KEY=VALUE",
        help="Change one: switch_usd, switch_ports, ocs_usd, ocs_ports, copper_usd, "
        "transceiver_usd. May be repeated.",
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:  # fmt: skip
    """Count and price switches, copper cables and transceivers of RailX and other networks.

    Example: lightloom railx cost

    Example: lightloom railx cost --chips 100000 --set ocs_ports=320 --set ocs_usd=90000
    """
    from lightloom import screen
    from lightloom.cli import options
    from lightloom.errors import InputError
    from lightloom.railx.cost import PRICES, Components, at_scale, table6

    components = Components.load(PRICES if prices is None else prices, options.settings(settings))
    without: list[str] = []
    if chips is None:
        for name, value in (("--mesh", mesh), ("--ports", ports)):
            if value is not None:
                raise InputError(f"{name} {value}: goes with --chips only")
        rows = table6(components)
    else:
        meshes = _meshes("4,7" if mesh is None else mesh)
        given = 36 if ports is None else ports
        rows, without = at_scale(chips, meshes=meshes, ports=given, components=components)
    if as_json:
        document = {
            "prices": {"name": components.name, "link_rate": components.link_rate}
            | {key: {"value": getattr(components, key), "source": source}
               for key, source in components.sources.items() if key.endswith(("_usd", "_ports"))},
            "rows": [row.as_json() for row in rows],
            "without": without,
        }  # fmt: skip
        print(json.dumps(document, indent=2))
        return
    out = screen.console()
    own = ", some given" if "given" in components.sources.values() else ""
    out.print(
        f'{components.link_rate} links; prices "{components.name}"{own}; relative to '
        f"{rows[0].name}\nuniform: throughput over injection; cut: into halves\n",
        soft_wrap=True,
    )
    _print_table(rows, out)
    notes = [
        *_departures(rows),
        *(f"{row.name}: {note}" for row in rows for note in row.notes),
        *without,
    ]
    for note in notes:
        out.print(f"note: {note}", style="dim", soft_wrap=True)


_HEADS = {
    "chips": "chips", "switches": "switches", "copper_k": "copper\n[1000]",
    "transceivers_k": "transc.\n[1000]", "musd": "cost\n[M$]",
    "per_injection": "cost /\ninject.", "bandwidth": "global\n[%]",
    "per_bandwidth": "cost /\nglobal",
}  # fmt: skip


def _print_table(rows: Sequence[Row], out: Console) -> None:
    """Print Table 6; what the paper calls global bandwidth stands beside our two measures."""
    from lightloom import screen
    from lightloom.screen import Column

    beside = any(row.paper for row in rows)
    heads = dict(_HEADS) if beside else {k: v for k, v in _HEADS.items() if k != "bandwidth"}
    ranks = {"copper_k": 5, "transceivers_k": 4, "switches": 3, "bandwidth": 2, "chips": 1}
    columns = [
        Column("", name=True),
        *(Column(heading, rank=ranks.get(c, 0)) for c, heading in heads.items()),
        Column("uniform\n[%]"), Column("cut\n[%]"),
    ]  # fmt: skip
    table = []
    for row in rows:
        cells = [row.printed(c) + ("*" if c in row.departures else "") for c in heads]
        measures = (f"{100 * float(share):.3g}" for share in (row.system.uniform, row.system.cut))
        table.append([row.name, *cells, *measures])
    screen.print_table(columns, table, out)


def _departures(rows: Sequence[Row]) -> list[str]:
    """Return what the paper prints where a cell is marked, and why it does not follow."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for column, why in row.departures.items():
            head = _HEADS[column].partition("\n[")[0].replace("\n", " ")
            found.setdefault((row.name, why), []).append(f"{head} {row.paper[column]}")
    return [
        f"* {name}: RailX prints {', '.join(cells)}: {why}" for (name, why), cells in found.items()
    ]


def _meshes(text: str) -> list[int]:
    from lightloom.errors import InputError

    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdecimal() and len(part) < 5 for part in parts):
        raise InputError(f"--mesh {text}: must be numbers with commas, such as 4,7")
    return list(dict.fromkeys(map(int, parts)))
