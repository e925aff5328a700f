"""Circuits chosen by a function in Python, as in a notebook's cell."""

from __future__ import annotations

import lightloom
import numpy as np
import pytest
from lightloom import InputError, Scenario


def job(**changes: object) -> Scenario:
    settings = {"training.micro_batches": 1, "fabric.hysteresis": False, **changes}
    return Scenario.preset("mixtral-8x7b", gpus=128, fabric="mixnet").with_(**settings)


def neighbours(demand, standing, ports, rates):
    """All circuits of a server to the next one and the one before, in a ring."""
    circuits = np.zeros_like(standing)
    n = len(ports)
    for server in range(n):
        after = (server + 1) % n
        circuits[server, after] = circuits[after, server] = ports.min() // 2
    return circuits


def test_a_function_decides_and_the_result_says_so() -> None:
    asked = []

    def decision(demand, standing, ports, rates):
        asked.append((demand, standing, ports, rates))
        return neighbours(demand, standing, ports, rates)

    result = lightloom.simulate(job(), decision=decision)
    servers = job().region_servers
    demand, standing, ports, rates = asked[0]
    assert demand.shape == standing.shape == (servers, servers)
    assert (np.diag(demand) == 0).all() and demand.sum() > 0
    assert ports.tolist() == [6] * servers
    assert (rates.circuit_bps, rates.packet_nics) == (400 * 10**9, 2)
    note = next(note for note in result.info["notes"] if "circuits were chosen by" in note)
    assert "test_a_function_decides" in note
    table = result.demand.to_pylist()
    joined = {(row["source"], row["destination"]): row["circuits"] for row in table}
    assert joined[0, 1] == 3 and joined.get((0, 2), 0) == 0


def test_the_same_rule_in_python_runs_the_same() -> None:
    # Four servers: Algorithm 1 of the core, by its own answer for every demand.
    def algorithm_1(demand, standing, ports, rates):
        both = demand + demand.T
        circuits, free = np.zeros_like(standing), ports.copy()
        pairs = [(a, b) for a in range(len(ports)) for b in range(a + 1, len(ports)) if both[a, b]]
        alive = set(pairs)
        n = len(ports)
        while alive:

            def time(pair):
                count = circuits[pair]
                apart = (pair[1] - pair[0]) % n
                near = min(apart, n - apart)
                slow = float("inf") if count == 0 else both[pair] / count
                return (-slow, -both[pair] if count == 0 else 0, near, pair)

            a, b = min(alive, key=time)
            if free[a] and free[b]:
                circuits[a, b] += 1
                circuits[b, a] += 1
                free[a] -= 1
                free[b] -= 1
            else:
                alive.discard((a, b))
        return circuits

    own = lightloom.simulate(job(), decision=algorithm_1)
    core = lightloom.simulate(job(**{"fabric.decision": "algorithm-1"}))
    assert own.rows[0]["iteration_s"] == core.rows[0]["iteration_s"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda d, s, p, r: s[:1], "rows of"),
        (lambda d, s, p, r: s * 0.5, "whole numbers"),
        (lambda d, s, p, r: s + 9, "to itself"),
        (lambda d, s, p, r: np.triu(np.ones_like(s), 1), "0 back"),
        (lambda d, s, p, r: 9 * (1 - np.eye(len(p), dtype=int)), "too few ports"),
        (lambda d, s, p, r: 4 * (1 - np.eye(len(p), dtype=int)), "which has 6 ports"),
    ],
)
def test_what_a_function_may_not_return(wrong, message: str) -> None:
    with pytest.raises(lightloom.LightloomError, match=message):
        lightloom.simulate(job(), decision=wrong)


def test_an_exception_of_the_function_is_raised() -> None:
    def broken(demand, standing, ports, rates):
        raise ZeroDivisionError("a cell's mistake")

    with pytest.raises(ZeroDivisionError, match="a cell's mistake"):
        lightloom.simulate(job(), decision=broken)


def test_threads_that_take_replicas_ask_the_function_too() -> None:
    three = Scenario.preset("mixtral-8x7b", gpus=3 * 128, fabric="mixnet").with_(
        **{"training.micro_batches": 2, "model.layers": 4, "fabric.hysteresis": False}
    )
    alone = lightloom.simulate(three, decision=neighbours)
    for threads in (2, 3, 5):
        run = lightloom.simulate(three, decision=neighbours, threads=threads)
        assert run.tasks.equals(alone.tasks)
        assert run.links.equals(alone.links)

    def broken(demand, standing, ports, rates):
        raise ZeroDivisionError("a cell's mistake")

    with pytest.raises(ZeroDivisionError, match="a cell's mistake"):
        lightloom.simulate(three, decision=broken, threads=3)


def test_a_fabric_without_decisions_refuses_one() -> None:
    plain = Scenario.preset("mixtral-8x7b", gpus=128, fabric="fat-tree")
    with pytest.raises(InputError, match=r'fabric\.kind = "fat-tree" chooses no circuits'):
        lightloom.simulate(plain, decision=neighbours)
