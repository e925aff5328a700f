"""A testbed in this machine: built, used by real agents, killed in the middle, and removed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from lightloom import daemon, testbed
from lightloom.errors import InputError
from lightloom.testbed import record, system
from lightloom.testbed.cables import batches
from lightloom.testbed.shape import Shape
from lightloom.units import Rate, Time
from testbed_agents import Agent, ask
from testbed_beds import standing
from testbed_flows import is_shaped, transfer

try:
    LIGHTLOOMD: str = daemon.find()
except InputError:
    pytest.skip("no lightloomd: make daemon", allow_module_level=True)

NAME = f"t{os.getpid() % 1_000_000}"
SHAPE = Shape(
    name=NAME, servers=3, ranks_per_server=2, eps_nics=1, ocs_nics=2,
    rate=Rate.parse("100 Mbps"), delay=Time.parse("10 ms"),
)  # fmt: skip


@pytest.fixture(scope="module")
def bed() -> Iterator[Shape]:
    with standing(SHAPE) as shape:
        yield shape


@pytest.fixture(scope="module")
def agents(bed: Shape) -> Iterator[list[Agent]]:
    agents = [Agent(bed, server) for server in range(bed.servers)]
    yield agents
    for agent in agents:
        agent.process.kill()
        agent.process.wait()


def test_bytes_go_over_the_circuits_that_the_controller_sets(
    bed: Shape, agents: list[Agent]
) -> None:
    for round, pair in enumerate([(0, 1), (1, 2), (0, 2), (0, 1)], 1):
        circuits = ask(agents, round, pair)
        joined = [(port, end) for port, end in enumerate(circuits[pair[0]]) if end]
        assert len(joined) == bed.ocs_nics and {end[0] for _, end in joined} == {pair[1]}
        for port, (server, far) in joined:
            near = (pair[0], bed.optical(pair[0])[port].address)
            there = (server, bed.optical(server)[far].address)
            assert is_shaped(bed, near, there, 2_000_000, bed.rate), round
    third = (2, bed.optical(2)[0].address)
    assert transfer(bed, (0, bed.optical(0)[0].address), third, 1000) is None


def test_packets_need_no_circuit_and_are_shaped(bed: Shape) -> None:
    ends = [(server, bed.packet(server)[0].address) for server in range(bed.servers)]
    assert is_shaped(bed, ends[0], ends[2], 2_000_000, bed.rate)


def test_status_says_what_went_through(bed: Shape, agents: list[Agent]) -> None:
    circuits = ask(agents, 10, (0, 1))
    port, (server, far) = next((port, end) for port, end in enumerate(circuits[0]) if end)
    near = (0, bed.optical(0)[port].address)
    before = sum(row["bytes"] for row in testbed.status(NAME)["switch"])
    assert transfer(bed, near, (server, bed.optical(server)[far].address), 500_000) is not None
    now = testbed.status(NAME)
    assert now["controller"]["region"] == NAME and now["controller"]["alarms"] == []
    assert [row["server"] for row in now["switch"]] == ["node-00"] * 2 + ["node-01"] * 2 + [
        "node-02"
    ] * 2
    assert sum(row["bytes"] for row in now["switch"]) > before + 500_000
    assert [row["open"] for row in now["filters"]] == [True] * 4 + [False] * 2
    done = subprocess.run(
        [sys.executable, "-m", "lightloom", "testbed", "status", "--name", NAME],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0 and "node-00" in done.stdout and "alarms: none" in done.stdout


def test_a_frozen_agent_closes_the_filter_and_nothing_more_gets_out(
    bed: Shape, agents: list[Agent]
) -> None:
    circuits = ask(agents, 20, (0, 1))
    port, (server, far) = next((port, end) for port, end in enumerate(circuits[0]) if end)
    near = (0, bed.optical(0)[port].address)
    there = (server, bed.optical(server)[far].address)
    assert transfer(bed, near, there, 1000) is not None
    agents[0].process.send_signal(signal.SIGSTOP)
    try:
        time.sleep(1.1)  # a lease
        before = testbed.status(NAME)
        assert transfer(bed, near, there, 1000) is None
        after = testbed.status(NAME)
    finally:
        agents[0].process.send_signal(signal.SIGCONT)
    key = [row["server"] == "node-00" for row in before["switch"]]
    forwarded = [
        sum(row["forwarded"] for row, ours in zip(now["switch"], key, strict=True) if ours)
        for now in (before, after)
    ]
    assert forwarded[0] == forwarded[1]
    assert after["filters"][port]["refused"] > before["filters"][port]["refused"]


def test_what_is_there_is_not_built_again(bed: Shape) -> None:
    with pytest.raises(InputError, match="is there already; `lightloom testbed down`"):
        testbed.up(bed)
    assert testbed.status(NAME)["shape"]["servers"] == 3


def left(name: str) -> list[str]:
    """Return what there is of a testbed."""
    mounted = Path("/proc/mounts").read_text().splitlines()
    mounts = [line for line in mounted if f"/{name}/" in line]
    names = [name for name in os.listdir(system.NAMESPACES) if name.startswith(f"{NAME}b-")]
    return [*mounts, *names, *([str(record.place(name))] if record.place(name).exists() else [])]


@pytest.mark.parametrize("after_s", [0.05, 0.2, 0.4, 0.6, 0.9])
def test_one_that_is_killed_in_the_middle_is_removed_whole(bed: Shape, after_s: float) -> None:
    name = f"{NAME}b"
    words = [sys.executable, "-m", "lightloom", "testbed", "up", "--name", name]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        time.sleep(after_s)
        process.kill()
    testbed.down(name)
    assert left(name) == []
    assert testbed.down(name) is False
    assert testbed.status(NAME)["controller"]["region"] == NAME, "the other one goes on"


def test_one_that_is_interrupted_leaves_nothing(bed: Shape) -> None:
    name = f"{NAME}b"
    words = [sys.executable, "-m", "lightloom", "testbed", "up", "--name", name]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None and "namespaces" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 130
    assert left(name) == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--servers", "1"], "--servers: 1: must be from 2 to 64"),
        (["--servers", "65"], "--servers: 65: must be from 2 to 64"),
        (["--ocs-nics", "0"], "--ocs-nics: 0: must be from 1 to 8"),
        (["--rate", "100"], "--rate: 100: "),
        (["--rate", "1 kbps"], "--rate: 1 kbps: must be from 1 Mbps to 40 Gbps"),
        (["--mtu", "575"], "--mtu: 575: must be from 576 to 9000"),
        (["--mtu", "9001"], "--mtu: 9001: must be from 576 to 9000"),
        (["--delay", "11 s"], "--delay: 11 s: must be from"),
        (["--name", "Über"], "--name: 'Über': must be 1 to 16 small letters"),
    ],
)
def test_bad_input(words: list[str], says: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "lightloom", "testbed", "up", *words], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done
    assert says in done.stderr


def test_a_status_of_nothing() -> None:
    if os.geteuid() != 0:
        pytest.skip("a testbed needs root")
    with pytest.raises(InputError, match="there is no such testbed"):
        testbed.status("nothing")


@pytest.mark.parametrize("servers", [2, 3, 5, 64])
@pytest.mark.parametrize("nics", [(1, 1), (2, 3), (8, 8)])
def test_names_and_addresses_are_all_different_and_fit(servers: int, nics: tuple[int, int]) -> None:
    shape = Shape(name="a" * 16, servers=servers, eps_nics=nics[0], ocs_nics=nics[1])
    every = [nic for at in range(servers) for nic in (*shape.packet(at), *shape.optical(at))]
    assert len({nic.address for nic in every}) == len({nic.far for nic in every}) == len(every)
    assert all(len(name) <= 15 for nic in every for name in (nic.name, nic.far))
    assert all(socket.inet_aton(nic.address) for nic in every)
    lines = [line for batch in batches(shape) for line in batch.lines]
    assert sum(line.startswith("link add") for line in lines) == len(every) + 1
    assert sum(line.startswith("qdisc add") for line in lines) == 2 * len(every)
