"""Things break while ranks exchange bytes: what can go on goes on, and what cannot ends soon."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from lightloom import daemon
from lightloom.errors import InputError
from lightloom.testbed import system
from lightloom.testbed.shape import Shape
from lightloom.units import Rate, Time
from testbed_beds import kill, processes, standing

try:
    daemon.find()
except InputError:
    pytest.skip("no lightloomd: make daemon", allow_module_level=True)

HERE = Path(__file__).parent
# How long ranks exchange before and after something breaks [s].
BEFORE_S, AFTER_S = 1.0, 3.0
# Nothing hangs longer [s].
LONGEST_S = 30.0


def shape_of(eps_nics: int, ocs_nics: int) -> Shape:
    return Shape(
        name=f"f{os.getpid() % 1_000_000}", servers=3, ranks_per_server=2, eps_nics=eps_nics,
        ocs_nics=ocs_nics, rate=Rate.parse("50 Mbps"), delay=Time.parse("10 ms"),
    )  # fmt: skip


@pytest.fixture
def bed() -> Iterator[Shape]:
    with standing(shape_of(2, 2)) as shape:
        yield shape


@pytest.fixture
def sparse_bed() -> Iterator[Shape]:
    """One NIC of each kind: a circuit joins two of the servers, and the third has none.

    With two packet NICs the controller may take it away: the two are faster than a circuit.
    """
    with standing(shape_of(1, 1)) as shape:
        yield shape


def nic(shape: Shape) -> None:
    system.call("ip", "-n", shape.namespace(1), "link", "set", "eps0", "down")


def cable(shape: Shape) -> None:
    system.call("ip", "-n", shape.switches[0], "link", "set", "node-02-eps1", "down")


def optical_nic(shape: Shape) -> None:
    for at in range(shape.ocs_nics):
        system.call("ip", "-n", shape.namespace(0), "link", "set", f"ocs{at}", "down")


def switch(shape: Shape) -> None:
    kill(shape, "ocs", "serve")


def controller(shape: Shape) -> None:
    kill(shape, "controller", "serve")


def agent(shape: Shape) -> None:
    kill(shape, "agent", "serve", "node-01")


def frozen(shape: Shape) -> None:
    (pid,) = processes(shape, "runtime", "serve", "node-01")
    os.kill(pid, signal.SIGSTOP)
    time.sleep(2)
    os.kill(pid, signal.SIGCONT)


def break_while_it_runs(
    shape: Shape, place: Path, fault: Callable[[Shape], None]
) -> tuple[int, str, list[dict[str, Any]], float]:
    """Run the loop, break something after a second, and return what came of it."""
    words = [sys.executable, "-m", "lightloom", "testbed", "run", "--name", shape.name, "--"]
    words += [sys.executable, str(HERE / "collective_loop.py"), str(place)]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as running:
        try:
            until = time.monotonic() + 30
            while not (place / "begun").exists():
                assert time.monotonic() < until and running.poll() is None
                time.sleep(0.05)
            time.sleep(BEFORE_S)
            broken = time.monotonic()
            fault(shape)
            time.sleep(AFTER_S)
            (place / "end").touch()
            _, errors = running.communicate(timeout=LONGEST_S)
        except BaseException:
            running.terminate()  # it ends the ranks
            raise
    said = [json.loads(file.read_text()) for file in sorted(place.glob("rank-*.json"))]
    return running.returncode, errors, said, broken


@pytest.mark.parametrize(
    "fault",
    [nic, cable, optical_nic, switch, controller, agent, frozen],
    ids=lambda it: it.__name__,
)
def test_collectives_go_on(bed: Shape, tmp_path: Path, fault: Callable[[Shape], None]) -> None:
    code, errors, said, broken = break_while_it_runs(bed, tmp_path, fault)
    assert code == 0, (errors, [row["error"] for row in said])
    assert len(said) == bed.servers * bed.ranks_per_server
    assert said[0]["circuits"] > 0, "what breaks was in use"
    assert any(nic["circuit"] and nic["bytes_sent"] > 1e5 for nic in said[0]["nics"])
    times = said[0]["times"]
    after = [b - a for a, b in itertools.pairwise(times) if b > broken]
    assert after, "something was exchanged after it broke"
    before = sorted(b - a for a, b in itertools.pairwise(times) if b < broken)
    print(
        f"{fault.__name__}: {before[len(before) // 2] * 1e3:.0f} ms each before, the longest"
        f" after {max(after) * 1e3:.0f} ms, the last {after[-1] * 1e3:.0f} ms"
    )
    assert max(after) < LONGEST_S


def cables_of(shape: Shape, server: int, state: str) -> None:
    for nic in shape.packet(server):
        system.call("ip", "-n", shape.switches[0], "link", "set", nic.far, state)


def relayed(said: list[dict[str, Any]], shape: Shape, server: int) -> int:
    nics = said[server * shape.ranks_per_server]["nics"]
    return sum(nic["relayed"] for nic in nics)


def joined(shape: Shape, place: Path) -> list[int]:
    """Return the servers that have a circuit."""
    ranks = range(0, shape.servers * shape.ranks_per_server, shape.ranks_per_server)
    circuits = [int((place / f"circuits-{rank}").read_text()) for rank in ranks]
    return [server for server, count in enumerate(circuits) if count]


# Of two servers the lesser dials: now the one that is stranded, now one that looks for a relay.
@pytest.mark.parametrize("which", [0, -1], ids=["lesser", "greater"])
@pytest.mark.parametrize("back", [False, True], ids=["gone", "back"])
def test_a_server_without_packet_nics_is_relayed(
    sparse_bed: Shape, tmp_path: Path, which: int, back: bool
) -> None:
    came_back = []

    def fault(shape: Shape) -> None:
        stands = joined(shape, tmp_path)
        assert len(stands) == 2, "one circuit stands"
        stranded = stands[which]
        cables_of(shape, stranded, "down")
        if back:
            time.sleep(8)
            cables_of(shape, stranded, "up")
            came_back.append(time.monotonic())
            time.sleep(2)
        else:
            time.sleep(3)

    code, errors, said, broken = break_while_it_runs(sparse_bed, tmp_path, fault)
    assert code == 0, (errors, [row["error"] for row in said])
    ends = joined(sparse_bed, tmp_path)
    stranded, relay = ends[which], ends[-1 - which]
    assert relayed(said, sparse_bed, relay) > 1e5, "the peer of its circuit has handed on"
    times = said[0]["times"]
    before = sorted(b - a for a, b in itertools.pairwise(times) if b < broken)
    until = came_back[0] if back else times[-1]
    meanwhile = [b - a for a, b in itertools.pairwise(times) if broken < b < until]
    assert len(meanwhile) > 1, "it goes on while packet NICs are gone"
    longest = max(meanwhile)
    steady = sorted(meanwhile)[len(meanwhile) // 2]
    print(
        f"server {stranded}: {before[len(before) // 2] * 1e3:.0f} ms each before, the longest"
        f" {longest * 1e3:.0f} ms, then {steady * 1e3:.0f} ms by the relay"
    )
    if back:
        later = [b - a for a, b in itertools.pairwise(times) if b > until]
        # TCP that waits for a lost SYN does so for a second at most.
        print(f"back: the longest {max(later) * 1e3:.0f} ms, the last {later[-1] * 1e3:.0f} ms")
        handed_on = said[relay * sparse_bed.ranks_per_server]["relayed"]
        assert handed_on[-1] == handed_on[-4], "what has its own lanes again takes them"
        assert max(later) < LONGEST_S
    assert longest < LONGEST_S


@pytest.mark.parametrize("what", ["rank", "runtime"])
def test_what_cannot_go_on_ends_soon_and_says_why(bed: Shape, tmp_path: Path, what: str) -> None:
    def fault(shape: Shape) -> None:
        if what == "rank":
            os.kill(processes(shape, str(tmp_path))[2], signal.SIGKILL)
        else:
            kill(shape, "runtime", "serve", "node-01")

    begun = time.monotonic()
    code, errors, said, broken = break_while_it_runs(bed, tmp_path, fault)
    assert code == 1, errors
    last = errors.strip().splitlines()[-1]
    assert ("has ended with SIGKILL" if what == "rank" else "the runtime of node-01") in last
    # All that live have heard of it, and ended by themselves.
    dead = 1 if what == "rank" else 0
    assert len(said) == bed.servers * bed.ranks_per_server - dead
    assert all(row["error"] for row in said)
    heard = max(row["ended"] for row in said) - broken
    print(f"{what}: all have heard of it after {heard * 1e3:.0f} ms")
    assert heard < LONGEST_S and time.monotonic() - begun < 2 * LONGEST_S


ASKS = """
import sys, time
from pathlib import Path
from lightloom.runtime import Rank
place = Path(sys.argv[1])
with Rank() as rank:
    sent = [0 if at == rank.rank else 100_000 for at in range(rank.size)]
    answer = rank.announce(sent)
    assert answer["decided"], answer
    rank.barrier()
    (place / "begun").touch()
    while not (place / "end").exists():
        time.sleep(0.02)
    for _ in range(3):
        rank.barrier()
        begun = time.monotonic()
        answer = rank.announce(sent)
        line = f"{answer['decided']} {time.monotonic() - begun}\\n"
        with (place / f"answers-{rank.rank}").open("a") as file:
            file.write(line)
    rank.barrier()
