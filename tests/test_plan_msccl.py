"""MSCCL programs, run chunk by chunk by an interpreter of the XML."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lightloom import _core
from lightloom.errors import InputError
from lightloom.plan import Job, algorithms, msccl, plan_collective
from lightloom.plan.msccl import program

Place = tuple[str, int]


@dataclass
class Thread:
    """A thread block: where it stands, and how many chunks of its step are done."""

    rank: int
    send: int
    receive: int
    channel: int
    steps: list[dict[str, str]]
    at: int = 0
    chunk: int = 0


@dataclass
class Machine:
    """GPUs that run a program; each chunk holds who contributed to which chunk of a buffer."""

    memory: list[dict[Place, Any]] = field(default_factory=list)
    threads: dict[tuple[int, int], Thread] = field(default_factory=dict)
    channels: dict[tuple[int, int, int], Any] = field(default_factory=dict)

    def advance(self, thread: Thread) -> bool:
        """Move a chunk, if the next one can be; a channel holds one."""
        step = thread.steps[thread.at]
        kind, rank = step["type"], thread.rank
        wait = int(step["depid"])
        if thread.chunk == 0 and wait >= 0:
            other = self.threads[rank, wait]
            assert other.steps[int(step["deps"])]["hasdep"] == "1", "nobody would tell"
            if other.at <= int(step["deps"]):
                return False
        own = self.memory[rank]
        source = (step["srcbuf"], int(step["srcoff"]) + thread.chunk)
        target = (step["dstbuf"], int(step["dstoff"]) + thread.chunk)
        if kind == "s":
            channel = (rank, thread.send, thread.channel)
            if self.channels.get(channel) is not None:
                return False
            assert own.get(source) is not None, f"{rank} sends what it does not have"
            self.channels[channel] = own[source]
        elif kind in ("r", "rrc"):
            channel = (thread.receive, rank, thread.channel)
            value = self.channels.get(channel)
            if value is None:
                return False
            self.channels[channel] = None
            if kind == "rrc":
                assert not own[target] & value, "counted twice"
                value = own[target] | value
            own[target] = value
        elif kind == "cpy":
            own[target] = own[source]
        else:
            assert kind == "nop", kind
        thread.chunk += 1
        if thread.chunk >= int(step["cnt"]):
            thread.at, thread.chunk = thread.at + 1, 0
        return True


def run(text: str, seed: int = 0) -> list[dict[Place, Any]]:
    """Execute a program, thread blocks taking turns at random; returns what each GPU holds."""
    algo = ElementTree.fromstring(text)
    coll, count = algo.attrib["coll"], int(algo.attrib["ngpus"])
    chunks = int(algo.attrib["nchunksperloop"])
    machine = Machine()
    for rank, gpu in enumerate(algo):
        assert int(gpu.attrib["id"]) == rank
        own: dict[Place, Any]
        if coll == "allgather":
            size = chunks // count
            own = {("o", rank * size + c): (rank, rank * size + c) for c in range(size)}
        elif coll == "alltoall":
            own = {("i", c): (rank, c) for c in range(chunks)}
        else:
            own = {("i", c): frozenset([rank]) for c in range(chunks)}
        machine.memory.append(own)
        for number, tb in enumerate(gpu):
            assert int(tb.attrib["id"]) == number
            send, receive, channel = (int(tb.attrib[key]) for key in ("send", "recv", "chan"))
            steps = [step.attrib for step in tb]
            machine.threads[rank, number] = Thread(rank, send, receive, channel, steps)
    draw = random.Random(seed)
    open_threads = list(machine.threads.values())
    while open_threads:
        draw.shuffle(open_threads)
        moved = [machine.advance(thread) for thread in open_threads]
        assert any(moved), "deadlock"
        open_threads = [thread for thread in open_threads if thread.at < len(thread.steps)]
    return machine.memory


def check(text: str, seed: int = 0) -> None:
    """Everybody ends with what the collective promises, and the runtime would take the program."""
    algo = ElementTree.fromstring(text)
    chunks, nodes = int(algo.attrib["nchunksperloop"]), int(algo.attrib["ngpus"])
    size, everyone = chunks // nodes, frozenset(range(nodes))
    for rank, memory in enumerate(run(text, seed)):
        match algo.attrib["coll"]:
            case "allreduce":
                assert all(memory["i", c] == everyone for c in range(chunks))
            case "reducescatter":
                assert all(memory["i", rank * size + c] == everyone for c in range(size))
            case "allgather":
                assert all(memory["o", c] == (c // size, c) for c in range(chunks))
            case "alltoall":
                for c in range(chunks):
                    assert memory["o", c] == (c // size, rank * size + c % size)
            case other:
                raise AssertionError(other)
    for gpu in algo:
        bounds = {key: int(gpu.attrib[f"{key}_chunks"]) for key in "ios"}
        ends: Counter[tuple[str, ...]] = Counter()
        for tb in gpu:
            assert int(tb.attrib["chan"]) < int(algo.attrib["nchannels"])
            ends.update((key, tb.attrib[key], tb.attrib["chan"]) for key in ("send", "recv")
                        if tb.attrib[key] != "-1")  # fmt: skip
            before = ""
            for s, step in enumerate(tb):
                assert int(step.attrib["s"]) == s
                kind, cnt = step.attrib["type"], int(step.attrib["cnt"])
                for key in ("src", "dst"):
                    offset, buffer = int(step.attrib[f"{key}off"]), step.attrib[f"{key}buf"]
                    used = kind in ("cpy", "rrc") or (kind == "s") == (key == "src")
                    if kind != "nop" and used:
                        assert offset >= 0 and offset + cnt <= bounds[buffer]
                assert cnt < 72
                # Of a chain of things to wait for, the last is the step's own.
                assert before != "nop" or step.attrib["depid"] != "-1"
                before = kind
            assert before != "nop"
        assert max(ends.values()) == 1, "two thread blocks at one end of a channel"


def build(algorithm: str, nodes: int, split: list[tuple[int, int]]) -> str:
    messages = json.loads(_core.plan_messages(algorithm, nodes, 64_000))
    return program(algorithm, nodes, 4, messages, [split] * len(messages["steps"]))


@pytest.mark.parametrize("split", [[(0, 1)], [(0, 3), (2, 1)], [(0, 1), (1, 1), (3, 1)]])
@pytest.mark.parametrize("nodes", [2, 3, 4, 6, 8])
@pytest.mark.parametrize("algorithm", [*sorted(algorithms()), "bruck-alltoall:3"])
def test_everyone_ends_with_what_it_must_have(
    algorithm: str, nodes: int, split: list[tuple[int, int]]
) -> None:
    try:
        text = build(algorithm, nodes, split)
    except ValueError as error:
        assert "powers of two" in str(error) or "radix" in str(error)
    except InputError as error:
        assert "broadcast" in str(error)
    else:
        for seed in range(3):
            check(text, seed)


@pytest.mark.parametrize(
    "algorithm", ["rabenseifner-allreduce", "recursive-doubling-allreduce", "bruck-alltoall:4"]
)
def test_plans_whose_planes_share_unevenly(algorithm: str) -> None:
    job = Job.of(algorithm, nodes=16, size="64 MB", planes=4, node_bandwidth="800 Gbps",
                 reconfiguration="200 us", latency="5 us")  # fmt: skip
    plan = plan_collective(job, plan="swot").plan
    assert plan is not None
    check(plan.msccl())
    # Bytes over a plane are the plan's, nearly.
    algo = ElementTree.fromstring(plan.msccl())
    chunk = 64e6 / int(algo.attrib["nchunksperloop"])
    for rank, gpu in enumerate(algo):
        sent: Counter[int] = Counter()
        for tb in gpu:
            chunks = sum(int(s.attrib["cnt"]) for s in tb if s.attrib["type"] == "s")
            sent[int(tb.attrib["chan"])] += chunks
        planned: Counter[int] = Counter()
        for send in plan.nodes[rank].transmissions:
            planned[send.plane] += send.bytes
        for plane, size in planned.items():
            assert sent[plane] * chunk == pytest.approx(size, abs=0.005 * 2 * planned.total())


def test_what_a_step_waits_for_is_needed() -> None:
    algo = ElementTree.fromstring(build("ring-allreduce", 4, [(0, 3), (2, 1)]))
    waits = [step for step in algo.iter("step") if step.attrib["depid"] != "-1"]
    assert waits
    for step in waits:
        step.attrib["depid"] = "-1"
    text = ElementTree.tostring(algo, encoding="unicode")
    failures = 0
    for seed in range(20):
        try:
            check(text, seed)
        except AssertionError:
            failures += 1
    assert failures > 10


@settings(max_examples=40)
@given(st.lists(st.lists(st.integers(1, 10**9), min_size=1, max_size=4), min_size=3, max_size=3))
def test_any_split_can_be_said(volumes: list[list[int]]) -> None:
    splits = [list(enumerate(step)) for step in volumes]
    messages = json.loads(_core.plan_messages("pairwise-alltoall", 4, 64_000))
    check(program("demo", 4, 4, messages, splits))


def test_what_cannot_be_said_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="cannot say whose buffer a broadcast is of"):
        build("binomial-broadcast", 4, [(0, 1)])
    with pytest.raises(InputError, match="258 steps in one thread block of GPU 0; MSCCL has 256"):
        build("ring-allreduce", 130, [(0, 1)])
    with pytest.raises(InputError, match="33 sends of GPU 0 on a channel; MSCCL has 32 at most"):
        build("pairwise-alltoall", 34, [(0, 1)])
    with pytest.raises(InputError, match="185 thread blocks of GPU 0; MSCCL has 128 at most"):
        build("pairwise-alltoall", 24, [(plane, 1) for plane in range(4)])
    messages = json.loads(_core.plan_messages("ring-allgather", 2, 10))
    with pytest.raises(InputError, match="33 channels, one a plane; MSCCL has 32 at most"):
        program("demo", 2, 33, messages, [[(0, 1)]])
    monkeypatch.setattr(msccl, "MOST_PLACES", 64)
    with pytest.raises(InputError, match=r"no 64 equal chunks .* step 1 is as 0\.70%, 99\.30%"):
        build("recursive-doubling-allreduce", 4, [(0, 7), (1, 993)])
