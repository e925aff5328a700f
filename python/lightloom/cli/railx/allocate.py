"""``lightloom railx allocate``."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.text import Text

    from lightloom.railx.faults import Allocated

# Marks of jobs in the terminal.
_MARKS = "abcdefghijklmnopqrstuvwyzABCDEFGHIJKLMNOPQRSTUVWYZ"
_WIDEST = 160


def run(
    faults: Path = typer.Option(
        ..., "--faults", metavar="FILE", help="Failed nodes: a row and a column a line, or JSON."
    ),
    ocs: int | None = typer.Option(
        None, "--ocs", help="Ports of an optical switch: a grid of half as many squared [128]."
    ),
    grid: str | None = typer.Option(
        None, "--grid", help="Nodes along a side, or columns x rows, such as 32x16."
    ),
    jobs: str | None = typer.Option(
        None,
        "--jobs",
        help="Jobs to place: columns x rows (16x8), nodes (64), or largest; *3 for three.",
    ),
    exact: bool = typer.Option(
        False, "--exact", help="Also solve the largest job by HiGHS, and compare."
    ),
    png: Path | None = typer.Option(None, "--png", metavar="FILE", help="Draw the grid there."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Find the largest job on a grid with failed nodes, or where several jobs go.

    A job is some rows times some columns of nodes, counted from 0.

    Example: lightloom railx allocate --faults faults.txt --ocs 128 --jobs "16x16,8x8,largest*3"
    """
    from lightloom.errors import InputError, RunError
    from lightloom.railx.faults import allocate, read_faults, read_jobs
    from lightloom.screen import console

    columns, rows = _grid(ocs, grid)
    if png is not None and (
        png.suffix.lower() != ".png" or png.is_dir() or not png.parent.is_dir()
    ):
        raise InputError(f"--png {png}: must be a file *.png in a directory that is there")
    found = allocate(rows, columns, read_faults(faults, rows, columns), read_jobs(jobs or "")
                     if jobs is not None else ())  # fmt: skip
    optimum = None
    if exact:
        from lightloom.oracle.railx import largest

        optimum = largest(rows, columns, found.faults).nodes
        if not found.largest.nodes <= optimum <= found.bound:
            raise RunError(
                f"railx allocate: {found.largest.nodes} nodes were found and HiGHS has {optimum}"
            )
    if png is not None:
        from lightloom.railx.fault_plots import grid as draw

        draw(found).savefig(png)
        print(f"wrote {png}", file=sys.stderr)
    if as_json:
        print(json.dumps(found.as_json() | ({"exact": optimum} if exact else {}), indent=2))
        return
    out = console()
    out.print(f"{_head(found, optimum)}\n", soft_wrap=True)
    room = out.width if out.is_terminal else _WIDEST
    if columns <= room:
        out.print(_picture(found), soft_wrap=True)
        out.print("\nx failed   . free" if found.asked else "\nx failed   - dropped   o the job",
                     style="dim")  # fmt: skip
    else:
        out.print(f"the grid is wider than {room} columns: draw it with --png", style="dim")
    if found.asked:
        out.print()
        out.print(_jobs(found), soft_wrap=True)


def _grid(ocs: int | None, grid: str | None) -> tuple[int, int]:
    """Return columns and rows."""
    from lightloom.errors import InputError
    from lightloom.railx.faults import MOST_LINES

    if grid is None:
        radix = 128 if ocs is None else ocs
        if radix % 2 or not 2 <= radix <= 2 * MOST_LINES:
            raise InputError(
                f"--ocs {radix}: must be even and from 2 to {2 * MOST_LINES}: a switch has two "
                "ports for each node"
            )
        return radix // 2, radix // 2
    if ocs is not None:
        raise InputError(f"--grid {grid}: --ocs gives the grid already; allowed: one of the two")
    found = re.fullmatch(r"([0-9]{1,6})(?:x([0-9]{1,6}))?", grid.strip(), re.ASCII)
    sides = [int(side) for side in found.groups() if side] if found else []
    if not sides or not all(1 <= side <= MOST_LINES for side in sides):
        raise InputError(
            f'--grid "{grid}": must be nodes along a side such as 64, or columns x rows such as '
            f"32x16, each from 1 to {MOST_LINES}"
        )
    return sides[0], sides[-1]


def _head(found: Allocated, optimum: int | None) -> str:
    nodes = found.rows * found.columns
    largest = found.largest
    lines = [
        f"{found.columns} x {found.rows} nodes, {len(found.faults)} failed "
        f"({found.isolated} share no row or column with another), {found.healthy:,} work",
        f"largest single job: {len(largest.columns)} x {len(largest.rows)} = {largest.nodes:,} "
        f"nodes, {largest.nodes / nodes:.1%} of all; {_proof(found, optimum)}",
    ]
    if found.algorithm_2 is None:
        lines.append("Algorithm 2 (RailX): not run, as more than 20 failed nodes share lines")
    else:
        lines.append(f"Algorithm 2 (RailX): {found.algorithm_2:,} nodes")
    if found.asked:
        placed = sum(job is not None for job in found.jobs)
        share = found.used / found.healthy if found.healthy else 0.0
        lines.append(
            f"{placed} of {len(found.jobs)} jobs placed on {found.used:,} nodes, {share:.1%} of "
            f"those that work; no packing of them uses more than {found.packing_bound:,}"
        )
    return "\n".join(lines)


def _proof(found: Allocated, optimum: int | None) -> str:
    if optimum is not None:
        short = optimum - found.largest.nodes
        return f"HiGHS: {optimum:,}, " + ("the same" if not short else f"{short:,} more")
    if found.bound == found.largest.nodes:
        return "no job is larger"
    return f"no job is larger than {found.bound:,}"


def _picture(found: Allocated) -> Text:
    """Return the grid, a mark a node."""
    from rich.text import Text

    from lightloom.railx.fault_plots import job_colors
    from lightloom.style.palette import FAILED

    if found.asked:
        marks = [(job, _MARKS[at % len(_MARKS)]) for at, job in enumerate(found.jobs)]
        other, colors = ".", job_colors(len(marks))
    else:
        marks, other, colors = [(found.largest, "o")], "-", job_colors(1)
    at: dict[tuple[int, int], tuple[str, str]] = {}
    for (job, mark), color in zip(marks, colors, strict=True):
        if job is not None:
            at |= {(row, column): (mark, color) for row in job.rows for column in job.columns}
    at |= {fault: ("x", f"bold {FAILED}") for fault in found.faults}
    text = Text()
    for row in range(found.rows):
        if row:
            text.append("\n")
        for column in range(found.columns):
            text.append(*at.get((row, column), (other, "dim")))
    return text


def _jobs(found: Allocated) -> str:
    from lightloom.railx.faults import job_text

    lines = []
    for at, (job, placed) in enumerate(zip(found.asked, found.jobs, strict=True)):
        where = "no room"
        if placed is not None:
            where = (
                f"{placed.nodes:,} nodes: columns {_lines(placed.columns)}; "
                f"rows {_lines(placed.rows)}"
            )
        lines.append(f"{_MARKS[at % len(_MARKS)]}  {job_text(job)}: {where}")
    return "\n".join(lines)


def _lines(lines: tuple[int, ...]) -> str:
    """Return numbers as ranges.

    >>> _lines((0, 1, 2, 5, 7, 8))
    '0-2, 5, 7-8'
    """
    parts: list[list[int]] = []
    for line in lines:
        if parts and parts[-1][-1] == line - 1:
            parts[-1][1:] = [line]
        else:
            parts.append([line])
    return ", ".join("-".join(map(str, part)) for part in parts)