"""


def test_nobody_waits_for_a_controller_that_is_gone(bed: Shape, tmp_path: Path) -> None:
    program = tmp_path / "asks.py"
    program.write_text(ASKS)
    words = [sys.executable, "-m", "lightloom", "testbed", "run", "--name", bed.name, "--"]
    words += [sys.executable, str(program), str(tmp_path)]
    with subprocess.Popen(words) as running:
        try:
            until = time.monotonic() + 30
            while not (tmp_path / "begun").exists():
                assert time.monotonic() < until and running.poll() is None
                time.sleep(0.05)
            controller(bed)
            time.sleep(BEFORE_S)
            (tmp_path / "end").touch()
            running.wait(timeout=LONGEST_S)
        except BaseException:
            running.terminate()  # it ends the ranks
            raise
    assert running.returncode == 0
    # A file a rank: what ranks write to one pipe may be mixed.
    lines = [line for at in tmp_path.glob("answers-*") for line in at.read_text().splitlines()]
    answers = [line.split() for line in lines]
    assert len(answers) == 3 * bed.servers * bed.ranks_per_server
    assert {decided for decided, _ in answers} == {"False"}
    longest = max(float(seconds) for _, seconds in answers)
    print(f"undecided after {longest * 1e3:.0f} ms")
    assert longest < 2, "an agent would be waited for for 5 s"
