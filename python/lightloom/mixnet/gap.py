"""How far chosen circuits are from the best ones: Algorithm 1 and `timed` against HiGHS.

Demands are recorded ones of a region of eight servers: Mixtral 8x22B's gates (an expert a server)
and DeepSeek-R1's (32 experts a server), from the recordings that ship, one iteration and layer
each, spread over the recording; or made up. The gap is the time of the exchange over the optimum's
bound, less one. Checked: nothing is faster than the bound, in ``tests/test_mixnet_decision.py``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from lightloom import _core
from lightloom.oracle.mixnet import Rates, solve
from lightloom.trace import GatingTrace

SERVERS, NICS, TOKEN_BYTES = 8, 6, 8192
RATES = Rates()
TRACES = {"e8k2": (8, 2), "e256k8": (256, 8)}
"""Experts and top-k of the recordings."""


class Gap(NamedTuple):
    """One demand: how long its exchange takes with which circuits [ps]."""

    name: str
    """Which trace, iteration and layer."""
    bound_ps: float
    """No circuits are faster."""
    algorithm_1_ps: int
    timed_ps: int

    @property
    def algorithm_1(self) -> float:
        """How far Algorithm 1 is above the bound, as a share of it."""
        return self.algorithm_1_ps / self.bound_ps - 1

    @property
    def timed(self) -> float:
        """How far `timed` is above the bound, as a share of it.

        >>> Gap("a demand", 100.0, 150, 104).timed
        0.040000000000000036
        """
        return self.timed_ps / self.bound_ps - 1


def recorded(count: int) -> Iterator[tuple[str, list[list[int]]]]:
    """Yield so many demands between servers [B], half of them of each recording.

    >>> name, demand = next(recorded(2))
    >>> name, len(demand), demand[0][0]
    ('e8k2, iteration 0, layer 0', 8, 0)
    """
    for at, (trace, kind) in enumerate(TRACES.items()):
        counts = GatingTrace.builtin(*kind).counts
        iterations, layers = counts.shape[:2]
        wanted = count // 2 + (count % 2 if at == 0 else 0)
        for index in range(wanted):
            iteration = index * iterations // wanted
            layer = index % layers
            matrix = counts[iteration, layer].astype(np.int64)
            rows = matrix.reshape(SERVERS, -1, matrix.shape[1]).sum(axis=1)
            blocks = rows.reshape(SERVERS, SERVERS, -1).sum(axis=2) * TOKEN_BYTES
            np.fill_diagonal(blocks, 0)
            yield f"{trace}, iteration {iteration}, layer {layer}", blocks.tolist()


def random(count: int, seed: int = 1) -> Iterator[tuple[str, list[list[int]]]]:
    """Yield so many made-up demands: log-normal, every other one half empty."""
    draw = np.random.default_rng(seed)
    for index in range(count):
        sizes = np.exp(draw.normal(17, 1, (SERVERS, SERVERS)))
        if index % 2:
            sizes *= draw.random((SERVERS, SERVERS)) < 0.5
        np.fill_diagonal(sizes, 0)
        yield f"random {index}", sizes.astype(np.int64).tolist()


def measure(
    demands: Iterator[tuple[str, list[list[int]]]],
    rates: Rates = RATES,
    seconds: float = 20.0,
    told: Callable[[Gap], None] = lambda _gap: None,
) -> list[Gap]:
    """Choose circuits for each demand, from none that stand, and find the optimum.

    Parameters
    ----------
    demands
        Names, and bytes from each server to each other one.
    rates
        Of NICs.
    seconds
        How long HiGHS may take for each; after that its bound counts.
    told
        Called with each gap.

    Raises
    ------
    RunError
        If HiGHS fails.
    """
    gaps = []
    for name, demand in demands:
        ports = [NICS] * len(demand)
        request = {"demand": demand, "ports": ports, "standing": None, **rates._asdict()}
        answer = json.loads(_core.mixnet_circuits(json.dumps(request)))
        printed, timed = answer["algorithm_1"]["time_ps"], answer["timed"]["time_ps"]
        best = solve(demand, ports, rates, float(min(printed, timed)), seconds)
        gaps.append(Gap(name, max(best.bound_ps, 1.0), printed, timed))
        told(gaps[-1])
    return gaps


def summary(gaps: Sequence[Gap]) -> str:
    """Return mean and worst of both, in words."""
    lines = []
    for kind in ("algorithm_1", "timed"):
        worst = max(gaps, key=lambda gap: getattr(gap, kind))
        mean = sum(getattr(gap, kind) for gap in gaps) / len(gaps)
        most = getattr(worst, kind)
        lines.append(
            f"{kind.replace('_', '-')}: {mean:.1%} above the optimum on average, "
            f"{most:.1%} at worst ({worst.name})"
        )
    return "\n".join(lines)
