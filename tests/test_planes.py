"""Optical planes as a fabric: what training on them takes, costs, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from fixtures.finish import finished
from lightloom import InputError, Scenario, collective
from lightloom.cli import run
from lightloom.cost import bill_of
from lightloom.simulation import simulate

pytestmark = pytest.mark.usefixtures("undrawn")

JOB: dict[str, Any] = {"gpus": 64, "parallelism.pp": 2, "training.micro_batches": 4}


def job(fabric: str = "planes", **changes: Any) -> Scenario:
    return Scenario.preset("mixtral-8x7b", fabric=fabric, **{**JOB, **changes})


def test_a_switch_without_delay_makes_a_fabric_without_a_bottleneck() -> None:
    """As fast as rails, whose NICs share the load of their server's GPUs too."""
    times = [
        finished(job(**{"fabric.ocs.delay": delay})).summary["iteration_ps"]
        for delay in ("1 ps", "20 us", "200 us", "2 ms")
    ]
    assert times == sorted(times) and times[0] < times[-1]
    rails = finished(job("rail-optimized")).summary["iteration_ps"]
    assert 0.9 < times[0] / rails < 1.02
    tree = finished(job("fat-tree")).summary["iteration_ps"]
    assert times[0] < tree, "a NIC for each GPU alone is no better than all for all"


def test_iterations_add_up_and_waits_are_told() -> None:
    one = finished(job())
    parts = ("compute", "exposed_a2a", "exposed_other", "reconfiguration")
    assert sum(one.summary[f"{part}_ps"] for part in parts) == one.summary["iteration_ps"]
    assert one.summary["reconfiguration_ps"] > 0
    assert one.summary["reconfiguration_ps"] % 200_000_000 == 0, "every wait is for one change"


def test_nothing_is_lost_between_servers(tmp_path: Path) -> None:
    """What circuits carry is what a fat-tree's NICs carry, into the switches and out of them."""
    carried = {}
    for fabric, kind in (("planes", "circuit"), ("fat-tree", "host")):
        simulate(job(fabric), out=tmp_path / fabric)
        links = pq.read_table(tmp_path / fabric / "links.parquet")
        rows = links.filter(pc.equal(links["class"], kind)).to_pylist()
        assert all(0 < row["max_utilization"] <= 1 for row in rows)
        carried[fabric] = sum(row["bytes"] for row in rows)
    assert carried["planes"] == carried["fat-tree"]
    demand = pq.read_table(tmp_path / "planes" / "demand.parquet").to_pylist()
    between = [row for row in demand if row["source"] != row["destination"]]
    assert between and all(1 <= row["circuits"] <= 8 for row in between if row["bytes"] > 0)


def test_the_bill_is_a_nic_a_transceiver_and_a_port_each() -> None:
    lines = {line.item: line.count for line in bill_of(job(gpus=128))}
    assert lines == {"nic": 128, "transceiver": 128, "ocs_port": 128}


def test_a_rate_for_the_whole_fabric_is_that_of_its_circuits() -> None:
    core = job(bandwidth="200 Gbps").to_core()["fabric"]
    assert core["ocs"].pop("link_bps") == 200_000_000_000
    assert core == {
        "kind": "planes",
        "carrier": "auto",
        "chunk": None,
        "store_and_forward": None,
        "ocs": {
            "breakout": 1,
            "link_delay_ps": 1_000_000,
            "device": "swot",
            "ports": 320,
            "delay": {"kind": "fixed", "ps": 200_000_000},
        },
    }


def test_a_group_over_two_servers_sets_its_ring() -> None:
    """A hop of tensor parallelism between servers: one NIC's elsewhere, all eight's here."""
    wide: dict[str, Any] = {"parallelism.tp": 16, "parallelism.ep": 2, "parallelism.pp": 2}
    circuits = finished(job(**wide, **{"fabric.ocs.delay": "1 us"})).summary["exposed_other_ps"]
    plain = {**wide, "fabric.carrier": "paper"}
    rails = finished(job("rail-optimized", **plain)).summary["exposed_other_ps"]
    assert 1 / 8 <= circuits / rails < 1 / 2


def test_nics_that_are_broken_out_are_planes() -> None:
    """As many bytes over more circuits, each as much slower: about as long."""
    fabric: dict[str, Any] = {"preset": "planes", "ocs": {"delay": "1 us"}}
    times = []
    for breakout in (1, 4):
        spec = {"fabric": {**fabric, "ocs": {**fabric["ocs"], "breakout": breakout}}}
        done = collective("all-to-all", ranks=32, spec=spec, size="64 MiB", progress=False)
        times.append(done.rows[0]["time_s"])
    assert times[1] == pytest.approx(times[0], rel=0.05)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"fabric.ocs.ports": 7}, "a plane joins a NIC of each of 8 servers, and so needs 8"),
        ({"fabric.ocs.delay": "0 s"}, "fabric.ocs.delay"),
        ({"fabric.ocs.device": "polatis-measured"}, "must be a time"),
        ({"engine.kind": "flit"}, 'allowed: "flow", "packet"'),
        ({"fabric.eps.tiers": 2}, 'unknown key for fabric "planes"'),
    ],
)
def test_what_planes_cannot_be_is_said(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        job(**changes)
    assert message in str(caught.value)


def test_compare_puts_planes_beside_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sets = [
        part for key, value in JOB.items() if key != "gpus" for part in ("--set", f"{key}={value}")
    ]
    command = [
        "compare",
        "mixtral-8x7b",
        "--gpus",
        "64",
        *sets,
        "--fabrics",
        "fat-tree,mixnet,planes",
        "--bandwidth",
        "400",
        "--out",
        str(tmp_path / "out"),
    ]
    assert run([*command, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["fabric"] for row in rows] == ["fat-tree", "mixnet", "planes"]
    assert rows[2]["cost_usd"] < rows[1]["cost_usd"] < rows[0]["cost_usd"]
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert '"planes"' in page
