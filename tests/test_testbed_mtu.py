"""Frames of other sizes than 1,500 B: what NICs and switches take, and that bytes are right."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from lightloom.cli import run
from lightloom.testbed import system
from lightloom.testbed.shape import LEAST_MTU, MOST_MTU, Shape
from lightloom.units import Rate, Time
from testbed_agents import Agent, ask
from testbed_beds import standing
from testbed_flows import is_shaped

NAME = f"u{os.getpid() % 1_000_000}"


@pytest.fixture(scope="module", params=[LEAST_MTU, MOST_MTU])
def bed(request: pytest.FixtureRequest) -> Iterator[Shape]:
    shape = Shape(
        name=f"{NAME}{request.param}", servers=4, ranks_per_server=2, eps_nics=1, ocs_nics=2,
        rate=Rate.parse("40 Mbps"), delay=Time.parse("5 ms"), mtu=request.param,
    )  # fmt: skip
    with standing(shape):
        yield shape


def test_both_ends_of_every_cable_take_such_frames(bed: Shape) -> None:
    found = {}
    for namespace in bed.namespaces:
        done = subprocess.run(
            system.within(namespace, "ip", "-json", "link", "show"),
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        found |= {
            (namespace, link["ifname"]): link["mtu"]
            for link in json.loads(done.stdout)
            if re.search(r"(eps|ocs)\d", link["ifname"])
        }
    assert set(found.values()) == {bed.mtu}
    assert len(found) == 2 * bed.servers * (bed.eps_nics + bed.ocs_nics)


# IP_MTU_DISCOVER with IP_PMTUDISC_DO, of Linux' in.h: no datagram is cut in fragments.
WHOLE = "whole = socket.socket(type=socket.SOCK_DGRAM); whole.setsockopt(socket.SOL_IP, 10, 2)"
TAKE = f"""
import socket, sys
{WHOLE}
whole.bind((sys.argv[1], 0))
whole.settimeout(3)
print(whole.getsockname()[1], flush=True)
print(len(whole.recv(65535)))
"""
GIVE = f"""
import socket, sys
{WHOLE}
whole.bind((sys.argv[1], 0))
whole.sendto(bytes(int(sys.argv[4])), (sys.argv[2], int(sys.argv[3])))
"""
HEADERS = 20 + 8  # of IPv4 and UDP


def in_one_frame(bed: Shape, near: str, far: str, size: int) -> bool:
    """Return whether a datagram of so many bytes comes from server 0 to 1 in one frame."""
    taker = system.within(bed.namespace(1), sys.executable, "-c", TAKE, far)
    with subprocess.Popen(taker, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as it:
        assert it.stdout is not None
        port, payload = it.stdout.readline().strip(), size - HEADERS
        words = [sys.executable, "-c", GIVE, near, far, port, str(payload)]
        given = subprocess.run(system.within(bed.namespace(0), *words), capture_output=True)
        return it.stdout.read() == f"{payload}\n" and given.returncode == 0


def test_a_full_frame_passes_both_switches_and_no_larger_one(bed: Shape) -> None:
    agents = [Agent(bed, server) for server in range(bed.servers)]
    try:
        circuits = ask(agents, 1, (0, 1))
        port, (server, far_port) = next((port, end) for port, end in enumerate(circuits[0]) if end)
        assert server == 1
        for near, far in (
            (bed.packet(0)[0].address, bed.packet(1)[0].address),
            (bed.optical(0)[port].address, bed.optical(1)[far_port].address),
        ):
            assert in_one_frame(bed, near, far, bed.mtu)
            assert not in_one_frame(bed, near, far, bed.mtu + 1)
            # At 576 B, an acknowledgement of two frames takes a good part of the other way.
            assert is_shaped(bed, (0, near), (1, far), 1_000_000, bed.rate)
    finally:
        for agent in agents:
            agent.process.kill()
            agent.process.wait()


def test_every_byte_is_right_and_the_simulator_counts_such_frames(
    bed: Shape, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command checks every byte, and a larger frame has less beside its payload."""
    words = ["testbed", "compare", "--name", bed.name, "--demand", "e8k2", "--count", "1"]
    assert run([*words, "--size", "1500001 B", "--json"]) == 0
    said: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert said["frame_bytes"] == bed.mtu + 14 and said["payload_bytes"] == bed.mtu - 52
    for row in said["rows"]:
        assert 0.9 < row["ratio"] < 3, row
