"""Which collectives are to be run on a testbed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lightloom.errors import InputError
from lightloom.presets import guess
from lightloom.rails.workloads import Workload, demand
from lightloom.testbed.runtimes import WITHIN
from lightloom.testbed.shape import Shape
from lightloom.trace import builtin_names

KINDS = ("alltoall", "allreduce", "reducescatter", "allgather", "broadcast", "barrier")
PATHS = ("delegate", "rails", "stripe", "hash", "pxn", "source")
# The last two are of a grid of RailX.
ALGORITHMS = ("direct", "ring", "hierarchical", "hyperx")


@dataclass(frozen=True)
class Request:
    """What is to be run.

    Attributes
    ----------
    kind
        Which collective.
    size_bytes
        What a rank sends in an all-to-all, on average over ranks; else the bytes at each rank.
    workload
        Of all-to-alls: who sends how much to whom, as `lightloom rails` has it.
    paths
        One after the other.
    count
        How many, each with another demand, by each path.
    algorithm
        ``direct`` or ``ring``, for what is no all-to-all; of all-reduces on a grid of RailX also
        ``hierarchical``, rings of rows and columns, and ``hyperx``, rows and columns all at once.
    job
        On a grid of RailX, which of its jobs.
    chunk_bytes
        The longest chunk [B]; `Shape.chunk` unless given.
    seed
        Of the demands.
    parts
        Parts of an all-reduce, and of a ring's slices, that are under way at a time; 4 and 2 unless
        given.

    Raises
    ------
    InputError
        If a value is not allowed; with the flag.
    """

    kind: str = "alltoall"
    size_bytes: int = 8_000_000
    workload: str = "uniform"
    paths: tuple[str, ...] = ("delegate",)
    count: int = 1
    algorithm: str = "direct"
    chunk_bytes: int | None = None
    seed: int = 1
    job: int = 0
    parts: int | None = None

    def __post_init__(self) -> None:
        """Check every value."""
        for flag, values, allowed in (
            ("KIND", (self.kind,), KINDS),
            ("--path", self.paths, PATHS),
            ("--algorithm", (self.algorithm,), ALGORITHMS),
        ):
            for value in values:
                if value not in allowed:
                    meant = guess(value, allowed)
                    raise InputError(f"{flag}: {value}: must be one of {', '.join(allowed)}{meant}")
        for flag, count, least, most in (
            ("--size", self.size_bytes, 0, 1 << 32),
            ("--count", self.count, 1, 100_000),
            (
                "--chunk",
                1 << 10 if self.chunk_bytes is None else self.chunk_bytes,
                1 << 10,
                1 << 20,
            ),
            ("--seed", self.seed, 0, 1 << 32),
            ("--parts", 1 if self.parts is None else self.parts, 1, 64),
        ):
            if not least <= count <= most:
                raise InputError(f"{flag}: {count}: must be from {least} to {most}")
        if self.algorithm in WITHIN and self.kind != "allreduce":
            raise InputError(f"--algorithm: {self.algorithm}: is for allreduce alone")
        if self.size_bytes % 4 and self.kind != "alltoall":
            raise InputError(f"--size: {self.size_bytes}: must be a multiple of 4 B, a float32")

    def demands(self, shape: Shape) -> npt.NDArray[np.uint64]:
        """Return what ranks send each other [B]: [collective, source rank, destination rank].

        Examples
        --------
        >>> shape = Shape(servers=2, ranks_per_server=2)
        >>> Request(size_bytes=6).demands(shape)[0].tolist()
        [[0, 2, 2, 2], [2, 0, 2, 2], [2, 2, 0, 2], [2, 2, 2, 0]]
        """
        short = {name: f"trace:{name}" for name in builtin_names()} | {"even": "uniform"}
        workload = Workload.parse(short.get(self.workload, self.workload))
        servers, ranks = shape.servers, shape.ranks_per_server
        return demand(
            workload, servers, ranks, self.size_bytes, collectives=self.count, seed=self.seed
        )
