"""What goes wrong in a testbed on purpose, with and without root, and is put right again."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest
from lightloom import testbed
from lightloom.errors import InputError
from lightloom.testbed import holder, system
from lightloom.testbed.shape import Shape
from testbed_agents import Agent, ask
from testbed_beds import standing
from testbed_flows import Within, transfer

NAME = f"f{os.getpid() % 1_000_000}"


@pytest.fixture(scope="module", params=["root", "rootless"])
def bed(request: pytest.FixtureRequest) -> Iterator[tuple[Shape, Within]]:
    rootless = request.param == "rootless"
    crossbar = "mirred" if rootless else "bpf"
    shape = Shape(name=NAME, servers=2, ocs_nics=2, crossbar=crossbar)
    with standing(shape, without_root=rootless):
        there = holder.find(NAME)

        def within(namespace: str, *words: str) -> list[str]:
            inner = system.within(namespace, *words)
            return inner if there is None else there.enter(*inner)

        yield shape, within


def fault(*words: str) -> None:
    line = [sys.executable, "-m", "lightloom", "testbed", "fault", *words, "--name", NAME]
    done = subprocess.run(line, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"{NAME}: {' '.join(words)}\n"), done.stderr


def comes(condition: Callable[[], bool]) -> bool:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.1)
    return False


def test_a_cable_that_is_out_carries_nothing_until_it_is_in(bed: tuple[Shape, Within]) -> None:
    shape, within = bed
    ends = [(server, shape.packet(server)[0].address) for server in (0, 1)]

    def rate() -> float | None:
        return transfer(shape, ends[0], ends[1], 100_000, within=within)

    assert rate() is not None
    fault("cable", "node-01", "eps0", "out")
    assert rate() is None
    rows = testbed.status(NAME)["ethernet"]
    assert [row["nic"] for row in rows if not row["in"]] == ["node-01-eps0"]
    fault("cable", "node-01", "eps0", "in")
    assert comes(lambda: rate() is not None)


def test_light_is_stopped_by_cables_and_shutters(bed: tuple[Shape, Within]) -> None:
    shape, within = bed
    agents = [Agent(shape, server, within) for server in range(2)]
    try:
        circuits = ask(agents, 1, (0, 1))
        port, (server, far) = next((at, end) for at, end in enumerate(circuits[0]) if end)
        near = (0, shape.optical(0)[port].address)
        there = (server, shape.optical(server)[far].address)

        def passes() -> bool:
            return transfer(shape, near, there, 10_000, within=within) is not None

        assert passes()
        for kind, wrong, right in (("cable", "out", "in"), ("shutter", "shut", "open")):
            fault(kind, "node-00", f"ocs{port}", wrong)
            assert not passes(), kind
            if kind == "cable":
                rows = testbed.status(NAME)["switch"]
                out = [(row["server"], row["nic"]) for row in rows if not row["in"]]
                assert out == [("node-00", f"ocs{port}")]
            fault(kind, "node-00", f"ocs{port}", right)
            assert comes(passes), kind
    finally:
        for agent in agents:
            agent.process.kill()
            agent.process.wait()


def test_a_silent_switch_is_noticed_and_its_mirrors_stand(bed: tuple[Shape, Within]) -> None:
    def alarms() -> list[str]:
        now = testbed.status(NAME)["controller"]
        return [alarm["text"] for alarm in now["alarms"] if "node-" not in alarm["text"]]

    assert alarms() == []
    fault("silent", "on")
    try:
        assert comes(lambda: alarms() != []), "the controller asks it now and then"
    finally:
        fault("silent", "off")
    assert comes(lambda: alarms() == [])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ["cable", "node-02", "eps0", "out"],
            "node-02: no such server; allowed: node-00 to node-01",
        ),
        (["cable", "node-00", "eth0", "out"], "eth0: no such NIC; allowed: eps0, ocs0, ocs1"),
        (["cable", "node-00", "eps0", "off"], "cable: off: must be one of out, in"),
        (["shutter", "node-00", "eps0", "shut"], "eps0: has no shutter; allowed: ocs0, ocs1"),
        (["silent", "maybe"], "silent: maybe: must be one of on, off"),
    ],
)
def test_bad_input(bed: tuple[Shape, Within], words: list[str], says: str) -> None:
    with pytest.raises(InputError) as caught:
        testbed.fault(NAME, words[0], words[1:])
    assert str(caught.value).removeprefix("error: ") == says
