"""A non-uniform all-to-all on planes: what is asked, and the answers.

Modelled: planes that begin dark, no barriers, no multi-hop. Two ways to switch: planes as a whole
(matchings) or port by port. Compared with lockstep, which goes through the N - 1 rotations, each as
long as its largest entry, and with the ideal, the fullest node at its whole rate.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np

from lightloom import __version__, _core
from lightloom.errors import CoreErrors, InputError
from lightloom.plan.collective import Row, assembled
from lightloom.plan.demand import Matrix
from lightloom.plan.file import AllToAllTask, Made, Plan
from lightloom.plan.job import Planes
from lightloom.presets import unknown

CIRCUITS = ("matchings", "ports", "best")


@dataclass(frozen=True)
class AllToAllOutcome:
    """The answers to one demand, and the shortest plan of those asked."""

    pairs: int
    """Pairs of nodes that have something to send."""
    bytes: int
    one_shot_planes: int
    """Planes that circuits which never change would need."""
    rows: tuple[Row, ...]
    """One-shot, lockstep, ideal, and what was asked."""
    chosen: str
    plan: Plan


def plan_alltoall(
    demand: Matrix, planes: Planes, circuits: str = "best", source: str = "given"
) -> AllToAllOutcome:
    """Plan an all-to-all; the plan has been checked port by port.

    Parameters
    ----------
    demand
        Bytes [from, to]; the diagonal stays at home.
    planes
        Of as many nodes.
    circuits
        ``matchings``, ``ports`` or ``best``.
    source
        Where the demand comes from, for the plan to say.

    Raises
    ------
    InputError
        If the demand is empty, too large, or not of these nodes.
    RunError
        If a scheduler is wrong.

    Examples
    --------
    >>> demand = np.array([[0, 10_000_000], [5_000_000, 0]], np.uint64)
    >>> planes = Planes.of(nodes=2, planes=2, node_bandwidth="800 Gbps", reconfiguration="20 us",
    ...                    latency="0 us")
    >>> str(plan_alltoall(demand, planes).plan.completion)
    '120 us'
    """
    if circuits not in CIRCUITS:
        raise InputError(f'circuits "{circuits}": no such choice{unknown(circuits, CIRCUITS)}')
    if demand.shape != (planes.nodes, planes.nodes):
        raise InputError(f"demand: shape {list(demand.shape)} of {planes.nodes} nodes")
    request = {
        "planes": planes.planes,
        "node_bps": int(planes.node_bandwidth),
        "reconfiguration_ps": int(planes.reconfiguration),
        "latency_ps": int(planes.latency),
        "circuits": circuits,
    }
    flat = np.ascontiguousarray(demand, np.uint64).reshape(-1)
    with CoreErrors():
        text, tracks = _core.plan_alltoall(json.dumps(request), flat)
    answer = json.loads(text)
    needed = answer["one_shot_planes"]
    rows = [Row(**row, infeasible=None) for row in answer["rows"]]
    if needed > planes.planes:
        reason = f"one-shot needs {needed} planes, one a peer of the node that has most; there are"
        one_shot = Row("one-shot", None, None, None, f"{reason} {planes.planes}", 0, 0, 0)
        rows.insert(0, one_shot)
    chosen = answer["chosen"]
    made = Made(lightloom=__version__, scheduler=chosen, initial="dark", demand=source)
    task = AllToAllTask(kind="all-to-all", demand=tuple(tuple(row) for row in demand.tolist()))
    plan = assembled(tracks, made, task)
    return AllToAllOutcome(
        answer["pairs"], answer["bytes"], needed, tuple(rows), chosen, plan
    )  # fmt: skip
