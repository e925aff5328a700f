"""``lightloom testbed railx``: the circuits and routes of a grid of RailX."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import typer

from lightloom.cli.testbed_jobs import JSON, NAME

if TYPE_CHECKING:
    from lightloom.testbed import Rewired


def railx(
    topology: str = typer.Argument(..., metavar="TOPOLOGY", help="torus or hyperx."),
    lost: list[str] = typer.Option(
        [], "--lost", help="A node that no circuit may end at, as node-04; may be given again."
    ),
    jobs: str = typer.Option(
        "largest",
        "--jobs",
        help="Jobs to place: columns x rows (2x3), nodes (4), or largest; *2 for two.",
    ),
    name: str = NAME,
    as_json: bool = JSON,
) -> None:
    """Set the grid of `up --railx` to a topology, around nodes that are lost.

    RailX's own planner places jobs; port maps as of `lightloom railx build` go to all switches of
    rows and columns by `lightloom controller load`, over TL1; and nodes are told their routes. What
    stands and is wanted is not touched. The maps are beside the testbed's record: maps.json.

    Example: lightloom testbed railx torus --lost node-04 --jobs "largest*2"
    """
    from lightloom import testbed as beds
    from lightloom.railx.faults import read_jobs
    from lightloom.testbed import rootless

    rootless.enter(name)
    done = beds.rewire(
        name, topology, lost, read_jobs(jobs), lambda line: print(line, file=sys.stderr)
    )
    print(json.dumps(done.said(), indent=2) if as_json else _text(name, done))


def _text(name: str, done: Rewired) -> str:
    kept = done.circuits - done.set
    lines = [
        f"{name} is a {done.network.topology}: {done.circuits} circuits stand,"
        f" {done.set} set, {done.ended} ended, {kept} kept; controller"
        f" {done.load_seconds * 1e3:,.0f} ms, routes {done.routes_seconds * 1e3:,.0f} ms"
    ]
    for number, job in enumerate(done.network.jobs):
        nodes = ", ".join(map(str, job.nodes))
        lines.append(
            f"job {number}: {len(job.columns)} x {len(job.rows)} nodes: {nodes};"
            f" {done.lanes[number]} lanes between two nodes"
        )
    return "\n".join(lines)
