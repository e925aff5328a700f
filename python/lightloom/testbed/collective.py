"""Runs collectives on a testbed, and says how long they took and what the NICs carried.

Modelled: every rank is a process. Each collective begins at a barrier and is over when its last
rank has its bytes; all bytes are checked. What the NICs carried is counted by the runtimes:
payload, without headers and without what TCP sends again. Two bounds are put beside the time: the
*ideal*, the busiest server's bytes over the rates of all its NICs that the path may use; and the
*placed*, the busiest NIC's bytes over its rate, which no schedule of the same chunks can beat. On a
grid of RailX, where nodes forward for others, the placed bound is of the busiest port of all
switches, in frames as they count them, on average over the collectives of a run.
Checked: ``tests/test_collective.py``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lightloom.errors import InputError, RunError
from lightloom.testbed.job import Job
from lightloom.testbed.nics import Join, circuits
from lightloom.testbed.request import Request
from lightloom.testbed.runtimes import WITHIN, Settings
from lightloom.testbed.shape import Shape
from lightloom.testbed.status import carried


@dataclass(frozen=True)
class Outcome:
    """One collective.

    Attributes
    ----------
    path
        How bytes were shared over NICs.
    demand
        Which of the demands, from 0.
    seconds
        From the first rank's start to the last rank's end [s].
    gather_seconds, exchange_seconds, local_seconds, scatter_seconds
        The longest of any rank: its bytes were copied to shared memory; sent between servers; moved
        within the server meanwhile; copied from shared memory [s].
    between_bytes
        Payload between servers [B].
    ideal_seconds, placed_seconds
        The bounds [s].
    sent, received
        By server and NIC: payload [B].
    detours, resent
        Chunks that took another NIC than planned; that were sent again.
    circuits
        Circuits that stood; none without an optical switch.
    joins
        The two ends of each of them, as server and optical port; none without an optical switch.
    """

    path: str
    demand: int
    seconds: float
    gather_seconds: float
    exchange_seconds: float
    local_seconds: float
    scatter_seconds: float
    between_bytes: int
    ideal_seconds: float
    placed_seconds: float
    sent: list[list[int]]
    received: list[list[int]]
    detours: int
    resent: int
    circuits: int | None
    joins: list[Join] | None
    landed: tuple[tuple[int, int, float], ...] = ()
    """Where schemes are compared: source rank, destination rank, and after which time the last byte
    was there [s]."""

    def said(self) -> dict[str, Any]:
        """Return it for JSON."""
        return asdict(self)


def collective(
    name: str,
    request: Request,
    told: Callable[[str], None] = lambda line: None,
    demands: npt.NDArray[np.uint64] | None = None,
    out: Path | None = None,
) -> list[Outcome]:
    """Run collectives on a testbed.

    Parameters
    ----------
    name
        The testbed's name.
    request
        What is to be run.
    told
        Is called with what is done next.
    demands
        Of all-to-alls, what ranks send each other in place of the request's workload [B]:
        [collective, source rank, destination rank].
    out
        A directory for ``collective.json``, the outcomes, and for what each runtime has counted,
        such as ``node-00.json``.

    Returns
    -------
    list of Outcome
        Path by path.

    Raises
    ------
    InputError
        If there is no such testbed, a job is on it, or a demand does not fit it.
    RunError
        If a rank fails, or a byte is wrong.
    """
    path = request.paths[0]
    settings = Settings(
        path=path, algorithm=request.algorithm, chunk_bytes=request.chunk_bytes, parts=request.parts
    )
    with Job(name, settings, request.job, out) as job:
        shape, ranks = job.team.shape, job.team.ranks
        if request.algorithm in WITHIN and shape.eps != "railx":
            raise InputError(f"--algorithm: {request.algorithm}: is for a grid of RailX alone")
        steps = _steps(request, shape)
        plan = {"kind": request.kind, "bytes": request.size_bytes, "settle": False, "steps": steps}
        if request.algorithm in WITHIN:
            plan["columns"] = shape.columns
        if request.kind == "alltoall":
            demands = request.demands(shape) if demands is None else demands
            if demands.shape != (request.count, ranks, ranks):
                raise InputError(
                    f"demands: {demands.shape}: must be {(request.count, ranks, ranks)}"
                )
        told(f"{len(steps)} collectives of {ranks} ranks")
        before = _busy(job.shape)
        outcomes = carried_out(job, plan, demands if request.kind == "alltoall" else None)
        if shape.eps == "railx":
            # Runtimes do not know what a lane's circuits carry for others, too: switches do.
            busiest = max(now - then for now, then in zip(_busy(job.shape), before, strict=True))
            share = busiest / len(steps) / (int(shape.rate) / 8)
            outcomes = [replace(outcome, placed_seconds=share) for outcome in outcomes]
    if out is not None:
        said = {"request": asdict(request), "outcomes": [outcome.said() for outcome in outcomes]}
        (out / "collective.json").write_text(json.dumps(said, indent=2) + "\n")
    return outcomes


def _busy(shape: Shape) -> list[int]:
    """Return what went through each port of a grid of RailX, in frames [B]; nothing elsewhere."""
    return [row["bytes"] for row in carried(shape)] if shape.eps == "railx" else []


def carried_out(
    job: Job, plan: dict[str, Any], demands: npt.NDArray[np.uint64] | None
) -> list[Outcome]:
    """Have all ranks of a job carry out a plan, and return what came of each step.

    Parameters
    ----------
    job
        With its runtimes under way.
    plan
        ``kind``, ``bytes``, ``settle`` (whether to wait until all lanes are up) and ``steps``, each
        with its ``path``, ``demand`` (which) and ``announce``.
    demands
        Of all-to-alls [B]: [collective, source rank, destination rank].

    Raises
    ------
    RunError
        If a rank fails, or a byte is wrong.
    """
    (job.directory / "plan.json").write_text(json.dumps(plan))
    if demands is not None:
        np.save(job.directory / "demands.npy", demands.astype(np.uint64))
    program = [sys.executable, "-m", "lightloom.ranks.collectives", str(job.directory)]
    job.run(program, {"OMP_NUM_THREADS": "1"})
    return _outcomes(job.team.shape, plan["steps"], demands, job.directory)


def _steps(request: Request, shape: Shape) -> list[dict[str, Any]]:
    if request.kind != "alltoall":
        return [{"path": request.paths[0], "demand": at} for at in range(request.count)]
    return [
        {"path": path, "demand": at, "announce": path == "delegate" and shape.region}
        for path in request.paths
        for at in range(request.count)
    ]


def _outcomes(
    shape: Shape,
    steps: Sequence[dict[str, Any]],
    demands: npt.NDArray[np.uint64] | None,
    place: Path,
) -> list[Outcome]:
    ranks = range(shape.servers * shape.ranks_per_server)
    try:
        said = [json.loads((place / f"rank-{rank}.json").read_text()) for rank in ranks]
    except (OSError, ValueError) as error:
        raise RunError(f"what a rank has measured cannot be read: {error}") from None
    outcomes = []
    for at, step in enumerate(steps):
        rows = [rows[at] for rows in said]
        first = rows[:: shape.ranks_per_server]
        matrix = None if demands is None else demands[step["demand"]]
        outcomes.append(_outcome(shape, step, rows, first, matrix))
    return outcomes


def _outcome(
    shape: Shape,
    step: dict[str, Any],
    rows: Sequence[dict[str, Any]],
    first: Sequence[dict[str, Any]],
    matrix: npt.NDArray[np.uint64] | None,
) -> Outcome:
    times = [row["times"] for row in rows]

    def longest(part: str) -> float:
        spans = [time[part] for time in times]
        return float(max(end - begin for begin, end in spans)) / 1e9

    begun = min(time["gather"][0] for time in times)
    ended = max(time["scatter"][1] for time in times)
    sent = [[nic["bytes_sent"] for nic in row["nics"]] for row in first]
    received = [[nic["bytes_received"] for nic in row["nics"]] for row in first]
    circuits_too = (step["path"] == "delegate" and shape.planes is None) or shape.eps == "railx"
    usable = shape.eps_nics + (shape.ocs_nics if circuits_too else 0)
    rate = int(shape.rate) / 8
    if matrix is None:
        busiest = max(max(sum(row) for row in sent), max(sum(row) for row in received))
    else:
        busiest = int(max(side.max() for side in _sides(between(matrix, shape))))
    nic = max(max(map(max, sent)), max(map(max, received)))
    ports = [row["circuits"]["ports"] for row in first if row["circuits"]]
    joins = circuits(ports) if ports else None
    return Outcome(
        path=step["path"],
        demand=step["demand"],
        seconds=(ended - begun) / 1e9,
        gather_seconds=longest("gather"),
        exchange_seconds=longest("exchange"),
        local_seconds=longest("local"),
        scatter_seconds=longest("scatter"),
        between_bytes=sum(map(sum, sent)),
        ideal_seconds=busiest / (usable * rate),
        placed_seconds=nic / rate,
        sent=sent,
        received=received,
        detours=sum(nic["detours"] for row in first for nic in row["nics"]),
        resent=sum(nic["resent"] for row in first for nic in row["nics"]),
        circuits=None if joins is None else len(joins),
        joins=joins,
        landed=tuple(
            (source, target, (at - begun) / 1e9)
            for row in first
            for source, target, at in row["landed"] or ()
        ),
    )


def between(matrix: npt.NDArray[np.uint64], shape: Shape) -> npt.NDArray[np.uint64]:
    """Return what servers send each other [B], of what ranks send each other.

    Examples
    --------
    >>> matrix = np.arange(16, dtype=np.uint64).reshape(4, 4)
    >>> between(matrix, Shape(servers=2, ranks_per_server=2)).tolist()
    [[0, 18], [42, 0]]
    """
    servers, ranks = shape.servers, shape.ranks_per_server
    blocks = matrix.reshape(servers, ranks, servers, ranks)
    demand: npt.NDArray[np.uint64] = blocks.sum(axis=(1, 3), dtype=np.uint64)
    np.fill_diagonal(demand, 0)
    return demand


def _sides(demand: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    return demand.sum(axis=0), demand.sum(axis=1)
