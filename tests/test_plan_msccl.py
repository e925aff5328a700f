"""MSCCL programs, run chunk by chunk by an interpreter of the XML."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from typing import Any
from xml.etree import ElementTree

import pytest
from lightloom import _core
from lightloom.errors import InputError
from lightloom.plan.msccl import program


def run(text: str) -> list[dict[tuple[str, int], Any]]:
    """Execute a program; each chunk holds who contributed to which chunk of a buffer."""
    algo = ElementTree.fromstring(text)
    coll, count = algo.get("coll"), int(algo.get("ngpus", 0))
    chunks = int(algo.get("nchunksperloop", 0))
    memory: list[dict[tuple[str, int], Any]] = []
    threads, channels = {}, defaultdict(deque)
    for gpu in algo:
        rank = int(gpu.get("id", 0))
        own = defaultdict(lambda: None)
        if coll == "allgather":
            size = chunks // count
            own.update({("o", rank * size + c): (rank, rank * size + c) for c in range(size)})
        elif coll == "alltoall":
            own.update({("i", c): (rank, c) for c in range(chunks)})
        else:
            own.update({("i", c): frozenset([rank]) for c in range(chunks)})
        memory.append(own)
        for tb in gpu:
            threads[rank, int(tb.get("id", 0))] = (tb, list(tb))
            assert int(tb.get("chan", 0)) < int(algo.get("nchannels", 0))
    done = dict.fromkeys(threads, 0)
    # Threads take turns in an order that differs each round: dependencies must hold them back.
    for turn in range(100_000):
        moved = False
        order = sorted(threads, key=lambda key: hash((key, turn)))
        for key in order:
            rank, _ = key
            tb, steps = threads[key]
            if done[key] == len(steps):
                continue
            step = steps[done[key]].attrib
            if int(step["depid"]) >= 0 and done[rank, int(step["depid"])] <= int(step["deps"]):
                continue
            size = int(step["cnt"])
            source = [(step["srcbuf"], int(step["srcoff"]) + i) for i in range(size)]
            target = [(step["dstbuf"], int(step["dstoff"]) + i) for i in range(size)]
            kind, channel = step["type"], tb.get("chan")
            if kind == "s":
                values = [memory[rank][chunk] for chunk in source]
                assert None not in values, f"{rank} sends what it does not have"
                channels[rank, int(tb.get("send", 0)), channel].append(values)
            elif kind in ("r", "rrc"):
                queue = channels[int(tb.get("recv", 0)), rank, channel]
                if not queue:
                    continue
                values = queue.popleft()
                assert len(values) == size, "the two ends count differently"
                for chunk, value in zip(target, values, strict=True):
                    if kind == "rrc":
                        assert not memory[rank][chunk] & value, "counted twice"
                        value = memory[rank][chunk] | value
                    memory[rank][chunk] = value
            elif kind == "cpy":
                for chunk, other in zip(source, target, strict=True):
                    memory[rank][other] = memory[rank][chunk]
            done[key] += 1
            moved = True
        if not moved:
            break
    assert all(done[key] == len(threads[key][1]) for key in threads), "deadlock"
    return memory


def build(algorithm: str, nodes: int, split: list[tuple[int, int]]) -> str:
    messages = json.loads(_core.plan_messages(algorithm, nodes, 64_000))
    return program(algorithm, nodes, 4, messages, [split] * len(messages["steps"]))


@pytest.mark.parametrize("split", [[(0, 1)], [(0, 3), (2, 1)], [(0, 1), (1, 1), (3, 1)]])
@pytest.mark.parametrize("nodes", [2, 4, 6, 8])
@pytest.mark.parametrize("algorithm", sorted(_core.plan_algorithms()))
def test_everyone_ends_with_what_it_must_have(
    algorithm: str, nodes: int, split: list[tuple[int, int]]
) -> None:
    try:
        text = build(algorithm, nodes, split)
    except ValueError as error:
        assert "powers of two" in str(error)
        return
    except InputError as error:
        assert "broadcast" in str(error)
        return
    algo = ElementTree.fromstring(text)
    chunks = int(algo.get("nchunksperloop", 0))
    everyone = frozenset(range(nodes))
    for rank, memory in enumerate(run(text)):
        size = chunks // nodes
        if algo.get("coll") == "allreduce":
            assert all(memory["i", c] == everyone for c in range(chunks))
        elif algo.get("coll") == "reduce_scatter":
            assert all(memory["i", rank * size + c] == everyone for c in range(size))
        elif algo.get("coll") == "allgather":
            assert all(memory["o", c] == (c // size, c) for c in range(chunks))
        else:
            for c in range(chunks):
                assert memory["o", c] == (c // size, rank * size + c % size)


def test_what_cannot_be_said_is_refused() -> None:
    with pytest.raises(InputError, match="MSCCL has no broadcast"):
        build("binomial-broadcast", 4, [(0, 1)])
    with pytest.raises(InputError, match=r"step 0 is split over the planes as 0\.70%, 99\.30%"):
        build("recursive-doubling-allreduce", 4, [(0, 7), (1, 993)])
    with pytest.raises(InputError, match="steps in one thread block"):
        build("ring-allreduce", 256, [(0, 1)])
