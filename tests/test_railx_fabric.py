"""RailX as a fabric of jobs: what training on it takes, costs, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
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
HYPERX: dict[str, Any] = {"fabric.topology": "hyperx"}
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
        "ports": 2, "ocs_ports": 128, "topology": "torus", "columns": 4, "x": None, "y": None,
        "uneven": None, "inside": 4.0, "mesh_delay_ps": 10_000, "ocs_delay_ps": None,
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
    # Its mesh: 24 links, each as fast as eight rails.
    assert {line.item: line.count for line in bill_of(job(**ONE_NODE))} == {"board_link": 24 * 8}


def test_links_carry_no_more_than_they_can(tmp_path: Path) -> None:
    simulate(job(), out=tmp_path / "run")
    links = pq.read_table(tmp_path / "run" / "links.parquet").to_pylist()
    assert [row["class"] for row in links] == ["mesh", "rail"]
    assert all(0 < row["max_utilization"] <= 1 for row in links)
    # What enters an optical switch leaves it: each byte is on two fibres a circuit.
    assert next(row["bytes"] for row in links if row["class"] == "rail") % 2 == 0


def test_the_bill_is_two_ports_and_a_transceiver_for_each_lit_rail_end_and_the_mesh() -> None:
    # 3 x 3 nodes: in each dimension eight rails of two ends.
    lines = {line.item: line.count for line in bill_of(job(**NINE_NODES, **HYPERX))}
    ends = dict.fromkeys(("nic", "transceiver", "ocs_port"), 9 * 2 * 8 * 2)
    assert lines == {**ends, "board_link": 9 * 24 * 8}
    # 4 x 4 nodes: six rails are a whole set, two are dark.
    sixteen = job(**{"gpus": 256, "parallelism.pp": 4}, **HYPERX)
    lines = {line.item: line.count for line in bill_of(sixteen)}
    ends = dict.fromkeys(("nic", "transceiver", "ocs_port"), 16 * 2 * 6 * 2)
    assert lines == {**ends, "board_link": 16 * 24 * 8}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cluster.gpus_per_server": 8, "cluster.nics_per_server": 8}, "fabric.mesh squared = 16"),
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
        (
            {"gpus": 1536, "fabric.ports": 1, **HYPERX},
            "fill no rows and columns that a HyperX can join",
        ),
        ({"fabric.columns": 3}, "fabric.columns = 3: must divide the 8 nodes of 16 GPUs"),
        (
            {"gpus": 1536, "fabric.columns": 6, **HYPERX},
            "fabric.columns = 6: 8 rails join at most 9",
        ),
    ],
)
def test_a_job_that_fills_no_grid_is_told_so(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        bill_of(job(**changes))
    assert message in str(caught.value)


def test_the_best_topology_is_taken_for_the_job() -> None:
    """No topology that is set by hand is faster, of any number of columns; no rail stays dark."""
    sixteen: dict[str, Any] = {"gpus": 256, "parallelism.pp": 4, "training.micro_batches": 1}
    taken = simulate(job(**sixteen), progress=False)
    name = taken.rows[0]["topology"]
    (why,) = (note for note in taken.info["notes"] if "was taken" in note)
    assert why.startswith(f"railx: {name} was taken: of ") and "torus of 2 x 8 nodes" in why
    by_hand = {}
    for topology in ("torus", "hyperx", "dragonfly"):
        for columns in (1, 2, 4, 8, 16):
            asked = {"fabric.topology": topology, "fabric.columns": columns}
            try:
                result = simulate(job(**sixteen, **asked), progress=False)
            except InputError:
                continue  # too many nodes for the rails
            assert result.rows[0]["topology"] == "none"
            by_hand[topology, columns] = result.rows[0]["iteration_s"]
    assert len(by_hand) > 8 and taken.rows[0]["iteration_s"] <= min(by_hand.values())
    # Each direction of two ends of eight rails along two axes.
    circuits = taken.circuits.to_pylist()
    assert len(circuits) == 16 * 2 * 8 * 2
    assert len({(row["switch"], row["from"]) for row in circuits}) == len(circuits)
    # What was taken can be asked for, and gives the same.
    words = name.split()
    parts = {words[at - 1]: words[at + 1] for at, word in enumerate(words) if word == "="}
    asked = {
        "fabric.topology": words[0],
        **{f"fabric.{axis}": part for axis, part in parts.items()},
    }
    again = simulate(job(**sixteen, **asked), progress=False)
    assert again.rows[0]["iteration_s"] == taken.rows[0]["iteration_s"]
    assert again.circuits.to_pylist() == circuits


@pytest.mark.parametrize(
    ("changes", "grids"),
    [
        (NINE_NODES, {(1, 9), (9, 1), (3, 3)}),
        ({"gpus": 272, "parallelism.ep": 4, "parallelism.tp": 4, "parallelism.pp": 17,
          "model.layers": 34}, {(1, 17), (17, 1)}),
        ({"gpus": 256, "parallelism.pp": 4, "fabric.columns": 4}, {(4, 4)}),
        ({"fabric.ports": 1}, {(1, 8), (2, 4), (4, 2), (8, 1)}),
        ({"fabric.ocs_ports": 8}, {(2, 4), (4, 2)}),
    ],
)  # fmt: skip
def test_a_job_of_any_size_gets_one(changes: dict[str, Any], grids: set[tuple[int, int]]) -> None:
    result = simulate(job(**changes, **{"training.micro_batches": 1}), progress=False)
    assert result.rows[0]["topology"] != "none"
    (said,) = (note for note in result.info["notes"] if "nodes of" in note and "NIC" in note)
    columns, rows = said.removeprefix("railx: ").split(" nodes")[0].split(" x ")
    assert (int(columns), int(rows)) in grids


@pytest.mark.parametrize("primitive", ["all-reduce", "all-gather", "all-to-all"])
@pytest.mark.parametrize("ranks", [128, 121])
def test_a_collective_gets_one_too(
    primitive: str, ranks: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [
        "collective",
        primitive,
        "--ranks",
        str(ranks),
        "--fabric",
        "railx",
        "--size",
        "16MiB",
    ]

    def time(topology: str) -> float:
        asked = ["--set", f"fabric.topology={topology}", "--out", str(tmp_path / topology)]
        assert run([*command, *asked]) == 0
        said = capsys.readouterr().out.splitlines()
        return float(next(line for line in said if line.split()[:1] == ["16777216"]).split()[1])

    # Which paths a hash takes is not foreseen.
    assert time("auto") <= 1.1 * min(time("torus"), time("hyperx"))


SPLIT: dict[str, Any] = {"fabric.topology": "split"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (SPLIT, "fabric.x: a split has parts, such as x = ring:3*1,all:3*1"),
        ({"fabric.x": "ring:8"}, 'fabric.x = "ring:8": is not read with fabric.topology = "auto"'),
        ({"fabric.uneven": True, **HYPERX}, 'is not read with fabric.topology = "hyperx"'),
        ({"fabric.x": "ring:8", "fabric.columns": 8, **SPLIT}, "fabric.columns = 8: is not read"),
        ({"fabric.x": "rong:8", **SPLIT}, "fabric.x = rong:8: must be parts such as ring:3*1"),
        ({"fabric.x": "ring:4", **SPLIT}, "make 4 x 1 nodes; must make the job's 8"),
        ({"fabric.x": "ring:8*3", **SPLIT}, "fabric.x = 3 rails: the parts may have at most the 2"),
        ({"fabric.x": "all:4*1,ring:2*1", **SPLIT}, "scale = 4: 4 rails join at most 5 nodes"),
        ({"fabric.x": "ring:8,", **SPLIT}, "fabric.x = ring:8,: must be parts such as"),
        ({"fabric.columns": 3}, "fabric.columns = 3: must divide the 8 nodes of 16 GPUs"),
        ({"fabric.ocs_ports": 4}, "its 8 nodes of 16 GPUs fill no rows and columns"),
    ],
)
def test_a_split_that_cannot_be_is_refused(
    changes: dict[str, Any], message: str, refused: Callable[..., str]
) -> None:
    sets = [part for key, value in {**JOB, **changes}.items() if key != "gpus"
            for part in ("--set", f"{key}={json.dumps(value)}")]  # fmt: skip
    command = [
        "simulate",
        "mixtral-8x7b",
        "--set",
        "cluster.gpus=128",
        "--set",
        "fabric.preset=railx",
    ]
    assert message in refused(*command, *sets)


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
    assert "each port of a chip for a rail counts as a NIC" in json.dumps(notes)
    said = " ".join(capsys.readouterr().out.split())
    assert f"topology taken for the job, railx@400G: {rows[2]['topology']}" in said
    assert [row["topology"] for row in rows[:2]] == ["none", "none"]
    circuits = pq.read_table(tmp_path / "result" / "circuits.parquet").to_pylist()
    assert {row["run"] for row in circuits} == {"mixnet@400G", "railx@400G"}
