"""``lightloom railx simulate``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from lightloom.railx.flits import Simulated


def run(
    load: str = typer.Option(
        "0.1..1.0", "--load", help="Flits a cycle and chip: numbers, ranges such as 0.1..1.0:0.1."
    ),
    traffic: str = typer.Option(
        "uniform",
        "--traffic",
        help="uniform, uniform-self, all-to-all, complement, transpose, shift, permutation, "
        "hot-spot or ring.",
    ),
    trace: Path | None = typer.Option(
        None, "--trace", metavar="FILE", help="A gating trace; its mean demand is the traffic."
    ),
    network: str = typer.Option("railx", "--network", help="railx, or mesh (see --scale)."),
    mesh: int = typer.Option(4, "--mesh", help="Chips along each side of a node's mesh (m)."),
    ports: int = typer.Option(2, "--ports", help="Rail ports at an outer chip edge (n)."),
    ocs: int = typer.Option(128, "--ocs", help="Ports of an optical switch (R)."),
    topology: str = typer.Option("hyperx", "--topology", help="torus, hyperx or dragonfly."),
    scale: str | None = typer.Option(
        None, "--scale", help="Columns x rows of nodes, or of routers of a mesh [the largest; 8x8]."
    ),
    inside: int | None = typer.Option(
        None, "--inside", help="Flits a cycle of a mesh link [4 x ports; a mesh 1]."
    ),
    routing: str | None = typer.Option(
        None, "--routing", help="deterministic, adaptive, non-minimal or bubble [deterministic]."
    ),
    vcs: int | None = typer.Option(
        None, "--vcs", help="Virtual channels of a port [12; a mesh 4]."
    ),
    buffer: int = typer.Option(16, "--buffer", help="Flits that a virtual channel holds."),
    packet: int = typer.Option(4, "--packet", help="Flits of a packet."),
    credits_: str = typer.Option("ideal", "--credits", help="ideal, or link (they travel back)."),
    arbitration: str = typer.Option("round-robin", "--arbitration", help="round-robin or oldest."),
    injection: int = typer.Option(8, "--injection", help="Flits a cycle that a chip may send."),
    ejection: int = typer.Option(8, "--ejection", help="Flits a cycle that a chip may take."),
    pipeline: int = typer.Option(0, "--pipeline", help="More cycles in every router."),
    warm_up: int = typer.Option(5_000, "--warm-up", help="Cycles before anything is measured."),
    cycles: int = typer.Option(10_000, "--cycles", help="Cycles in all."),
    hot: str = typer.Option("1:0.1", "--hot", help="Of hot-spot: chips, and their share."),
    seed: int = typer.Option(1, "--seed", help="Of every random draw."),
    threads: int = typer.Option(1, "--threads", help="The result is the same for any number."),
    png: Path | None = typer.Option(None, "--png", metavar="FILE", help="Draw the curve."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Load a network with packets, flit by flit: latency and what gets through.

    Example: lightloom railx simulate --traffic uniform --load 0.1..1.0 --scale 9x9

    Example: lightloom railx simulate --network mesh --scale 8x8 --load 0.1..0.5:0.05 --credits link
    """
    from lightloom import progress, screen
    from lightloom.errors import InputError
    from lightloom.railx import flits

    places = _pair("--scale", scale, "x") if scale else None
    if network == "mesh":
        columns, rows = places or (8, 8)
        wired: flits.Network = flits.Mesh(
            columns, rows, inside or 1, routing=routing or "dimension-order"
        )
    elif network == "railx":
        wired = flits.Railx(
            mesh, ports, ocs, topology, places, inside if inside is not None else 4 * ports,
            routing or "deterministic",
        )  # fmt: skip
    else:
        raise InputError(f'--network "{network}": must be railx or mesh')
    if png is not None and not png.parent.is_dir():
        raise InputError(f"--png {png}: there is no directory {png.parent}")
    router = flits.Router(
        vcs=vcs if vcs is not None else (4 if network == "mesh" else 12),
        buffer=buffer, packet=packet, credits=credits_, arbitration=arbitration,
        injection=injection, ejection=ejection, pipeline=pipeline, warm_up=warm_up, cycles=cycles,
        seed=seed,
    )  # fmt: skip
    spot = hot.partition(":")
    try:
        heat = (int(spot[0]), float(spot[2] or "nan"))
    except ValueError:
        raise InputError(f'--hot "{hot}": must be chips:share, such as 4:0.2') from None
    try:
        loads = flits.parse_loads(load)
        with progress.runs(1) as on_progress:
            made = flits.simulate(
                wired, loads, traffic=traffic, router=router, hot=heat, trace=trace,
                threads=threads, on_progress=lambda share: on_progress("simulate", share),
            )  # fmt: skip
    except InputError as error:
        raise InputError(f"railx simulate: {error}") from None
    if png is not None:
        from lightloom.railx.flit_plots import curve

        curve(made, png)
        print(f"wrote {png}", file=sys.stderr)
    if as_json:
        print(json.dumps(made.as_json(), indent=2))
        return
    _show(made, screen.console())


def _pair(option: str, text: str, between: str) -> tuple[int, int]:
    from lightloom.errors import InputError

    first, _, second = text.partition(between)
    if not (first.isascii() and first.isdecimal() and second.isascii() and second.isdecimal()):
        raise InputError(f'{option} "{text}": must be two numbers, such as 9{between}9')
    return int(first), int(second)


def _show(made: Simulated, out: Console) -> None:
    from lightloom import screen

    router = made.router
    out.print(
        f"{made.chips:,} chips, {made.traffic} traffic, {router.vcs} virtual channels of "
        f"{router.buffer} flits, credits {router.credits}, {router.arbitration}, "
        f"{router.cycles - router.warm_up:,} cycles measured\n",
        soft_wrap=True,
    )
    rows = [
        [f"{point.offered:.3f}", f"{point.accepted:.3f}", f"{point.mean_latency:,.1f}",
         f"{point.p99_latency:,}", f"{point.least_latency:,}", f"{point.mean_hops:.2f}",
         f"{point.busiest:.0%}", "unstable" if point.unstable else ""]
        for point in made.points
    ]  # fmt: skip
    headings = ("offered", "accepted", "latency", "99 %", "least", "hops", "busiest", "")
    screen.print_table(headings, rows, out)
    hops = sum(point.flit_hops for point in made.points)
    out.print(
        f"\nLoads in flits a cycle and chip, latencies in cycles. Most accepted: "
        f"{made.saturation:.3f}; {hops / 1e6:,.1f} million flit-hops.",
        soft_wrap=True,
    )
