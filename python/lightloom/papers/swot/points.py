"""Points of SWOT's figures: a collective on planes, scheduled by each scheduler.

Modelled: 800 Gbps a node shared by k planes, t_r = 200 us, 5 us a transmission (SWOT, Section 4.1),
where a figure does not vary them; MB is 10^6 bytes, a size is a node's buffer. Ignored: how long
the paper's solver took.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from lightloom.papers.part import Context, Part
from lightloom.plan import Job, plan_collective
from lightloom.units import Size

KB, MB = 10**3, 10**6
SIZES = (256 * KB, 512 * KB, *(MB << i for i in range(10)), 1000 * MB)
"""Of Figures 7, 9 and 10; Figure 11 goes on to 16 GB."""
PLANES = (2, 4, 8)
TITLES = {
    "rabenseifner-reduce-scatter": "reduce-scatter (Rabenseifner)",
    "rabenseifner-allreduce": "all-reduce (Rabenseifner)",
    "pairwise-alltoall": "all-to-all (pairwise)",
    "bruck-alltoall": "all-to-all (Bruck)",
}
CURVES = {
    "all-reduce": "rabenseifner-allreduce",
    "pairwise": "pairwise-alltoall",
    "Bruck": "bruck-alltoall",
}
"""Of Figures 10 and 11, a panel each, on 256 nodes."""


@dataclass(frozen=True)
class Point:
    """One collective on planes.

    Examples
    --------
    >>> point = Point("pairwise-alltoall", nodes=5, size_bytes=32 * MB, latency="1 us")
    >>> row = point.solve("8b", effort="normal")
    >>> round(row.one_shot_us, 1), row.lockstep_us, round(row.swot_us, 1)
    (1028.0, 860.0, 634.7)
    >>> round(100 * row.below_lockstep, 1)
    26.2
    """

    algorithm: str
    nodes: int
    size_bytes: int
    planes: int = 4
    reconfiguration: str = "200 us"
    latency: str = "5 us"
    initial: str = "first-step"

    def solve(self, panel: str, effort: str) -> Row:
        """Ask every scheduler.

        Raises
        ------
        InputError
            If there is no such collective.
        RunError
            If a schedule fails its replay.
        """
        job = Job.of(
            self.algorithm, nodes=self.nodes, size=f"{self.size_bytes} B", planes=self.planes,
            reconfiguration=self.reconfiguration, latency=self.latency, initial=self.initial,
            effort=effort,
        )  # fmt: skip
        done = plan_collective(job)
        us = {
            row.scheduler: None if row.completion_ps is None else row.completion_ps / 1e6
            for row in done.rows
        }
        lockstep, ideal, swot, found = us["lockstep"], us["ideal"], us["swot"], done.row("swot")
        assert lockstep and ideal and swot and found.bound_ps is not None  # they always answer
        return Row(
            panel, self.algorithm, self.nodes, self.size_bytes, self.planes,
            job.planes.reconfiguration / 1e6, job.planes.latency / 1e6, self.initial,
            us["one-shot"], lockstep, ideal, swot, found.bound_ps / 1e6, found.switches,
        )  # fmt: skip


@dataclass(frozen=True)
class Row:
    """A point and its completion times [us]."""

    panel: str
    algorithm: str
    nodes: int
    size_bytes: int
    planes: int
    reconfiguration_us: float
    latency_us: float
    initial: str
    """What the planes hold before the collective, except one-shot's: those are always preset."""
    one_shot_us: float | None
    """None where there are more configurations than planes."""
    lockstep_us: float
    ideal_us: float
    swot_us: float
    bound_us: float
    """No schedule of SWOT's problem completes before."""
    switches: int
    """Of SWOT's schedule."""

    def as_json(self) -> dict[str, Any]:
        """Return its values by name."""
        return asdict(self)

    @property
    def below_lockstep(self) -> float:
        """By what share SWOT completes earlier than lockstep."""
        return 1 - self.swot_us / self.lockstep_us

    @property
    def below_one_shot(self) -> float | None:
        """By what share SWOT completes earlier than one-shot, where that is possible."""
        return None if self.one_shot_us is None else 1 - self.swot_us / self.one_shot_us

    @property
    def overhead(self) -> float:
        """(SWOT - ideal) / SWOT, Figure 11's ratio."""
        return 1 - self.ideal_us / self.swot_us

    @property
    def static_us(self) -> float:
        """The better of lockstep and one-shot."""
        return min(self.lockstep_us, self.one_shot_us or self.lockstep_us)


Rows = Sequence[Row]


def panel(name: str, points: Iterable[Point], effort: str) -> Part:
    """Return a panel of a figure: what is run and kept together.

    >>> panel("7a k=2", [Point("bruck-alltoall", 4, MB)], "quick").name
    '7a k=2'
    """
    some = tuple(points)
    settings = {"effort": effort, "points": [asdict(point) for point in some]}
    return Part(name, partial(_solve, name, some, effort), settings=settings, row=Row)


def _solve(name: str, points: Sequence[Point], effort: str, context: Context) -> list[Row]:
    """Schedule points on all cores: the compiled core leaves the interpreter free."""
    rows = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        try:
            for row in pool.map(lambda point: point.solve(name, effort), points):
                rows.append(row)
                context.progress(len(rows) / len(points))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return rows


def best(rows: Rows, key: Callable[[Row], float | None]) -> Row | None:
    """Return the row with the least `key`; None where no row has one.

    Examples
    --------
    >>> best([], lambda row: row.swot_us) is None
    True
    """
    having = [(value, at) for at, row in enumerate(rows) if (value := key(row)) is not None]
    return rows[min(having)[1]] if having else None


def size_text(size: int) -> str:
    """Return a size as the axes write it.

    >>> size_text(256 * KB), size_text(32 * MB), size_text(16000 * MB)
    ('256 KB', '32 MB', '16 GB')
    """
    for unit, name in ((10**9, "GB"), (MB, "MB"), (KB, "KB")):
        if size >= unit:
            return f"{size / unit:g} {name}"
    return str(Size(size))
