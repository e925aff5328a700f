"""A grid of RailX in this machine: torus, HyperX, collectives over circuits, a node lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from lightloom import daemon, testbed
from lightloom.errors import InputError
from lightloom.maps import read as read_maps
from lightloom.railx.tenants import tenants
from lightloom.testbed import grid, record, system
from lightloom.testbed.shape import Shape
from lightloom.testbed.switches import switches
from lightloom.units import Rate, Time
from testbed_beds import standing

NAME = f"x{os.getpid() % 1_000_000}"
SHAPE = Shape(
    name=NAME, eps="railx", grid="3x3", ranks_per_server=1,
    rate=Rate.parse("20 Mbps"), delay=Time.parse("10 ms"),
)  # fmt: skip
SIZE = 900_000


@pytest.fixture(scope="module")
def bed() -> Iterator[Shape]:
    with standing(SHAPE) as shape:
        yield shape


def lightloom(*words: str, code: int = 0, name: str = NAME) -> subprocess.CompletedProcess[str]:
    """Run a command of ``lightloom testbed``, and expect how it ends."""
    line = [sys.executable, "-m", "lightloom", "testbed", *words, "--name", name]
    done = subprocess.run(line, capture_output=True, text=True)
    assert done.returncode == code, (words, done.stdout, done.stderr)
    return done


def told(*words: str) -> Any:
    return json.loads(lightloom(*words, "--json").stdout)


def through() -> dict[tuple[str, str], int]:
    """Return the bytes that have come to the switches, by node and NIC."""
    rows = testbed.status(NAME)["switch"]
    return {(row["server"], row["nic"]): row["bytes"] for row in rows}


def carried(*words: str) -> tuple[list[dict[str, Any]], dict[tuple[str, str], int]]:
    """Run a collective, and return what it says and what went through the switches meanwhile."""
    before = through()
    said = told("collective", *words)
    return said, {key: there - before[key] for key, there in through().items()}


def payload(said: list[dict[str, Any]]) -> int:
    return sum(row["between_bytes"] for row in said)


def all_go_over_circuits(bed: Shape, *algorithms: str) -> None:
    """Run collectives of all nodes; the ranks check the bits.

    A ring's neighbours are one circuit apart, those of rows and columns, too: all that switches
    see is payload once, and headers and acknowledgements, far from twice. An all-to-all's corners
    are two circuits apart.
    """
    nodes = bed.servers
    for algorithm in algorithms:
        words = ("allreduce", "--algorithm", algorithm, "--size", f"{SIZE} B")
        said, went = carried(*words)
        assert payload(said) >= 2 * (nodes - 1) * SIZE, algorithm
        assert payload(said) <= sum(went.values()) < 1.5 * payload(said), algorithm
        # A ring of one order alone would leave half of the NICs almost idle.
        assert min(went.values()) > SIZE / 18, (algorithm, went)
        assert min(sum(sent) for sent in said[0]["sent"]) > 0
    said, went = carried("alltoall", "--size", f"{SIZE} B", "--path", "stripe")
    assert payload(said) >= (nodes - 1) * SIZE * 0.99
    assert sum(went.values()) > 1.2 * payload(said), "what nodes forward is counted again"
    # Nothing else joins the nodes: a namespace has its optical NICs alone.
    for server in range(bed.servers):
        rows = json.loads(system.call("ip", "-n", bed.namespace(server), "-j", "link", "show"))
        names = {row["ifname"] for row in rows}
        assert names - {"lo"} >= {nic.name for nic in bed.optical(server)}
        assert not [name for name in names if name.startswith("eps")]


def test_torus_then_hyperx_then_a_lost_node_is_bypassed(bed: Shape) -> None:
    assert "dark: `lightloom testbed railx" in lightloom("collective", "barrier", code=2).stderr
    torus = told("railx", "torus")
    assert (torus["circuits"], torus["set"], torus["ended"]) == (36, 36, 0)
    all_go_over_circuits(bed, "ring", "hierarchical")
    # The second ring of a row goes the other way; the first one's circuits carry on.
    hyperx = told("railx", "hyperx")
    assert (hyperx["circuits"], hyperx["set"], hyperx["ended"]) == (36, 18, 18)
    maps = read_maps(record.place(NAME) / "maps.json")
    assert len(maps.devices) == 12 and all(len(one.initial) == 3 for one in maps.devices)
    all_go_over_circuits(bed, "ring", "hyperx")

    lightloom("fault", "node", "node-04", "lost")
    failed = lightloom("collective", "allreduce", "--size", "1 MB", code=1, name=NAME)
    assert failed.stderr and "Traceback" not in failed.stderr
    around = told("railx", "torus", "--lost", "node-04", "--jobs", "largest*2")
    jobs = [job["nodes"] for job in around["jobs"]]
    assert sorted(map(len, jobs)) == [2, 6] and 4 not in jobs[0] + jobs[1]
    for number, nodes in enumerate(jobs):
        for words in (
            ("allreduce", "--algorithm", "ring"), ("allreduce", "--algorithm", "hierarchical"),
            ("alltoall", "--path", "stripe"),
        ):  # fmt: skip
            said, went = carried(*words, "--size", f"{SIZE} B", "--job", str(number))
            assert len(said[0]["sent"]) == len(nodes) and payload(said) > 0
            used = {int(server.removeprefix("node-")) for (server, _), sent in went.items() if sent}
            assert used == set(nodes), "the lost node and the other job's nodes carry nothing"
    assert (
        "no room" in lightloom("railx", "torus", "--lost", "node-04", "--jobs", "9", code=2).stderr
    )
    # It comes back: all is as before.
    lightloom("fault", "node", "node-04", "back")
    assert told("railx", "hyperx")["circuits"] == 36
    said, _ = carried("allreduce", "--algorithm", "ring", "--size", f"{SIZE} B")
    assert len(said[0]["sent"]) == 9


@pytest.mark.parametrize("size", ["0 B", "4 B", "40 B"])
def test_odd_sizes(bed: Shape, size: str) -> None:
    lightloom("railx", "torus")
    for algorithm in ("ring", "hierarchical"):
        [row] = told("collective", "allreduce", "--size", size, "--algorithm", algorithm)
        assert len(row["sent"]) == bed.servers


def test_what_stands_is_not_touched(bed: Shape) -> None:
    lightloom("railx", "torus")
    again = told("railx", "torus")
    assert (again["set"], again["ended"], again["circuits"]) == (0, 0, 36)


def test_a_switch_that_is_silent_leaves_what_stood(bed: Shape) -> None:
    lightloom("railx", "torus")
    lightloom("fault", "silent", "on")
    try:
        why = lightloom("railx", "hyperx", code=1).stderr
        assert "controller load: " in why and "Traceback" not in why
    finally:
        lightloom("fault", "silent", "off")
    # No circuit was changed, so routes are still those of the torus.
    said, _ = carried("alltoall", "--size", "9 kB")
    assert len(said[0]["sent"]) == 9


def test_status_and_help_say_it(bed: Shape) -> None:
    lightloom("railx", "torus")
    shown = lightloom("status").stdout
    assert "3x3 nodes of RailX: torus" in shown and "job 0: 3 x 3 nodes" in shown
    assert told("status")["network"]["topology"] == "torus"
    assert "--spec: a grid of RailX" in lightloom("status", "--spec", code=2).stderr
    assert "grid of RailX" in lightloom("compare", code=2).stderr
    words = [sys.executable, "-m", "lightloom", "testbed", "railx", "--help"]
    assert "Example: lightloom testbed railx" in subprocess.check_output(words, text=True)


def left(name: str) -> list[str]:
    """Return what there is of a testbed."""
    there = [str(path) for path in system.NAMESPACES.glob(f"{name}-*")]
    return there + [str(path) for path in [record.place(name)] if path.exists()]


@pytest.mark.parametrize("after_s", [0.3, 1.0, 2.5])
def test_killed_in_the_middle_leaves_nothing_after_down(after_s: float) -> None:
    name = f"{NAME}k"
    words = [sys.executable, "-m", "lightloom", "testbed", "up", "--railx", "2x2", "--name", name]
    try:
        daemon.find()
        system.check()
    except InputError as error:
        pytest.skip(f"NOT TESTED, no testbed can stand here: {error}")
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while not record.place(name).exists() and time.monotonic() < until:
        time.sleep(0.01)
    time.sleep(after_s)
    process.send_signal(signal.SIGKILL)
    process.wait()
    lightloom("down", name=name)
    assert left(name) == []
    lightloom("down", name=name)


def test_twice_up_and_an_odd_grid() -> None:
    name = f"{NAME}o"
    shape = Shape(name=name, eps="railx", grid="3x2", ranks_per_server=2, rails=1)
    with standing(shape):
        again = ("up", "--railx", "3x2", "--rails", "1")
        assert "is there already" in lightloom(*again, code=2, name=name).stderr
        why = lightloom("railx", "hyperx", code=2, name=name).stderr
        assert why.strip() == (
            "error: TOPOLOGY: hyperx: columns = 3: 1 rails join at most 2 nodes all to all"
        ), why
        lightloom("railx", "torus", name=name)
        for words in (
            ("allreduce", "--algorithm", "ring"), ("allreduce", "--algorithm", "hierarchical"),
            ("alltoall",),
        ):  # fmt: skip
            lightloom("collective", *words, "--size", "48 kB", name=name)
    assert left(name) == []


def test_switches_of_redirections_stand_side_by_side() -> None:
    """Without root, too: the kernel numbers all switches' redirections together."""
    shape = Shape(name=f"{NAME}m", eps="railx", grid="2x2", rails=1, crossbar="mirred")
    with standing(shape, without_root=True):
        lightloom("railx", "torus", name=shape.name)
        for words in (("allreduce", "--algorithm", "hierarchical"), ("alltoall",)):
            lightloom("collective", *words, "--size", "64 kB", name=shape.name)
        rows = testbed.status(shape.name)["switch"]
        assert len(rows) == 16 and min(row["bytes"] for row in rows) > 0
        assert sum(row["unconnected"] + row["dark"] for row in rows) == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--railx", "1x1"), "--railx: 1x1: must be columns x rows of nodes, such as 3x3, 2 to 64"),
        (("--railx", "9x9"), "--railx: 9x9: must be columns x rows"),
        (("--railx", "3"), "--railx: 3: must be columns x rows"),
        (("--railx", "3x3", "--rails", "0"), "--rails: 0: must be from 1 to 4"),
        (("--railx", "3x3", "--rails", "5"), "--rails: 5: must be from 1 to 4"),
        (("--railx", "3x3", "--servers", "9"), "--servers: 9: is not read with --railx"),
        (("--railx", "3x3", "--eps", "rails"), "--eps: rails: is not read with --railx"),
        (("--railx", "3x3", "--spines", "2"), "--spines: 2: is read with --eps rails alone"),
        (("--rails", "2"), "--rails: 2: is read with --railx alone"),
    ],
)
def test_bad_input(words: tuple[str, ...], says: str) -> None:
    done = lightloom("up", *words, code=2, name=f"{NAME}b")
    assert says in done.stderr and len(done.stderr.strip().splitlines()) == 1
    assert left(f"{NAME}b") == []


