"""RailX as a fabric of jobs: what training on it takes, costs, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from fixtures.finish import finished
from lightloom import InputError, Scenario
from lightloom.cli import run
from lightloom.cost import bill_of
from lightloom.resolve import load_scenario
from lightloom.simulation import simulate

pytestmark = pytest.mark.usefixtures("undrawn")

JOB: dict[str, Any] = {"gpus": 128, "parallelism.pp": 2, "training.micro_batches": 4}
RING: dict[str, Any] = {"fabric.topology": "torus", "fabric.columns": 4}
ONE_NODE: dict[str, Any] = {"gpus": 16, "parallelism.pp": 1, "parallelism.tp": 2}
NINE_NODES: dict[str, Any] = {
    "gpus": 144, "parallelism.ep": 4, "parallelism.tp": 4, "parallelism.pp": 3,
}  # fmt: skip


def job(fabric: str = "railx", **changes: Any) -> Scenario:
    return Scenario.preset("mixtral-8x7b", fabric=fabric, **{**JOB, **changes})


def test_a_specification_survives_its_own_text() -> None:
    once = job(fabric="railx", **RING)
    again = load_scenario(once.to_tree(), {}, label="again").scenario
    assert again.to_core_json() == once.to_core_json()
    assert json.loads(once.to_core_json())["fabric"] == {
        "kind": "railx", "carrier": "auto", "chunk": None, "store_and_forward": None,
        "link_bps": 400_000_000_000, "link_delay_ps": 150_000, "mesh": 4,
        "ports": 2, "ocs_ports": 128, "topology": "torus", "columns": 4, "inside": 4.0,
        "mesh_delay_ps": 10_000,
    }  # fmt: skip


def test_iterations_add_up_and_more_rails_are_no_slower() -> None:
    times = []
    for ports in (2, 4, 8):
        rails: dict[str, Any] = {"fabric.ports": ports, "fabric.topology": "torus"}
        one = finished(job(**rails))
        parts = ("compute", "exposed_a2a", "exposed_other", "reconfiguration")
        assert sum(one.summary[f"{part}_ps"] for part in parts) == one.summary["iteration_ps"]
        assert one.summary["reconfiguration_ps"] == 0, "circuits stand from the beginning"
        times.append(one.summary["iteration_ps"])
    assert times == sorted(times, reverse=True) and times[-1] < times[0]


def test_a_job_of_one_node_needs_no_rail(tmp_path: Path) -> None:
    simulate(job(**ONE_NODE), out=tmp_path / "one")
    links = pq.read_table(tmp_path / "one" / "links.parquet").to_pylist()
    assert {row["class"]: row["bytes"] > 0 for row in links}["mesh"]
    assert all(row["bytes"] == 0 for row in links if row["class"] == "rail")
    assert bill_of(job(**ONE_NODE)) == ()


def test_links_carry_no_more_than_they_can(tmp_path: Path) -> None:
    simulate(job(), out=tmp_path / "run")
    links = pq.read_table(tmp_path / "run" / "links.parquet").to_pylist()
    assert [row["class"] for row in links] == ["mesh", "rail"]
    assert all(0 < row["max_utilization"] <= 1 for row in links)
    # What enters an optical switch leaves it: each byte is on two fibres a circuit.
    assert next(row["bytes"] for row in links if row["class"] == "rail") % 2 == 0


def test_the_bill_is_a_transceiver_and_a_port_for_each_lit_rail_end() -> None:
    # 3 x 3 nodes: in each dimension eight rails of two ends.
    lines = {line.item: line.count for line in bill_of(job(**NINE_NODES))}
    assert lines == {"transceiver": 9 * 2 * 8 * 2, "ocs_port": 9 * 2 * 8 * 2}
    # 4 x 4 nodes: six rails are a whole set, two are dark.
    sixteen = job(**{"gpus": 256, "parallelism.pp": 4})
    lines = {line.item: line.count for line in bill_of(sixteen)}
    assert lines == {"transceiver": 16 * 2 * 6 * 2, "ocs_port": 16 * 2 * 6 * 2}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cluster.gpus_per_server": 8, "cluster.nics_per_server": 8}, "fabric.mesh squared = 16"),
        ({"engine.kind": "packet"}, 'allowed: "flow"'),
        ({"fabric.tiers": 2}, 'unknown key for fabric "railx"'),
        ({"fabric.inside": 0.0}, "fabric.inside"),
        ({"fabric.ocs_ports": 7}, "fabric.ocs_ports"),
    ],
)
def test_what_railx_cannot_be_is_said(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        job(**changes)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gpus": 1536, "fabric.ports": 1}, "fill no rows and columns that a HyperX can join"),
        ({"fabric.columns": 3}, "fabric.columns = 3: must divide the 8 nodes of 16 GPUs"),
        ({"gpus": 1536, "fabric.columns": 6}, "fabric.columns = 6: 8 rails join at most 9"),
    ],
)
def test_a_job_that_fills_no_grid_is_told_so(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        bill_of(job(**changes))
    assert message in str(caught.value)


def test_compare_puts_railx_beside_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sets = [
        part for key, value in JOB.items() if key != "gpus" for part in ("--set", f"{key}={value}")
    ]
    fabrics = ["fat-tree", "mixnet", "railx"]
    command = ["compare", "mixtral-8x7b", "--gpus", "128", *sets]
    command += ["--fabrics", ",".join(fabrics), "--bandwidth", "400"]
    assert run([*command, "--out", str(tmp_path / "result")]) == 0
    rows = pq.read_table(tmp_path / "result" / "runs.parquet").to_pylist()
    assert [row["fabric"] for row in rows] == fabrics
    assert rows[2]["cost_usd"] < rows[0]["cost_usd"]
    assert 0.9 < rows[2]["compute_s"] / rows[0]["compute_s"] < 1.1
    notes = json.loads((tmp_path / "result" / "result.json").read_text())["notes"]
    assert "no NICs on the bill" in json.dumps(notes)
    capsys.readouterr()
