"""Failed nodes of a RailX grid: which jobs fit (RailX, Section 6.6 and Appendix A.5).

A job is some rows times some columns of nodes with no failed node in them; rails skip the others.
The decisions are the compiled core's; here they are asked for, and files of faults are read:

- text or CSV: a fault a line, its row and its column, from 0, with a comma or a blank between;
  ``#`` starts a comment, and a first line ``row,column`` is a heading;
- JSON: a list of ``[row, column]`` or of ``{"row": .., "column": ..}``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lightloom import _core
from lightloom.errors import CoreErrors, InputError
from lightloom.trace.wording import reason, shown

MOST_LINES = 4096
MOST_JOBS = 1024
_PAIR = re.compile(r"([0-9]{1,9})(?:\s*,\s*|\s+)([0-9]{1,9})", re.ASCII)
_JOB = re.compile(
    r"(?:([0-9]{1,4})x([0-9]{1,4})|([0-9]{1,8})|(largest))(?:\*([0-9]{1,4}))?", re.ASCII
)

Job = tuple[int, int] | int | None
"""Columns and rows, or rows and columns; nodes in any shape; or None, as many as can be."""


@dataclass(frozen=True)
class Placed:
    """Where a job is: its rows and columns, rising."""

    rows: tuple[int, ...]
    columns: tuple[int, ...]

    @property
    def nodes(self) -> int:
        """Nodes it has."""
        return len(self.rows) * len(self.columns)


@dataclass(frozen=True)
class Allocated:
    """What fits on a grid with failed nodes.

    Attributes
    ----------
    faults
        (row, column), from 0.
    isolated
        Faults that share neither row nor column with another.
    largest, bound
        The largest single job, and what no job exceeds.
    algorithm_2
        Nodes by the paper's Algorithm 2; None beyond 20 faults that are not isolated.
    jobs
        By job asked, where it is, or None.
    used, packing_bound
        Nodes of the jobs placed, and what no packing of them exceeds.
    """

    rows: int
    columns: int
    faults: tuple[tuple[int, int], ...]
    healthy: int
    isolated: int
    largest: Placed
    bound: int
    algorithm_2: int | None
    asked: tuple[Job, ...]
    jobs: tuple[Placed | None, ...]
    used: int
    packing_bound: int

    def as_json(self) -> dict[str, Any]:
        """Return everything, as plain values."""

        def place(placed: Placed | None) -> dict[str, Any] | None:
            if placed is None:
                return None
            return {"nodes": placed.nodes, "rows": placed.rows, "columns": placed.columns}

        nodes = self.rows * self.columns
        return {
            "rows": self.rows, "columns": self.columns, "nodes": nodes, "faults": self.faults,
            "healthy": self.healthy, "isolated": self.isolated, "largest": place(self.largest),
            "bound": self.bound, "algorithm_2": self.algorithm_2,
            "availability": self.largest.nodes / nodes,
            "jobs": [
                {"asked": job_text(job), "placed": place(placed)}
                for job, placed in zip(self.asked, self.jobs, strict=True)
            ],
            "used": self.used, "packing_bound": self.packing_bound,
        }  # fmt: skip


def allocate(
    rows: int, columns: int, faults: Sequence[tuple[int, int]], jobs: Sequence[Job] = ()
) -> Allocated:
    """Find the largest single job, and place `jobs`, all on one grid.

    Raises
    ------
    InputError
        If the grid is too large, or a fault is outside it or there twice.

    Examples
    --------
    >>> found = allocate(8, 8, [(1, 2), (1, 5), (6, 1), (6, 7)], [None] * 3)
    >>> found.largest.nodes, [job.nodes for job in found.jobs], found.healthy
    (48, [48, 6, 6], 60)
    """
    request = {
        "rows": rows, "columns": columns, "faults": list(faults),
        "jobs": [_wanted(job) for job in jobs],
    }  # fmt: skip
    with CoreErrors():
        answer = json.loads(_core.railx_allocate(json.dumps(request)))
    largest, packing = answer["largest"], answer["packing"]

    def kept(count: int, dropped: Sequence[int]) -> tuple[int, ...]:
        without = set(dropped)
        return tuple(line for line in range(count) if line not in without)

    return Allocated(
        rows, columns, tuple((row, column) for row, column in faults), answer["healthy"],
        answer["isolated"],
        Placed(kept(rows, largest["dropped_rows"]), kept(columns, largest["dropped_columns"])),
        largest["bound"], answer["algorithm_2"], tuple(jobs),
        tuple(None if job is None else Placed(tuple(job["rows"]), tuple(job["columns"]))
              for job in packing["jobs"]),
        packing["used"], packing["bound"],
    )  # fmt: skip


def read_faults(path: Path, rows: int, columns: int) -> list[tuple[int, int]]:
    r"""Read the failed nodes of a grid of `rows` x `columns` nodes.

    Raises
    ------
    InputError
        Naming the file, the line and what is allowed: a fault outside the grid, one twice, junk.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "faults.txt"
    >>> _ = file.write_text("# found on Monday\n3, 5\n0 63\n")
    >>> read_faults(file, 64, 64)
    [(3, 5), (0, 63)]
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {reason(error)}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.start}: not UTF-8 text") from None
    found = _of_json(path, text) if path.suffix.lower() == ".json" else _of_text(path, text)
    first: dict[tuple[int, int], str] = {}
    for where, (row, column) in found:
        for name, line, count in (("row", row, rows), ("column", column, columns)):
            if line >= count:
                raise InputError(
                    f"{path}: {where}: {name} = {line}: is outside the grid; must be from 0 to "
                    f"{count - 1}"
                )
        if (row, column) in first:
            raise InputError(
                f"{path}: {where}: row {row}, column {column}: is there twice, first in "
                f"{first[row, column]}"
            )
        first[row, column] = where
    return list(first)


