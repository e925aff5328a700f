"""``lightloom testbed plan``: plans of collectives carried out with bytes on optical planes."""

from __future__ import annotations

import json
import sys
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from lightloom.cli.testbed_jobs import CHUNK, JSON, NAME, parsed_bytes, parsed_chunk

if TYPE_CHECKING:
    from lightloom.testbed import Measured
    from lightloom.units import Time


def plan(
    kinds: str = typer.Argument(
        "alltoall", metavar="KIND", help="alltoall or allreduce, or several in turn, with commas."
    ),
    size: str = typer.Option("2 MB", "--size", help="A node's buffer."),
    algorithm: str | None = typer.Option(
        None,
        "--algorithm",
        help="As of `lightloom plan collective` (pairwise-alltoall, rabenseifner-allreduce).",
    ),
    scheduler: str = typer.Option(
        "swot,lockstep", "--scheduler", help="Who plans: swot, lockstep, or both in turn."
    ),
    files: list[Path] = typer.Option(
        [],
        "--plan",
        metavar="FILE",
        help="A plan in place of one that is made here; one for each KIND, in this order.",
    ),
    rounds: int = typer.Option(5, "--rounds", help="How often each plan is carried out."),
    reconfiguration: str | None = typer.Option(
        None, "--reconfiguration", help="What plans say that a change takes (it is measured)."
    ),
    latency: str | None = typer.Option(
        None, "--latency", help="What plans say beyond bytes (it is measured)."
    ),
    chunk: str | None = CHUNK,
    name: str = NAME,
    as_json: bool = JSON,
) -> None:
    """Plan collectives of all servers, carry the plans out on `up --planes`, check every byte.

    The plan's controller sets circuits, nodes send what the plan says once they stand. Measured
    times are beside planned ones, lockstep beside SWOT. A plan that does not fit is refused. If one
    cannot be carried on, what is left takes packet NICs, that is said, and the exit code is 1.

    Example: lightloom testbed plan alltoall,allreduce --size "2 MB"
    """
    from lightloom import testbed as beds
    from lightloom.errors import RunError
    from lightloom.plan import read
    from lightloom.testbed import rootless

    rootless.enter(name)
    wanted = beds.Wanted(
        kinds=tuple(kinds.split(",")), size_bytes=parsed_bytes("--size", size),
        algorithm=algorithm, schedulers=tuple(scheduler.split(",")), rounds=rounds,
        reconfiguration=_time("--reconfiguration", reconfiguration),
        latency=_time("--latency", latency), plans=tuple(read(file) for file in files),
        chunk_bytes=parsed_chunk(chunk),
    )  # fmt: skip
    found = beds.carried_plans(name, wanted, lambda line: print(line, file=sys.stderr))
    gains = _gains(found)
    if as_json:
        print(json.dumps({"plans": [row.said() for row in found], "gains": gains}, indent=2))
    else:
        _show(found, gains)
    left = [f"{row.kind} by {row.scheduler}: {why}" for row in found for why in row.without]
    if left:
        raise RunError(
            f"all bytes are right, and not all went by plan: {'; '.join(dict.fromkeys(left))}"
        )


def _time(flag: str, text: str | None) -> Time | None:
    from lightloom.errors import InputError
    from lightloom.units import Time

    try:
        return None if text is None else Time.parse(text)
    except ValueError as error:
        raise InputError(f"{flag}: {text}: {error}") from None


def _gains(found: list[Measured]) -> list[dict[str, Any]]:
    """Return what SWOT saves over lockstep, as planned and as measured."""
    gains = []
    for kind, rows in groupby(found, lambda row: row.kind):
        by = {row.scheduler: row for row in rows}
        if set(by) != {"swot", "lockstep"}:
            continue
        planned = by["lockstep"].planned_seconds - by["swot"].planned_seconds
        measured = by["lockstep"].seconds - by["swot"].seconds
        share = measured / planned if planned > 0 else None
        gains.append(
            {"kind": kind, "planned_seconds": planned, "seconds": measured, "of_planned": share}
        )
    return gains


def _show(found: list[Measured], gains: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(
        "collective", "plan", "change ms", "least step ms", "planned ms", "ms, median",
        "least to most", "of plan", "changes", "lost frames", box=None,
    )  # fmt: skip
    for row in found:
        times = sorted(run.seconds * 1e3 for run in row.runs)
        table.add_row(
            row.kind, f"{row.scheduler}, {row.algorithm}",
            f"{row.reconfiguration_seconds * 1e3:.1f}", f"{row.least_step_seconds * 1e3:.0f}",
            f"{row.planned_seconds * 1e3:,.0f}", f"{row.seconds * 1e3:,.0f}",
            f"{times[0]:,.0f} to {times[-1]:,.0f}", f"{row.seconds / row.planned_seconds:.1%}",
            str(row.runs[0].settings), str(max(run.dark for run in row.runs)),
        )  # fmt: skip
    Console(width=None if sys.stdout.isatty() else 150, highlight=False).print(table)
    for gain in gains:
        share = "" if gain["of_planned"] is None else f", {gain['of_planned']:.0%} of it"
        print(
            f"{gain['kind']}: SWOT was to save {gain['planned_seconds'] * 1e3:,.0f} ms over"
            f" lockstep and saved {gain['seconds'] * 1e3:,.0f} ms{share}"
        )
