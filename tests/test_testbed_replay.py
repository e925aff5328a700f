"""A simulated iteration as steps, and carried out on a testbed that is built for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lightloom import Scenario, simulate, testbed
from lightloom.errors import InputError
from lightloom.testbed import demo, nics, replay, system
from lightloom.testbed.iteration import iteration
from lightloom.testbed.replay import shape_of
from lightloom.testbed.shape import Shape
from lightloom.units import Rate, Time

RATE = Rate(20_000_000)


def job(fabric: str = "mixnet", gpus: int = 32, **changes: Any) -> Scenario:
    """Two layers, on servers of eight GPUs and NICs."""
    values = {
        "model.layers": 2, "parallelism.pp": 1, "training.micro_batches": 1,
        "training.micro_batch": 1, "fabric.carrier": "auto",
    }  # fmt: skip
    return Scenario.preset("mixtral-8x7b", gpus=gpus, fabric=fabric, **values | changes)


def test_steps_are_the_tasks_of_the_simulation() -> None:
    scenario = job()
    result = simulate(scenario)
    found = iteration(scenario, result, RATE, 5.0)
    # Forward, then backward the other way round.
    assert [(it.kind, it.layer, it.direction) for it in found.steps] == [
        ("dispatch", 0, "forward"), ("combine", 0, "forward"), ("dispatch", 1, "forward"),
        ("combine", 1, "forward"), ("combine", 1, "backward"), ("dispatch", 1, "backward"),
        ("combine", 0, "backward"), ("dispatch", 0, "backward"),
    ]  # fmt: skip
    assert [it.when for it in found.steps] == ["block", "hide", "block", "hide", *["hide"] * 4]
    # The last layer's demand is used four times in a row, the first's twice, and twice again.
    assert [it.ahead["uses"] for it in found.steps] == [2, 1, 4, 3, 2, 1, 2, 1]
    assert all(it.ahead["hidden_ps"] == 0 for it in found.steps if it.when == "block")
    # Time is five times the simulation's, and all of it is somewhere.
    spans = sum(it.compute_s + it.simulated_s for it in found.steps) + found.after_s
    assert spans == pytest.approx(found.simulated_s)
    assert found.simulated_s == pytest.approx(5 * result.rows[0]["iteration_s"])
    # What comes back is what went, and so are gradients.
    for one, other in ((0, 1), (2, 3), (4, 5), (6, 7)):
        np.testing.assert_array_equal(found.demands[one], found.demands[other].T)
    np.testing.assert_array_equal(found.demands[2], found.demands[4])
    assert not found.demands.diagonal(axis1=1, axis2=2).any()


def test_bytes_keep_the_jobs_proportions() -> None:
    scenario = job()
    result = simulate(scenario)
    rows = [row for row in result.demand.to_pylist() if row["layer"] == 0]
    between = sum(row["bytes"] for row in rows if row["source"] != row["destination"])
    slow, fast = (iteration(scenario, result, RATE, slower) for slower in (10.0, 5.0))
    # So long as a byte takes at the job's NICs, times ten, its share takes at the testbed's.
    job_s = between * 8 / int(Rate.parse("400 Gbps"))
    testbed_s = float(slow.demands[0].sum()) * 8 / (int(RATE) * nics.Framing.of().share)
    assert testbed_s == pytest.approx(10 * job_s, rel=1e-4)
    assert float(slow.demands.sum()) == pytest.approx(2 * float(fast.demands.sum()), rel=1e-4)


def test_replicas_are_all_there() -> None:
    # Experts over eight of sixteen GPUs: two replicas of one server would send nothing.
    scenario = job(gpus=64, **{"parallelism.tp": 4, "parallelism.ep": 8})
    found = iteration(scenario, simulate(scenario), RATE, 5.0)
    assert found.demands.shape == (8, 8, 8)
    np.testing.assert_array_equal(found.demands[:, :4, :4], found.demands[:, 4:, 4:])
    assert not found.demands[:, :4, 4:].any()


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"training.micro_batches": 2}, "training.micro_batches: 2: must be 1"),
        (
            {"fabric.reconfigure.first_forward": "inside"},
            "fabric.reconfigure.first_forward: inside",
        ),
        ({"fabric.reconfigure.start": "dark"}, "fabric.reconfigure.start: dark: must be even"),
        ({"fabric.ocs.breakout": 2}, "fabric.ocs.breakout: 2: must be 1"),
        ({"fabric.share_eps": True}, "fabric.share_eps: True: must be False"),
        ({"fabric.ocs.device": "polatis-measured"}, "fabric.ocs.delay: must be one time"),
    ],
)
def test_jobs_that_no_testbed_can_carry_are_refused(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=f"^{why}"):
        replay(job(**changes), RATE)


@pytest.mark.parametrize(
    ("slower", "iterations", "why"),
    [(0.5, 1, "--slower: 0.5: must be from 1"), (5.0, 0, "--iterations: 0: must be from 1")],
)
def test_bad_numbers_are_refused(slower: float, iterations: int, why: str) -> None:
    with pytest.raises(InputError, match=why):
        replay(job(), RATE, slower, iterations)


def test_other_fabrics_are_refused() -> None:
    with pytest.raises(InputError, match=r"fabric\.kind: topoopt: must be one of mixnet, fat-tree"):
        replay(job("topoopt"), RATE)
    with pytest.raises(InputError, match=r"fabric\.oversubscription: 3\.0: must be 1\.0"):
        replay(job("fat-tree", **{"fabric.oversubscription": 3.0}), RATE)


@pytest.mark.parametrize("fabric", ["fat-tree", "mixnet"])
def test_a_testbed_carries_it_out(fabric: str) -> None:
    # Two servers of one NIC each on packets and one on circuits: as little as there can be.
    changes = {
        "cluster.gpus_per_server": 8, "cluster.nics_per_server": 8, "model.layers": 1,
        "parallelism.tp": 2, "parallelism.ep": 8,
    }  # fmt: skip
    if fabric == "mixnet":
        changes |= {"fabric.optical_nics": 7, "fabric.decision": "algorithm-1"}
    scenario = job(fabric, gpus=16, **changes)
    try:
        system.check()
        found = replay(scenario, Rate(5_000_000), 4.0, 2)
    except InputError as error:
        if "must be" in str(error):
            raise
        pytest.skip(f"no testbed can stand here: {error}")
    assert len(found.iteration_s) == 2
    optical = fabric == "mixnet"
    assert (found.shape.eps_nics, found.shape.ocs_nics) == ((1, 7) if optical else (8, 1))
    # What was slept is slept, and nothing is faster than its bytes.
    assert found.compute_s >= found.simulated_s - found.simulated_exchange_s - 1e-6
    assert found.median_s > found.compute_s
    assert found.median_s == pytest.approx(
        found.compute_s + found.waited_s + found.exchange_s, rel=0.2
    )
    assert json.loads(json.dumps(found.said()))["ratio"] == found.ratio
    assert not any(map(system.exists, found.shape.namespaces))


def test_the_controller_is_told_the_rule_and_the_switchs_delay(tmp_path: Path) -> None:
    from lightloom.testbed.up import region_file

    shape = Shape(delay=Time.parse("40 ms"), decision="algorithm-1", hysteresis=False)
    assert Shape.heard(json.loads(json.dumps(shape.said()))) == shape
    lines = region_file(shape, tmp_path).splitlines()
    assert {'kind = "algorithm-1"', "hysteresis = false", 'delay = "40 ms"'} <= set(lines)
    with pytest.raises(InputError, match="--decision: best: must be one of timed, algorithm-1"):
        testbed.Shape(decision="best")
    with pytest.raises(InputError, match="--decision: matchings: is not read without a region's"):
        testbed.Shape(decision="matchings", eps="railx", grid="3x3")
    with pytest.raises(InputError, match="--no-hysteresis: is not read without a region's"):
        testbed.Shape(hysteresis=False, planes=2)


def test_the_demo_has_its_rows_and_refuses_numbers() -> None:
    for at in (demo.HOT, demo.EVEN):
        rows = dict(demo.eight(at))
        assert [len(rows), rows["MixNet, the preset"].fabric.hysteresis] == [3, True]
        for scenario in rows.values():
            assert shape_of(scenario, RATE, 20.0).servers == 8
            assert len(iteration(scenario, simulate(scenario), RATE, 20.0).steps) == 16
    with pytest.raises(InputError, match=r"--seconds: 0\.5: must be from 1 to 600"):
        demo.demo(RATE, 0.5, 0)