def read_jobs(text: str) -> list[Job]:
    """Read ``--jobs``.

    Examples
    --------
    >>> read_jobs("16x8, 64, largest*2")
    [(16, 8), 64, None, None]
    """
    jobs: list[Job] = []
    for part in text.split(","):
        found = _JOB.fullmatch(part.strip())
        numbers = [int(group) for group in (found.groups() if found else ()) if group
                   and group != "largest"]  # fmt: skip
        if found is None or 0 in numbers:
            raise InputError(
                f'--jobs "{part.strip()}": must be columns x rows of nodes such as 16x8, a number '
                "of nodes such as 64, or largest; *3 after it for three"
            )
        columns, rows, nodes, _, count = found.groups()
        job = (int(columns), int(rows)) if columns else int(nodes) if nodes else None
        jobs += [job] * int(count or 1)
        if len(jobs) > MOST_JOBS:
            raise InputError(f"--jobs: must be at most {MOST_JOBS} jobs")
    return jobs


def job_text(job: Job) -> str:
    """Return a job as ``--jobs`` has it.

    >>> job_text((16, 8)), job_text(64), job_text(None)
    ('16x8', '64', 'largest')
    """
    if job is None:
        return "largest"
    return str(job) if isinstance(job, int) else f"{job[0]}x{job[1]}"


def _wanted(job: Job) -> Any:
    if job is None:
        return "largest"
    if isinstance(job, int):
        return {"nodes": job}
    return {"shape": {"columns": job[0], "rows": job[1]}}


def _of_text(path: Path, text: str) -> list[tuple[str, tuple[int, int]]]:
    found: list[tuple[str, tuple[int, int]]] = []
    for number, line in enumerate(text.splitlines(), 1):
        said = line.partition("#")[0].strip()
        if not said or (not found and re.fullmatch(r"row\s*[,\s]\s*column", said)):
            continue
        pair = _PAIR.fullmatch(said)
        if pair is None:
            raise InputError(
                f"{path}: line {number}: {shown(said)}: must be a row and a column, such as 3,5"
            )
        found.append((f"line {number}", (int(pair[1]), int(pair[2]))))
    return found


def _of_json(path: Path, text: str) -> list[tuple[str, tuple[int, int]]]:
    allowed = "must be a list of [row, column]"
    try:
        listed = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"{path}: line {error.lineno}: not JSON: {error.msg}") from None
    except (ValueError, RecursionError):
        raise InputError(f"{path}: not JSON that can be read; {allowed}") from None
    if not isinstance(listed, list):
        raise InputError(f"{path}: line 1: {shown(listed)}: {allowed}")
    found: list[tuple[str, tuple[int, int]]] = []
    for number, entry in enumerate(listed, 1):
        pair = entry
        if isinstance(entry, dict) and set(entry) == {"row", "column"}:
            pair = [entry["row"], entry["column"]]
        whole = isinstance(pair, list) and len(pair) == 2 and all(
            isinstance(x, int) and not isinstance(x, bool) and 0 <= x < 10**9 for x in pair
        )  # fmt: skip
        if not whole:
            raise InputError(f"{path}: entry {number}: {shown(entry)}: {allowed}, from 0")
        found.append((f"entry {number}", (pair[0], pair[1])))
    return found