@pytest.mark.parametrize("columns", [2, 3, 4, 5])
@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize("topology", ["torus", "hyperx"])
def test_every_lane_arrives_over_circuits_that_stand(
    columns: int, rows: int, topology: str
) -> None:
    """Followed from node to node by NICs, switches' ports and the maps, without running it."""
    shape = Shape(eps="railx", grid=f"{columns}x{rows}", rails=4)
    everywhere = [(range(rows), range(columns))]
    try:
        made = tenants(topology, columns=columns, rows=rows, rails=4, jobs=everywhere)
    except InputError as error:
        assert topology == "hyperx" and columns == 4 and "4 take 6" in str(error)
        return
    [job] = made.jobs
    far = {}
    devices = {device.device: device for device in made.port_maps().devices}
    for switch in switches(shape):
        for name, first in switch.devices.items():
            for one, other in devices[name].initial:
                near, there = switch.nics[first - 1 + one], switch.nics[first - 1 + other]
                far[near.server, near.name] = there.server
                far[there.server, there.name] = near.server
    lanes = grid.lanes(job)
    assert lanes >= 2
    for source in range(shape.servers):
        for target in range(shape.servers):
            for lane in range(lanes if source != target else 0):
                at, hops = source, 0
                while at != target:
                    at = far[at, f"ocs{grid.way(job, 4, at, target, lane)}"]
                    hops += 1
                    assert hops <= columns // 2 + rows // 2
                if topology == "hyperx":
                    assert hops <= 2
    for ring in job.rings:
        assert sorted(ring) == list(range(shape.servers))
        for here, after in zip(ring, ring[1:] + ring[:1], strict=True):
            assert any(far[here, nic.name] == after for nic in shape.optical(here)
                       if (here, nic.name) in far)  # fmt: skip
