"""Circuits of a MixNet region: against the best there are, and against what is simulated."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import pytest
from lightloom import _core
from lightloom.oracle import mixnet_gap as gap
from lightloom.oracle.mixnet import Rates, solve
from lightloom.scenario import Scenario
from lightloom.simulation import simulate

_NEVER = {f"fabric.reconfigure.{phase}": "reuse" for phase in ("first_forward", "second_forward")}
_NEVER["fabric.reconfigure.backward"] = "reuse"


def _decide(demand: Any, ports: list[int], rates: Rates, standing: Any = None) -> Any:
    request = {"demand": demand, "ports": ports, "standing": standing} | rates._asdict()
    return json.loads(_core.mixnet_circuits(json.dumps(request)))


@pytest.mark.parametrize("share_eps", [False, True])
def test_the_reference_is_the_best_of_all_matchings(share_eps: bool) -> None:
    rates, ports = Rates(packet_nics=1, share_eps=share_eps), [2, 3, 2, 1]
    pairs = list(itertools.combinations(range(4), 2))
    for seed in range(6):
        demand = (np.random.default_rng(seed).lognormal(0, 1, (4, 4)) * 1e8).astype(int).tolist()
        best = np.inf
        for counts in itertools.product(range(4), repeat=len(pairs)):
            standing = [[0] * 4 for _ in range(4)]
            for (a, b), circuits in zip(pairs, counts, strict=True):
                standing[a][b] = standing[b][a] = circuits
            if all(sum(row) <= most for row, most in zip(standing, ports, strict=True)):
                said = _decide(demand, ports, rates, standing)
                best = min(best, said["standing"]["time_ps"])
        said = _decide(demand, ports, rates)
        found = solve(demand, ports, rates, said["algorithm_1"]["time_ps"])
        assert found.time_ps == pytest.approx(best, rel=1e-5)
        assert found.bound_ps <= found.time_ps * (1 + 1e-9)
        assert found.counts is not None
        again = _decide(demand, ports, rates, found.counts)
        assert again["standing"]["time_ps"] == pytest.approx(found.time_ps, rel=1e-5)


def test_a_server_without_packet_switches_needs_circuits() -> None:
    rates = Rates(packet_nics=0)
    ring = [[0, 5, 0, 0], [0, 0, 5, 0], [0, 0, 0, 5], [5, 0, 0, 0]]
    found = solve(ring, [2] * 4, rates, 1e9)
    assert found.counts == [[0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1, 0]]
    assert solve(ring, [1] * 4, rates, 1e9).counts is None


@pytest.mark.parametrize("model", gap.RECORDED)
@pytest.mark.parametrize("share_eps", [False, True])
def test_recorded_demands_are_near_the_best(model: str, share_eps: bool) -> None:
    gaps = gap.measure_all(gap.recorded(model, 20), share_eps)
    assert all(found.timed >= 1 - 1e-6 for found in gaps)
    assert np.mean([found.timed for found in gaps]) < 1.02
    assert np.mean([found.algorithm_1 for found in gaps]) > 1.2


def test_random_demands_are_near_the_best() -> None:
    gaps = gap.measure_all(gap.random(20))
    assert np.mean([found.timed for found in gaps]) < 1.1


@pytest.mark.parametrize("share_eps", [False, True])
@pytest.mark.parametrize("decision", ["algorithm-1", "timed"])
def test_an_all_to_all_alone_takes_the_time_it_is_judged_by(decision: str, share_eps: bool) -> None:
    """One layer, one stage, one replica: nothing else is on the network. What is not in the time
    is the gathering before and the scattering behind the exchange, by NVLink at nine times a NIC's
    rate, so a ninth of it each at most, and a few delays; and that flows which share packet NICs
    fairly may end after the busiest NIC alone would."""
    alone: dict[str, Any] = {
        "model.layers": 1,
        "parallelism.pp": 1,
        "training.micro_batches": 1,
        "training.overlap_gradients": False,
        "fabric.decision": decision,
        "fabric.hysteresis": False,
        "fabric.share_eps": share_eps,
        "fabric.ocs.delay": "1 us",
    }
    result = simulate(Scenario.preset("mixtral-8x22b", gpus=64, fabric="mixnet", **alone))
    demand, circuits = np.zeros((8, 8), dtype=int), np.zeros((8, 8), dtype=int)
    for row in result.demand.to_pylist():
        demand[row["source"], row["destination"]] = row["bytes"]
        circuits[row["source"], row["destination"]] = row["circuits"]
    np.fill_diagonal(demand, 0)
    np.fill_diagonal(circuits, 0)
    rates = Rates(share_eps=share_eps)
    said = _decide(demand.tolist(), [6] * 8, rates, circuits.tolist())
    judged = said["standing"]["time_ps"]
    kinds = ("dispatch", "combine")
    tasks = [task for task in result.tasks.to_pylist() if task["kind"] in kinds]
    assert len(tasks) == 4  # forward and backward
    for task in tasks:
        took = task["end_ps"] - task["start_ps"] - task["waited_ps"]
        assert judged <= took <= judged * (1.3 if share_eps else 1 + 2 / 9) + 20e6


def test_circuits_that_pay_are_not_worse_than_none_that_change() -> None:
    small: dict[str, Any] = {
        "parallelism.pp": 2,
        "model.layers": 8,
        "training.micro_batches": 4,
    }
    job = Scenario.preset("mixtral-8x22b", gpus=128, fabric="mixnet", **small)
    seconds = {}
    for name, changes in {
        "never": _NEVER,
        "algorithm 1": {"fabric.decision": "algorithm-1", "fabric.hysteresis": False},
        "timed": {"fabric.decision": "timed", "fabric.hysteresis": False},
        "pays": {"fabric.decision": "timed", "fabric.hysteresis": True},
    }.items():
        seconds[name] = simulate(job.with_(**changes)).runs.to_pylist()[0]["iteration_s"]
    assert seconds["pays"] <= 1.01 * seconds["never"]
    assert seconds["timed"] < seconds["algorithm 1"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"demand": [[0, 1]]}, "demand: must be 1 rows of 1 numbers"),
        ({"ports": [1]}, "ports: 1 numbers; must be 2"),
        ({"standing": [[0, 1]]}, "standing: must be 2 rows of 2 numbers"),
        ({"standing": [[0, 1], [0, 0]]}, "standing: must be symmetric"),
        ({"standing": [[0, 2], [2, 0]]}, "standing: server 0 has more circuits than ports"),
        ({"demand": [[0, -1], [0, 0]]}, "invalid value: integer `-1`"),
        ({"colour": 1}, "unknown field `colour`"),
    ],
)
def test_bad_requests_are_refused(changes: dict[str, Any], message: str) -> None:
    request = {"demand": [[0, 1], [0, 0]], "ports": [1, 1], "standing": None} | Rates()._asdict()
    with pytest.raises(ValueError, match=message):
        _core.mixnet_circuits(json.dumps(request | changes))
