"""Paths of packets chosen by a function in Python, as in a notebook's cell."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import Any

import lightloom
import pytest
from lightloom import InputError, Scenario
from lightloom.balancer import Balancer, Packet


def job(fabric: str = "fat-tree", **changes: Any) -> Scenario:
    """EP 8 on 32 GPUs: four servers, two layers, so that a run takes a second."""
    small = {
        "model.layers": 2,
        "parallelism.tp": 2,
        "parallelism.pp": 2,
        "training.sequence_length": 256,
        "training.micro_batch": 1,
        "training.micro_batches": 1,
        "cluster.gpus": 32,
        "engine.kind": "packet",
    }
    return Scenario.preset("mixtral-8x7b", fabric=fabric, **{**small, **changes})


class Rounds:
    """Round robin as the core has it."""

    def __init__(self) -> None:
        self.paths: dict[int, int] = {}

    def __call__(self, packet: Packet) -> int:
        path = self.paths.get(packet.flow, packet.turn) % len(packet.queues)
        self.paths[packet.flow] = path + 1
        return path


class Reps:
    """REPS as the core has it, where all paths are tried."""

    def __init__(self) -> None:
        self.good: dict[int, deque[int]] = defaultdict(lambda: deque(maxlen=8))
        self.round = Rounds()

    def __call__(self, packet: Packet) -> int:
        good = self.good[packet.flow]
        good.extend(heard.path for heard in packet.heard if not heard.marked)
        return good.popleft() if good else self.round(packet)


@pytest.mark.parametrize(
    ("function", "kind", "fabric"),
    [
        (Rounds(), "round-robin", "fat-tree"),
        (Rounds(), "round-robin", "mixnet"),
        (Reps(), "reps", "rail-optimized"),
    ],
)
def test_the_same_balancer_in_python_runs_the_same(
    function: Balancer, kind: str, fabric: str
) -> None:
    core = lightloom.simulate(job(fabric, **{"engine.balancer.kind": kind}))
    own = lightloom.simulate(job(fabric, **{"engine.balancer.kind": kind}), balancer=function)
    assert own.rows == core.rows
    assert own.links.equals(core.links)


def test_a_function_is_told_what_there_is_and_the_result_names_it() -> None:
    seen: list[Packet] = []

    def shortest(packet: Packet) -> int:
        seen.append(packet)
        return packet.queues.index(min(packet.queues))

    result = lightloom.simulate(job(), balancer=shortest)
    note = next(note for note in result.info["notes"] if "paths of packets" in note)
    assert "shortest, not by engine.balancer" in note
    assert all(packet.source != packet.destination for packet in seen)
    # A radix of 6: inside a pod, and between two that are full.
    assert {3, 9} <= {len(packet.queues) for packet in seen}
    assert any(max(packet.queues) > min(packet.queues) for packet in seen)
    heard = [heard for packet in seen for heard in packet.heard]
    assert heard and all(0 < one.round_trip_ps <= one.time_ps for one in heard)
    times = [packet.time_ps for packet in seen]
    assert times == sorted(times)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda packet: len(packet.queues), r"balancer: (\d) is no path; allowed: 0 to [2358]"),
        (lambda packet: -1, r"balancer: -1 is no path; allowed: 0 to [2358]"),
        (lambda packet: 0.5, r"must return a path, 0 to [2358]; it returned 0.5"),
        (lambda packet: None, r"must return a path, 0 to [2358]; it returned None"),
    ],
)
def test_what_a_function_may_not_return(wrong: Balancer, message: str) -> None:
    with pytest.raises(lightloom.LightloomError, match=message):
        lightloom.simulate(job(), balancer=wrong)


def test_an_exception_of_the_function_is_raised_and_nothing_is_asked_after_it() -> None:
    asked = []

    def broken(packet: Packet) -> int:
        asked.append(packet)
        raise ZeroDivisionError("a cell's mistake")

    with pytest.raises(ZeroDivisionError, match="a cell's mistake"):
        lightloom.simulate(job(), balancer=broken)
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("scenario", "message"),
    [
        (job(**{"engine.kind": "flow"}), r'engine.kind = "flow" asks for none; allowed: "packet"'),
        (
            job(**{"engine.balancer.kind": "ecmp"}),
            r'engine.balancer.kind = "ecmp" leaves each flow',
        ),
        (job("topoopt"), r'no two NICs of this fabric \("topoopt"\) have several paths'),
    ],
)
def test_where_nothing_would_ask_a_balancer_is_refused(scenario: Scenario, message: str) -> None:
    with pytest.raises(InputError, match=message):
        lightloom.simulate(scenario, balancer=Rounds())
