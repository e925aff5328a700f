"""``lightloom railx build``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from lightloom.railx.topology import Built, Checked


def run(
    mesh: int = typer.Option(..., "--mesh", help="Chips along each side of a node's mesh (m)."),
    ports: int = typer.Option(..., "--ports", help="Rail ports at an outer chip edge (n)."),
    ocs: int = typer.Option(..., "--ocs", help="Ports of an optical switch (R); even."),
    topology: str = typer.Option(
        ..., "--topology", help="torus, hyperx, dragonfly, or split (see --x and --y)."
    ),
    scale: str | None = typer.Option(
        None, "--scale", help="Columns x rows of nodes, such as 9x9 [the largest]."
    ),
    global_ocs: int | None = typer.Option(
        None, "--global-ocs", help="Ports of the switches of rows, if not as --ocs."
    ),
    x: str | None = typer.Option(
        None,
        "--x",
        help="Parts of a row, such as ring:3*1,all:3*1: wiring, nodes, rails of a chip edge.",
    ),
    y: str | None = typer.Option(None, "--y", help="Parts of a column."),
    uneven: bool = typer.Option(
        False, "--uneven", help="Rails of parts are counted for the node, not for a chip edge."
    ),
    out: Path | None = typer.Option(
        None, "--out", metavar="FILE", help="Write every switch's port map there (JSON)."
    ),
    check_routing: str | None = typer.Option(
        None,
        "--check-routing",
        help="Follow every packet, for deadlock: deterministic, adaptive, non-minimal or bubble.",
    ),
    vcs: int = typer.Option(12, "--vcs", help="Virtual channels that it may use."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Set the circuits of a topology, and measure it beside the paper's formulas.

    Example: lightloom railx build --mesh 4 --ports 2 --ocs 128 --topology hyperx --out maps.json
    """
    from lightloom.errors import InputError
    from lightloom.railx.topology import build
    from lightloom.screen import console

    if out is not None and not out.parent.is_dir():
        raise InputError(f"--out {out}: there is no directory {out.parent}")
    if out is not None and out.is_dir():
        raise InputError(f"--out {out}: is a directory; must be a file")
    try:
        built = build(
            topology, mesh=mesh, ports=ports, ocs=ocs, global_ocs=global_ocs, scale=scale,
            x=x, y=y, uneven=uneven, maps=out is not None, check_routing=check_routing, vcs=vcs,
        )  # fmt: skip
    except InputError as error:
        raise InputError(f"railx build: {error}") from None
    if out is not None:
        built.port_maps().write(out)
        print(f"wrote {out}", file=sys.stderr)
    if as_json:
        print(json.dumps(built.as_json(), indent=2))
        return
    screen = console()
    screen.print(f"{_head(built)}\n", soft_wrap=True)
    _print_measures(built, screen)
    if built.measures.mesh_load is not None:
        screen.print()
        _print_widths(built, screen)
    if built.checked is not None:
        screen.print(f"\n{_checked(built.checked)}", soft_wrap=True)
    for note in built.notes:
        screen.print(f"note: {note}", style="dim", soft_wrap=True)


def _head(built: Built) -> str:
    radix = f"{built.ocs} ports"
    if built.global_ocs != built.ocs:
        radix = f"{built.global_ocs} (rows) and {built.ocs} (columns) ports"
    lines = [
        f"{built.topology}: {built.columns} x {built.rows} nodes of {built.mesh} x {built.mesh} "
        f"chips, {built.rails} rails each way",
        f"{built.chips:,} chips, {built.nodes:,} nodes, {built.switches:,} switches of {radix}, "
        f"{built.circuits:,} circuits",
    ]
    if built.topology == "split":
        for part in built.dimensions or []:
            wiring = "ring" if part["wiring"] == "ring" else "all to all"
            lines.append(
                f"  {part['axis']}: {part['scale']} nodes, {wiring}, {len(part['rails'])} rails, "
                f"{part['stride']} apart"
            )
    return "\n".join(lines)


def _print_measures(built: Built, out: Console) -> None:
    from lightloom.screen import Column, print_table

    found, paper = built.measures, built.formulas
    rows: list[tuple[str, float | int | None, float | int | None]] = [
        ("chips", built.chips, paper.chips if paper else None),
        ("diameter, optical hops", found.diameter, paper.diameter if paper else None),
        ("bisection, circuits", found.bisection_circuits, None),
        ("throughput by the cut", found.cut_throughput, paper.throughput if paper else None),
        ("throughput by rails, all alike", found.throughput(even=True), None),
        ("throughput by rails, nearest exit", found.throughput(), None),
    ]
    table = [(name, _number(here), _number(there)) for name, here, there in rows]
    print_table((Column("", name=True), "on the graph", "RailX, Table 2"), table, out)


def _checked(found: Checked) -> str:
    circles = "no cycle"
    if found.bubbles:
        circles = f"no cycle but {found.bubbles:,} rings that bubbles keep moving"
    return (
        f"{found.routing} routing with {found.vcs} virtual channels a port is free of deadlock: "
        f"{found.dependencies:,} dependencies among {found.channels:,} virtual channels, "
        f"{circles}; at most {found.hops} hops"
    )


def _print_widths(built: Built, out: Console) -> None:
    """Print throughputs by the width of mesh links."""
    from lightloom.screen import print_table

    rows = [
        [str(k), *(_number(built.measures.throughput(width)) for width in (k, k * built.ports))]
        for k in (1, 2, 4)
    ]
    headings = ("mesh link\nover rail, k", "throughput,\nk a link", "throughput,\nk n a link")
    print_table(headings, rows, out)


def _number(value: float | int | None) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:#.4g}"
