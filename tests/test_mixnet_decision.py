"""Circuits for an all-to-all: against the optimum by HiGHS, and in a simulated region."""

from __future__ import annotations

import json
from typing import Any

import lightloom
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lightloom import _core
from lightloom.mixnet import gap
from lightloom.oracle.mixnet import Rates, solve

Demand = list[list[int]]


def chosen(demand: Demand, ports: list[int], rates: Rates, standing: Any = None) -> dict[str, Any]:
    request = {"demand": demand, "ports": ports, "standing": standing, **rates._asdict()}
    return dict(json.loads(_core.mixnet_circuits(json.dumps(request))))


@st.composite
def regions(draw: st.DrawFn) -> tuple[Demand, list[int], Rates]:
    n = draw(st.integers(2, 5))
    size = st.one_of(st.just(0), st.integers(1 << 20, 1 << 28))
    demand = [[0 if a == b else draw(size) for b in range(n)] for a in range(n)]
    demand[0][1] = max(demand[0][1], 1 << 20)  # there is something to send
    ports = [draw(st.integers(0, 3)) for _ in range(n)]
    rates = Rates(packet_nics=draw(st.integers(1, 2)), share_eps=draw(st.booleans()))
    return demand, ports, rates


@settings(max_examples=60, deadline=None)
@given(regions())
def test_no_circuits_are_faster_than_the_optimum(made: tuple[Demand, list[int], Rates]) -> None:
    demand, ports, rates = made
    answer = chosen(demand, ports, rates)
    times = {kind: one["time_ps"] for kind, one in answer.items()}
    best = solve(demand, ports, rates, float(times["timed"]))
    assert best.bound_ps <= times["timed"] * (1 + 1e-6)
    assert times["timed"] <= min(times["algorithm_1"], times["standing"])
    for one in answer.values():
        for a, row in enumerate(one["counts"]):
            assert sum(row) <= ports[a] and row[a] == 0
            assert all(one["counts"][b][a] == circuits for b, circuits in enumerate(row))


@settings(max_examples=30, deadline=None)
@given(regions(), st.randoms(use_true_random=False))
def test_names_of_servers_do_not_matter_to_the_optimum(
    made: tuple[Demand, list[int], Rates], random: Any
) -> None:
    demand, ports, rates = made
    order = list(range(len(ports)))
    random.shuffle(order)
    other = [[demand[a][b] for b in order] for a in order]
    time = chosen(demand, ports, rates)["timed"]["time_ps"]
    one = solve(demand, ports, rates, float(time)).bound_ps
    two = solve(other, [ports[a] for a in order], rates, float(time)).bound_ps
    assert one == pytest.approx(two, rel=1e-5)


def check(gaps: list[gap.Gap]) -> None:
    assert all(one.timed_ps <= one.algorithm_1_ps for one in gaps)
    assert all(one.timed >= -1e-6 for one in gaps)
    assert sum(one.timed for one in gaps) / len(gaps) <= 0.10, gap.summary(gaps)


def test_recorded_demands_are_served_within_a_tenth_of_the_optimum() -> None:
    check(gap.measure(gap.recorded(20)))


@pytest.mark.soak
def test_two_hundred_recorded_demands() -> None:
    gaps = gap.measure(gap.recorded(200))
    check(gaps)
    print(gap.summary(gaps))


def test_bad_requests_are_refused() -> None:
    with pytest.raises(ValueError, match="demand: must be 2 rows of 2"):
        chosen([[0, 1], [1]], [1, 1], Rates())
    with pytest.raises(ValueError, match="ports: 1 numbers; must be 2"):
        chosen([[0, 1], [1, 0]], [1], Rates())
    with pytest.raises(ValueError, match="more circuits than ports"):
        chosen([[0, 1], [1, 0]], [1, 1], Rates(), standing=[[0, 2], [2, 0]])


WHEN = ("first_forward", "second_forward", "backward")


def simulated(tmp_path: Any, name: str, **changes: Any) -> Any:
    job = lightloom.Scenario.preset(
        "mixtral-8x22b", gpus=64, fabric="mixnet", bandwidth="100 Gbps",
        **{"parallelism.pp": 1, "training.micro_batches": 1, "model.layers": 2, **changes},
    )  # fmt: skip
    return lightloom.simulate(job, out=tmp_path / name)


def test_an_exchange_takes_what_was_estimated(tmp_path: Any) -> None:
    """Of one region alone, but for gathering before and scattering after."""
    free = {"fabric.ocs.delay": "1 us", "fabric.hysteresis": False}
    hide = {f"fabric.reconfigure.{when}": "hide" for when in WHEN}
    keep = {f"fabric.reconfigure.{when}": "reuse" for when in WHEN}
    for name, policy, kind in (("timed", hide, "timed"), ("kept", keep, "standing")):
        result = simulated(tmp_path, name, **free, **policy, **{"fabric.decision": "timed"})
        rows = [row for row in result.demand.to_pylist() if row["layer"] == 1]
        demand = [[0] * 8 for _ in range(8)]
        circuits = [[0] * 8 for _ in range(8)]
        for row in rows:
            demand[row["source"]][row["destination"]] = row["bytes"]
            circuits[row["source"]][row["destination"]] = row["circuits"]
        rates = Rates(optical_bps=10**11, packet_bps=10**11)
        estimate = chosen(demand, [6] * 8, rates, standing=circuits)
        (task,) = [
            task
            for task in result.tasks.to_pylist()
            if (task["kind"], task["layer"], task["pass"]) == ("dispatch", 1, "forward")
        ]
        took = task["end_ps"] - task["start_ps"]
        expected = estimate["standing"]["time_ps"]
        assert expected <= took <= 1.15 * expected, kind


def test_hysteresis_and_prediction_say_what_they_did(tmp_path: Any) -> None:
    every = {"fabric.decision": "algorithm-1", "fabric.hysteresis": False}
    printed = simulated(tmp_path, "printed", **every).rows[0]
    weighed = simulated(tmp_path, "weighed").rows[0]
    assert weighed["reconfiguration_s"] <= printed["reconfiguration_s"]
    assert weighed["iteration_s"] <= printed["iteration_s"]
    ahead = {"fabric.reconfigure.first_forward": "predict"}
    result = simulated(tmp_path, "predicted", **ahead, **{"fabric.ocs.delay": "1 ms"})
    (note,) = [note for note in result.info["notes"] if "predicted" in note]
    assert note.startswith(("2 demands were predicted: ", "1 demands were predicted: "))
