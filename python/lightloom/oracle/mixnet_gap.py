"""How far circuits are from the best there are: Algorithm 1 and the search by time, against HiGHS.

Demands are recorded (an iteration and layer of the trace that a model runs on, placed as the
model's preset says) or random (log-normal, so that a few pairs send most). Each is decided from
dark, with every NIC at 400 Gbps. Checked: in ``tests/test_mixnet_decision.py``.

``python -m lightloom.oracle.mixnet_gap`` prints the table of ``docs/decisions.md``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lightloom import _core
from lightloom.gating import load_trace
from lightloom.oracle.mixnet import Rates, solve
from lightloom.scenario import Scenario

RECORDED = ("mixtral-8x22b", "deepseek-r1")
"""Models whose regions have eight servers of eight GPUs."""

Demand = npt.NDArray[np.int64]


class Gap(NamedTuple):
    """One demand, and what each way of choosing circuits makes of it."""

    name: str
    """Where the demand is from."""
    algorithm_1_ps: int
    timed_ps: int
    best_ps: float
    """The shortest known."""
    bound_ps: float
    """No circuits are faster; equal to `best_ps` where HiGHS proved it."""

    @property
    def timed(self) -> float:
        """Time of the search by time over the shortest."""
        return self.timed_ps / self.best_ps

    @property
    def algorithm_1(self) -> float:
        """Time of Algorithm 1 over the shortest."""
        return self.algorithm_1_ps / self.best_ps


def recorded(model: str, count: int, seed: int = 1) -> Iterator[tuple[str, Demand]]:
    """Draw `count` demands between a region's servers, each with its place in the trace [B].

    >>> name, demand = next(recorded("mixtral-8x22b", 1))
    >>> name.split(",")[0], demand.shape, int(demand.trace())
    ('mixtral-8x22b', (8, 8), 0)
    """
    job = Scenario.preset(model, gpus=1024)
    counts = load_trace(job).counts
    degrees, work = job.parallelism, job.training
    slices = degrees.tp * degrees.cp
    ep, ranks = degrees.ep, job.cluster.gpus_per_server // slices
    assigned = work.micro_batch * work.sequence_length // degrees.cp * job.model.top_k
    token_bytes = job.model.hidden * work.dispatch_bytes * degrees.cp
    drawn = np.random.default_rng(seed)
    for _ in range(count):
        iteration, layer = (int(drawn.integers(size)) for size in counts.shape[:2])
        sources, experts = counts.shape[2:]
        of_rank = counts[iteration, layer].astype(np.float64)
        of_rank = of_rank.reshape(ep, sources // ep, ep, experts // ep).sum(axis=(1, 3))
        shares = of_rank / of_rank.sum(axis=1, keepdims=True)
        of_server = shares.reshape(ep // ranks, ranks, ep // ranks, ranks).sum(axis=(1, 3))
        demand = np.rint(of_server * assigned * token_bytes).astype(np.int64)
        np.fill_diagonal(demand, 0)
        yield f"{model}, iteration {iteration}, layer {layer}", demand


def random(count: int, spread: float = 1.0, seed: int = 1) -> Iterator[tuple[str, Demand]]:
    """Make `count` demands of eight servers whose logarithms have the standard deviation `spread`.

    >>> [name for name, _ in random(2)]
    ['random 0', 'random 1']
    """
    drawn = np.random.default_rng(seed)
    for at in range(count):
        demand = (drawn.lognormal(0.0, spread, (8, 8)) * 1e8).astype(np.int64)
        np.fill_diagonal(demand, 0)
        yield f"random {at}", demand


def measure(name: str, demand: Demand, ports: Sequence[int], rates: Rates) -> Gap:
    """Decide for one demand by both ways and by HiGHS."""
    request = {"demand": demand.tolist(), "ports": list(ports), "standing": None}
    said = json.loads(_core.mixnet_circuits(json.dumps(request | rates._asdict())))
    printed, timed = said["algorithm_1"]["time_ps"], said["timed"]["time_ps"]
    known = min(printed, timed)
    found = solve(demand.tolist(), ports, rates, known, seconds=60.0)
    best = min(known, found.time_ps)
    return Gap(name, printed, timed, best, min(best, found.bound_ps))


def measure_all(demands: Iterable[tuple[str, Demand]], share_eps: bool = False) -> list[Gap]:
    """Decide for each of `demands`, with six circuits a server."""
    rates = Rates(share_eps=share_eps)
    return [measure(name, demand, [6] * len(demand), rates) for name, demand in demands]


def _rows(count: int) -> Iterator[str]:
    kinds = {model: list(recorded(model, count)) for model in RECORDED}
    for spread in (0.5, 1.0):
        kinds[f"random, spread {spread}"] = list(random(count, spread))
    yield "| demands | EPS shared | Algorithm 1 | by time | its worst | which |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for kind, demands in kinds.items():
        for share_eps in (False, True):
            gaps = measure_all(demands, share_eps)
            worst = max(gaps, key=lambda gap: gap.timed)
            printed = float(np.mean([gap.algorithm_1 for gap in gaps]))
            timed = float(np.mean([gap.timed for gap in gaps]))
            shared = "yes" if share_eps else "no"
            yield (
                f"| {kind} | {shared} | {printed:.3f} | {timed:.4f} | {worst.timed:.3f} "
                f"| {worst.name} |"
            )


if __name__ == "__main__":
    for row in _rows(200):
        print(row, flush=True)
