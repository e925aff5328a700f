"""Plans of collectives carried out with bytes, over optical planes of a testbed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lightloom import testbed
from lightloom.errors import InputError
from lightloom.plan import Job, Plan, plan_collective
from lightloom.testbed import record
from lightloom.testbed.carried import Carried, _sent, carry_out, refuse_misfit
from lightloom.testbed.shape import Shape
from lightloom.testbed.status import carried as through
from lightloom.units import Rate, Time
from testbed_beds import standing

NAME = f"p{os.getpid() % 1_000_000}"
SHAPE = Shape(
    name=NAME, servers=4, planes=2, ranks_per_server=1,
    rate=Rate.parse("20 Mbps"), delay=Time.parse("5 ms"),
)  # fmt: skip
ODD = 300_001


@pytest.fixture(scope="module")
def bed() -> Iterator[Shape]:
    with standing(SHAPE) as shape:
        yield shape


def planned(
    algorithm: str, size: int, shape: Shape = SHAPE, scheduler: str = "swot", **how: Any
) -> Plan:
    job = Job.of(
        algorithm, nodes=how.pop("nodes", shape.servers), size=f"{size} B",
        planes=how.pop("planes", shape.planes), node_bandwidth="38 Mbps",
        reconfiguration=how.pop("reconfiguration", "50 ms"), latency="5 ms", **how,
    )  # fmt: skip
    found = plan_collective(job, schedulers=[scheduler], plan=scheduler).plan
    assert found is not None
    return found


def settings(plan: Plan) -> int:
    return sum(len(track.reconfigurations) for track in plan.planes)


def by_plane(plan: Plan) -> list[int]:
    """Return what nodes send over each plane [B]."""
    sums = [0] * plan.machine.planes
    for node in _sent(plan).nodes:
        for one in node.transmissions:
            sums[one.plane] += one.bytes
    return sums


def forwarded(shape: Shape) -> list[int]:
    """Return what the switch of each plane has forwarded, in frames [B]."""
    sums: dict[str, int] = {}
    for row in through(shape):
        sums[row["switch"]] = sums.get(row["switch"], 0) + row["bytes"]
    return [sums[f"plane-{plane}"] for plane in range(shape.planes or 0)]


def by_plan_alone(shape: Shape, plan: Plan) -> Carried:
    """Carry a plan out, and see that its bytes took its planes, and no frame of data was lost.

    That every byte is right the nodes have checked.
    """
    before = forwarded(shape)
    done = carry_out(shape, plan)
    went = [now - then for now, then in zip(forwarded(shape), before, strict=True)]
    assert (done.without, done.detoured_bytes, done.resent, done.dark) == ((), 0, 0, 0)
    assert done.settings == settings(plan)
    for payload, frames in zip(by_plane(plan), went, strict=True):
        # Headers; of few bytes, hello and what TCP says by itself.
        assert payload <= frames <= 1.15 * payload + 20_000, (payload, frames)
    return done


@pytest.mark.parametrize("size", [ODD, ODD - 1, 4])
@pytest.mark.parametrize("scheduler", ["swot", "lockstep"])
@pytest.mark.parametrize("algorithm", ["pairwise-alltoall", "rabenseifner-allreduce"])
def test_every_byte_takes_its_plane(bed: Shape, algorithm: str, scheduler: str, size: int) -> None:
    plan = planned(algorithm, size, bed, scheduler)
    assert settings(plan) > 0
    by_plan_alone(bed, plan)


@pytest.mark.parametrize(
    "algorithm", ["bruck-alltoall", "ring-allreduce", "double-tree-allreduce", "swing-allreduce"]
)
def test_any_algorithm(bed: Shape, algorithm: str) -> None:
    by_plan_alone(bed, planned(algorithm, ODD, bed))


def test_no_change_waits_for_a_mark_that_does_not_come(bed: Shape) -> None:
    plan = planned("pairwise-alltoall", ODD, bed, "lockstep")
    assert settings(plan) > 2
    late = [done.seconds - done.planned_seconds for done in (carry_out(bed, plan) for _ in "123")]
    assert min(late) < 0.2 * settings(plan), late


def test_a_plan_that_is_too_hasty_is_late_and_right() -> None:
    # Far longer than what a shaper lets go at once after a change, 15 kB or 6 ms.
    with standing(replace(SHAPE, name=f"{NAME}h", delay=Time.parse("50 ms"))) as shape:
        plan = planned("pairwise-alltoall", ODD, shape, reconfiguration="1 us")
        done = by_plan_alone(shape, plan)
        assert done.seconds > done.planned_seconds + 0.05
        assert min(done.turnaround_seconds) > 0.05, "the switch takes so long"


def test_three_nodes() -> None:
    shape = replace(SHAPE, name=f"{NAME}t", servers=3)
    with standing(shape):
        for algorithm in ("pairwise-alltoall", "rabenseifner-allreduce"):
            by_plan_alone(shape, planned(algorithm, ODD, shape))


def faulty(fault: str) -> Shape:
    return replace(SHAPE, name=f"{NAME}f", faults=(fault,))


def test_a_late_switch_delays_and_corrupts_nothing() -> None:
    with standing(faulty("late=300ms")) as shape:
        plan = planned("pairwise-alltoall", ODD, shape)
        done = by_plan_alone(shape, plan)
        # Each of the changes of a plane, one after the other, is answered and read so late.
        most = max(len(track.reconfigurations) for track in plan.planes)
        assert done.seconds > max(done.planned_seconds, most * 0.6)


@pytest.mark.parametrize("algorithm", ["pairwise-alltoall", "rabenseifner-allreduce"])
def test_a_switch_that_refuses_is_done_without(algorithm: str) -> None:
    with standing(faulty("refuses")) as shape:
        done = carry_out(shape, planned(algorithm, ODD, shape))
        assert done.without and done.settings == 0
        assert done.detoured_bytes == sum(by_plane(planned(algorithm, ODD, shape)))
        line = lightloom("alltoall", "--size", "100 kB", "--rounds", "1", "--latency", "1 ms",
                         "--reconfiguration", "50 ms", name=shape.name, code=1)  # fmt: skip
        assert "all bytes are right, and not all went by plan" in line.stderr


def test_a_circuit_that_carries_nothing_is_done_without(bed: Shape) -> None:
    testbed.fault(bed.name, "cable", ["node-01", "ocs0", "out"])
    try:
        done = carry_out(bed, planned("pairwise-alltoall", ODD, bed))
    finally:
        testbed.fault(bed.name, "cable", ["node-01", "ocs0", "in"])
    assert "carries nothing" in done.without[0]
    assert 0 < done.detoured_bytes < 3 * ODD
    by_plan_alone(bed, planned("pairwise-alltoall", ODD, bed))


def test_a_switch_that_falls_silent_on_the_way_is_done_without(bed: Shape) -> None:
    """What went by plan went by plan; what is left takes packet NICs."""
    plan = planned("pairwise-alltoall", 12_000_001, bed)
    before = sum(forwarded(bed))
    with ThreadPoolExecutor() as pool:
        under_way = pool.submit(carry_out, bed, plan)
        until = time.monotonic() + 30
        while sum(forwarded(bed)) < before + 100_000 and time.monotonic() < until:
            time.sleep(0.05)
        testbed.fault(bed.name, "silent", ["on"])
        try:
            done = under_way.result()
        finally:
            testbed.fault(bed.name, "silent", ["off"])
    assert done.without and done.without[0].startswith("the plan fell back: switch plane-")
    assert done.settings < settings(plan)
    assert 0 < done.detoured_bytes < sum(by_plane(plan)) - 100_000


def lightloom(*words: str, code: int = 0, name: str = NAME) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "lightloom", "testbed", "plan", *words, "--name", name]
    done = subprocess.run(line, capture_output=True, text=True)
    assert done.returncode == code, (words, done.stdout, done.stderr)
    return done


def test_the_command_puts_measured_times_beside_planned_ones(bed: Shape) -> None:
    words = ("alltoall,allreduce", "--size", "400 kB", "--rounds", "1", "--json")
    said = json.loads(lightloom(*words).stdout)
    assert [(row["kind"], row["scheduler"]) for row in said["plans"]] == [
        ("alltoall", "swot"), ("alltoall", "lockstep"),
        ("allreduce", "swot"), ("allreduce", "lockstep"),
    ]  # fmt: skip
    for row in said["plans"]:
        assert row["runs"][0]["without"] == [] and row["runs"][0]["dark"] == 0
        assert 0.005 < row["reconfiguration_seconds"] < 1, "the switch's 5 ms, and what we take"
        # What was planned waits for switches as they were measured, which may be quicker now.
        sent = 400e3 * {"alltoall": 3 / 4, "allreduce": 3 / 2}[row["kind"]]
        assert row["seconds"] > 0.8 * sent * 8 / (SHAPE.planes * 20e6), "no faster than its links"
        assert row["planned_seconds"] > sent * 8 / (SHAPE.planes * 20e6)
    assert [gain["kind"] for gain in said["gains"]] == ["alltoall", "allreduce"]


def test_a_plan_that_does_not_fit_is_refused_before_anything_changes(
    bed: Shape, tmp_path: Path
) -> None:
    files = {
        "exchange": planned("pairwise-alltoall", ODD), "sum": planned("ring-allreduce", ODD),
        "nodes": planned("pairwise-alltoall", ODD, nodes=3),
        "planes": planned("pairwise-alltoall", ODD, planes=3),
        "gather": planned("ring-allgather", ODD),
    }  # fmt: skip
    for name, plan in files.items():
        plan.write(tmp_path / f"{name}.json")
    state = record.place(bed.name) / "plane-0.json"

    def now() -> str:
        return state.read_text() if state.exists() else ""

    before = now()

    def given(*names: str) -> list[str]:
        return [word for name in names for word in ("--plan", str(tmp_path / f"{name}.json"))]

    size = ("--size", f"{ODD} B")
    for words, why in (
        (["alltoall", *size, *given("nodes")], "the plan is of 3 nodes; the testbed has 4 servers"),
        (["alltoall", *size, *given("planes")], "the plan is of 3 planes; the testbed has 2 plane"),
        (["alltoall", *size, *given("sum")], "the plan is of an all-reduce (ring-allreduce); allo"),
        (["alltoall", *size, *given("gather")], "the plan is of an all-gather (ring-allgather); a"),
        (["alltoall,allreduce", *size, *given("sum", "exchange")], "--plan: collective 0, allto"),
        (["alltoall", "--size", "300 kB", *given("exchange")], "the plan is of 300001 B; the job"),
        (["alltoall,allreduce", *size, *given("sum")], "--plan: 1 plans for 2 collectives"),
        (["broadcast"], "KIND: broadcast: must be some of alltoall, allreduce"),
        (["alltoall", "--scheduler", "one-shot"], "--scheduler: one-shot: must be some of swot"),
        (["alltoall", "--rounds", "0"], "--rounds: 0: must be from 1 to 1000"),
        (["alltoall", "--algorithm", "ring-allreduce"], "--algorithm: ring-allreduce: must be one"),
        (["alltoall", "--size", "0 B"], "size"),
    ):  # fmt: skip
        done = lightloom(*words, code=2)
        assert why in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
    assert now() == before


def test_a_plan_from_a_file_is_carried_out(bed: Shape, tmp_path: Path) -> None:
    planned("bruck-alltoall", ODD).write(tmp_path / "plan.json")
    words = ("--plan", str(tmp_path / "plan.json"), "--size", f"{ODD} B", "--rounds", "2")
    said = json.loads(lightloom("alltoall", *words, "--json").stdout)
    assert said["plans"][0]["algorithm"] == "bruck-alltoall"
    assert len(said["plans"][0]["runs"]) == 2 and said["gains"] == []


def test_planes_are_no_region(bed: Shape) -> None:
    with pytest.raises(InputError, match="has no planes"):
        refuse_misfit(Shape(), planned("pairwise-alltoall", ODD))
    with pytest.raises(InputError, match="--planes: 9: must be from 1 to 8"):
        Shape(planes=9)
    with pytest.raises(InputError, match="--planes: 2: is read with --eps bridge alone"):
        Shape(planes=2, eps="rails", eps_nics=2)
    now = testbed.status(bed.name)
    assert now["controller"] is None and now["filters"] == []
    # Ranks run there, over packets.
    request = testbed.Request(kind="allreduce", size_bytes=ODD - 1)
    assert testbed.collective(bed.name, request)[0].between_bytes > 0
