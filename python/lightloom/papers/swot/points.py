"""What SWOT's Figures 7 to 11 are made of: panels of points, each a collective on planes.

Modelled: 800 Gbps a node shared by k planes, t_r = 200 us, 5 us a transmission (SWOT, Section 4.1),
where a figure does not vary them; MB is 10^6 bytes, a size is a node's buffer. Where the paper is
silent: Figure 7 has as many nodes as one-shot can serve, with k = 2, 4 and 8; Figure 8 has 40 MB
(all-reduce) and 32 MB (all-to-all) at 1 us, which met the paper's four percentages when they were
sought; Figure 9 has 16 and 256 nodes on 4 planes. Ignored: how long the paper's solver took.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lightloom.plan import Job, plan_collective
from lightloom.units import Size

KB, MB = 10**3, 10**6
SIZES = (256 * KB, 512 * KB, *(MB << i for i in range(10)), 1000 * MB)
"""Of Figures 7, 9 and 10; Figure 11 goes on to 16 GB."""
LARGE = (*SIZES, *(1000 * MB << i for i in range(1, 5)))
PLANES = (2, 4, 8)
DELAYS = ("20 us", "200 us", "2 ms", "20 ms")
"""Of Figure 11. "Four orders of magnitude": the text has lost which; it names 0.2 and 20 ms."""
ALL_TO_ALL = {"pairwise-alltoall": "P", "bruck-alltoall": "B"}
ALL_REDUCE = {
    "ring-allreduce": "R",
    "recursive-doubling-allreduce": "RD",
    "rabenseifner-allreduce": "HD",
    "double-tree-allreduce": "DP",
}
"""The algorithms of Figure 9 with the paper's letters."""
RADIXES = (4, 8, 16, 32, 64)
"""Of Bruck's algorithm beyond the paper's 2, in Figure 9."""
TITLES = {
    "rabenseifner-reduce-scatter": "reduce-scatter (Rabenseifner)",
    "rabenseifner-allreduce": "all-reduce (Rabenseifner)",
    "pairwise-alltoall": "all-to-all (pairwise)",
    "bruck-alltoall": "all-to-all (Bruck)",
}


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


@dataclass(frozen=True)
class Panel:
    """One part of a figure: what is run, kept and drawn together."""

    figure: int
    name: str
    title: str
    points: tuple[Point, ...]


def panels(figures: Sequence[int], sizes: Sequence[int] | None = None) -> tuple[Panel, ...]:
    """Return the panels of figures 7 to 11.

    Parameters
    ----------
    figures
        Numbers.
    sizes
        Buffers of a node [B] for the figures over sizes (all but 8), instead of the paper's range.

    Examples
    --------
    >>> [panel.name for panel in panels((7, 10))][:4]
    ['7a k=2', '7a k=4', '7a k=8', '7b k=2']
    """
    made = {7: _seven, 8: _eight, 9: _nine, 10: _ten, 11: _eleven}
    return tuple(panel for figure in figures for panel in made[figure](sizes))


def _seven(sizes: Sequence[int] | None) -> list[Panel]:
    made = []
    for letter, algorithm in zip("abcd", TITLES, strict=True):
        for k in PLANES:
            # As many as one-shot can serve: one configuration a plane.
            nodes = k + 1 if algorithm == "pairwise-alltoall" else 2**k
            points = tuple(Point(algorithm, nodes, size, k) for size in sizes or SIZES)
            made.append(Panel(7, f"7{letter} k={k}", f"{k} planes, {nodes} nodes", points))
    return made


def _eight(_: Sequence[int] | None) -> list[Panel]:
    reduce, exchange = "rabenseifner-allreduce", "pairwise-alltoall"
    powers = tuple(Point(reduce, 2**i, 40 * MB, latency="1 us") for i in range(2, 10))
    others = tuple(Point(exchange, n, 32 * MB, latency="1 us") for n in range(3, 17))
    return [
        Panel(8, "8a", f"{TITLES[reduce]}, 40 MB", powers),
        Panel(8, "8b", f"{TITLES[exchange]}, 32 MB", others),
    ]


def _nine(sizes: Sequence[int] | None) -> list[Panel]:
    made = []
    for letter, what in zip("ab", ("all-to-all", "all-reduce"), strict=True):
        for nodes in (16, 256):
            names = list(ALL_REDUCE if what == "all-reduce" else ALL_TO_ALL)
            if what == "all-to-all":
                names += [f"bruck-alltoall:{radix}" for radix in RADIXES if radix < nodes]
            points = tuple(
                Point(name, nodes, size, initial=initial)
                for size in sizes or SIZES
                for name in names
                for initial in ("first-step", "free")
            )
            made.append(Panel(9, f"9{letter} {nodes}", f"{what}, {nodes} nodes", points))
    return made


def _ten(sizes: Sequence[int] | None) -> list[Panel]:
    return [
        Panel(10, f"10 {algorithm}", TITLES[algorithm], tuple(
            Point(algorithm, 256, size, k) for k in PLANES for size in sizes or SIZES
        ))
        for algorithm in ("rabenseifner-allreduce", "pairwise-alltoall", "bruck-alltoall")
    ]  # fmt: skip


def _eleven(sizes: Sequence[int] | None) -> list[Panel]:
    return [
        Panel(11, f"11 {algorithm}", TITLES[algorithm], tuple(
            Point(algorithm, 256, size, reconfiguration=delay)
            for delay in DELAYS for size in sizes or LARGE
        ))
        for algorithm in ("rabenseifner-allreduce", "pairwise-alltoall", "bruck-alltoall")
    ]  # fmt: skip


def size_text(size: int) -> str:
    """Return a size as the axes write it.

    >>> size_text(256 * KB), size_text(32 * MB), size_text(16000 * MB)
    ('256 KB', '32 MB', '16 GB')
    """
    for unit, name in ((10**9, "GB"), (MB, "MB"), (KB, "KB")):
        if size >= unit:
            return f"{size / unit:g} {name}"
    return str(Size(size))
