"""Runs the same demands on a testbed and in the flow engine, and puts the times side by side.

Modelled: the demands of `lightloom.testbed.collective`, path by path. The simulator is given the
circuits that stood, and gives chunks to NICs by its own decisions (`lightloom.testbed.nics`).
Nothing is fitted: what frames and acknowledgements take is computed. Measured is an all-to-all
with the copies in its servers. Ignored in the simulation: see `lightloom.testbed.nics`. Checked:
``tests/test_testbed_compare.py``.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from lightloom import _core
from lightloom.errors import InputError
from lightloom.testbed import nics, record
from lightloom.testbed.collective import Outcome, collective
from lightloom.testbed.request import Request
from lightloom.testbed.shape import Shape

# Few bytes' time is that of a computer, not of its NICs.
LEAST_BYTES = 1000


@dataclass(frozen=True)
class Row:
    """One demand by one path.

    Attributes
    ----------
    path, demand
        How bytes were shared over NICs; which demand, from 0.
    measured_seconds, simulated_seconds
        How long the all-to-all took on the testbed, and takes in the flow engine [s].
    between_bytes
        Payload between servers [B].
    elsewhere_bytes
        Payload that NICs carried which the simulator gives to others: of chunks that took another
        NIC than planned, were sent again, or found other circuits; and some bytes of barriers [B].
    circuits
        Circuits that stood; none without an optical switch, or if not asked for.
    """

    path: str
    demand: int
    measured_seconds: float
    simulated_seconds: float
    between_bytes: int
    elsewhere_bytes: int
    circuits: int | None

    @property
    def ratio(self) -> float:
        """Measured over simulated time."""
        return self.measured_seconds / self.simulated_seconds

    @property
    def gap(self) -> float:
        """By how much the ratio is not one, whichever is longer."""
        return abs(self.ratio - 1)


@dataclass(frozen=True)
class Comparison:
    """What was measured and what was simulated.

    Attributes
    ----------
    shape, request
        On which testbed, and what.
    rows
        Path by path.
    """

    shape: Shape
    request: Request
    rows: tuple[Row, ...]

    def of(self, path: str | None = None) -> list[Row]:
        """Return the rows of a path, or all."""
        return [row for row in self.rows if path in (None, row.path)]

    def median_gap(self, path: str | None = None) -> float:
        """Return the median of |measured / simulated - 1|, of a path or all."""
        return statistics.median(row.gap for row in self.of(path))

    def worst_gap(self, path: str | None = None) -> float:
        """Return the largest |measured / simulated - 1|, of a path or all."""
        return max(row.gap for row in self.of(path))

    def median_ratio(self, path: str | None = None) -> float:
        """Return the median of measured / simulated, of a path or all."""
        return statistics.median(row.ratio for row in self.of(path))

    def said(self) -> dict[str, Any]:
        """Return it for JSON."""
        summary = {
            path or "all": {
                "median_ratio": self.median_ratio(path),
                "median_gap": self.median_gap(path),
                "worst_gap": self.worst_gap(path),
            }
            for path in (*self.request.paths, None)
        }
        framing = nics.Framing.of(self.shape.mtu)
        return {
            "shape": self.shape.said(),
            "request": asdict(self.request),
            "frame_bytes": framing.frame,
            "payload_bytes": framing.payload,
            "acknowledgement_bytes": framing.acknowledgement,
            "rows": [asdict(row) | {"ratio": row.ratio} for row in self.rows],
            "summary": summary,
        }

    def save(self, out: str | PathLike[str], *, force: bool = False) -> Path:
        """Write ``comparison.json`` and ``comparison.png`` to a directory.

        Raises
        ------
        InputError
            If the place is taken.
        """
        from lightloom import store
        from lightloom.testbed import plots

        place = Path(out)
        with store.create(place, force=force) as draft:
            store.write_json(draft / "comparison.json", self.said())
            figure = plots.compared(self)
            figure.savefig(draft / "comparison.png", metadata={"Software": None})
            info = {"lightloom": _core.__version__, "kind": "testbed", "seed": self.request.seed}
            store.write_json(draft / store.INFO, info)
        return place


def compare(
    name: str, request: Request, told: Callable[[str], None] = lambda line: None
) -> Comparison:
    """Run all-to-alls on a testbed and in the flow engine.

    Parameters
    ----------
    name
        The testbed's name.
    request
        What is to be run: all-to-alls, by one path or several.
    told
        Is called with what is done next.

    Raises
    ------
    InputError
        If there is no such testbed, a job is on it, a demand does not fit it or has few bytes
        between servers, or what is asked is no all-to-all.
    RunError
        If a rank fails, or a byte is wrong.
    """
    if request.kind != "alltoall":
        raise InputError(f"KIND: {request.kind}: must be alltoall: the simulator has its demands")
    shape = record.known(name)
    if shape.eps == "railx":
        raise InputError(
            f"--name: {name}: is a grid of RailX, of which its NICs' bytes are not known"
        )
    if shape.planes is not None and "delegate" in request.paths:
        raise InputError("--path: delegate: planes have circuits for plans alone")
    demands = request.demands(shape)
    for at, matrix in enumerate(demands):
        sent = nics.flows(shape, nics.parts(shape, "source", matrix, request.chunk_bytes)).sum()
        if sent < LEAST_BYTES:
            raise InputError(
                f"--size: {request.size_bytes}: demand {at} sends {sent} B between servers; must"
                f" be at least {LEAST_BYTES} B"
            )
    outcomes = collective(name, request, told, demands)
    told(f"{len(outcomes)} all-to-alls in the flow engine")
    return Comparison(shape, request, tuple(simulated(shape, request, demands, outcomes)))


def simulated(
    shape: Shape, request: Request, demands: nics.Matrix, outcomes: Sequence[Outcome]
) -> list[Row]:
    """Return outcomes beside what the flow engine says of the same demands.

    Examples
    --------
    >>> import numpy as np
    >>> shape = Shape(servers=2, ranks_per_server=1, eps_nics=2, ocs_nics=1)
    >>> demands = np.array([[[0, 25_000_000], [0, 0]]], dtype=np.uint64)
    >>> sent = [[13_000_000, 12_000_000, 0], [0, 0, 0]]
    >>> one = Outcome(
    ...     "stripe", 0, 1.1, 0, 1.1, 0, 0, 25_000_000, 1, 1, sent, sent[::-1], 0, 0, None, None
    ... )
    >>> [row] = simulated(shape, Request(chunk_bytes=1_000_000), demands, [one])
    >>> round(row.simulated_seconds, 3), round(row.ratio, 2)  # 13 of 25 chunks at a NIC
    (1.087, 1.01)
    """
    rows = []
    for outcome in outcomes:
        matrix = demands[outcome.demand]
        carried = nics.parts(shape, outcome.path, matrix, request.chunk_bytes, outcome.joins or ())
        sums = nics.flows(shape, carried)
        rows.append(
            Row(
                path=outcome.path, demand=outcome.demand,
                measured_seconds=outcome.seconds,
                simulated_seconds=nics.seconds(shape, sums),
                between_bytes=outcome.between_bytes,
                elsewhere_bytes=_elsewhere(sums, outcome), circuits=outcome.circuits,
            )
        )  # fmt: skip
    return rows


def _elsewhere(sums: nics.Matrix, outcome: Outcome) -> int:
    """Return what NICs have sent or received that others should have, whichever is more [B]."""
    sides = ((sums.sum(axis=1), outcome.sent), (sums.sum(axis=0), outcome.received))
    return max(
        int(np.maximum(np.ravel(measured).astype(np.int64) - side.astype(np.int64), 0).sum())
        for side, measured in sides
    )
