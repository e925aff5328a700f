"""``lightloom railx simulate``."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from lightloom import kinds, presets
from lightloom.railx.traffics import PATTERNS

if TYPE_CHECKING:
    from rich.console import Console

    from lightloom.railx.flits import Simulated


def _preset(network: str) -> Mapping[str, Any]:
    known = network in presets.names("networks")
    return presets.load("networks", network).values if known else {}


def _key(name: str) -> Any:
    """Return the option that stands for a key of a RailX network."""
    (key,) = (key for key in kinds.family("network").kinds["railx"].keys if key.name == name)
    text = key.text.rstrip(".")
    if not isinstance(key.form, str) and "choice" in key.form:
        text += f": {', '.join(key.form['choice'])}"
    if (value := _preset("railx")["network"].get(name)) is not None:
        text += f" [{value}]"
    return typer.Option(None, f"--{name}", help=f"{text}.")


def _vcs() -> str:
    """List the virtual channels of a port unless told."""
    routers = ((kind, _preset(kind).get("router", {})) for kind in kinds.family("network").kinds)
    return "; ".join(["12", *(f"{kind} {router['vcs']}" for kind, router in routers if router)])


def _routings() -> str:
    """List the routings of every kind of network."""
    listed = kinds.family("network").kinds.values()
    return "; ".join(f"{kind.name}: {', '.join(kind.capabilities['routings'])}" for kind in listed)


def run(
    load: str = typer.Option(
        "0.1..1.0", "--load", help="Flits a cycle and chip: numbers, ranges such as 0.1..1.0:0.1."
    ),
    traffic: str = typer.Option(
        "uniform",
        "--traffic",
        help=f"{', '.join(PATTERNS[:-1])} or {PATTERNS[-1]}.",
    ),
    trace: Path | None = typer.Option(
        None, "--trace", metavar="FILE", help="A gating trace; its mean demand is the traffic."
    ),
    network: str = typer.Option("railx", "--network", help=f"{kinds.names('network')}."),
    set_: list[str] = typer.Option(
        [],
        "--set",
        metavar="KEY=VALUE",
        help="A key of the network, as in docs/specification.md; may be repeated.",
    ),
    mesh: int | None = _key("mesh"),
    ports: int | None = _key("ports"),
    ocs: int | None = _key("ocs"),
    topology: str | None = _key("topology"),
    scale: str | None = typer.Option(
        None, "--scale", help="Columns x rows: of RailX's nodes [the largest], routers or boards."
    ),
    inside: int | None = _key("inside"),
    routing: str | None = typer.Option(None, "--routing", help=f"{_routings()} [the first]."),
    vcs: int | None = typer.Option(None, "--vcs", help=f"Virtual channels of a port [{_vcs()}]."),
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

    Example: lightloom railx simulate --network torus --set sides=[6,6] --set lanes=4 --load 0.5
    """
    from lightloom import progress, screen
    from lightloom.cli.options import settings
    from lightloom.errors import InputError
    from lightloom.railx import flits, networks

    options = {"mesh": mesh, "ports": ports, "ocs": ocs, "topology": topology, "inside": inside}
    options |= _scale(network, scale) | {"routing": routing}
    given = [f"{key}={value}" for key, value in options.items() if value is not None]
    wired = networks.network(network, settings([*given, *set_]))
    if png is not None and not png.parent.is_dir():
        raise InputError(f"--png {png}: there is no directory {png.parent}")
    usual = {"vcs": 12, **_preset(network).get("router", {})}
    router = networks.Router(
        vcs=usual["vcs"] if vcs is None else vcs,
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


def _scale(network: str, text: str | None) -> dict[str, Any]:
    """Return columns and rows as the keys of a kind of network."""
    from lightloom.errors import InputError

    if text is None:
        return {}
    columns, _, rows = text.partition("x")
    if not (columns.isascii() and columns.isdecimal() and rows.isascii() and rows.isdecimal()):
        raise InputError(f'--scale "{text}": must be two numbers, such as 9x9')
    kind = kinds.family("network").kinds.get(network)
    if kind and "rows" in (key.name for key in kind.keys):
        return {"columns": columns, "rows": rows}
    return {"scale": f"[{int(columns)}, {int(rows)}]"}


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
