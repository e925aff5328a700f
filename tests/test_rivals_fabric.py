"""Rail-only, tori and HammingMesh as fabrics of jobs: what they take, cost, and what is refused."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import lightloom
import pytest
from fixtures.finish import finished
from lightloom import InputError, Scenario
from lightloom.cli import run
from lightloom.cost import bill_of, cost_of
from lightloom.resolve import load_scenario
from lightloom.simulation import simulate

pytestmark = pytest.mark.usefixtures("undrawn")

RIVALS = ("rail-only", "torus", "torus-ocs", "torus-twisted", "hamming-mesh", "railx-one-rail")
JOB: dict[str, Any] = {"gpus": 128, "parallelism.pp": 2, "training.micro_batches": 1}


def job(fabric: str, **changes: Any) -> Scenario:
    return Scenario.preset("mixtral-8x7b", fabric=fabric, **{**JOB, **changes})


@pytest.mark.parametrize("fabric", RIVALS)
def test_iterations_add_up_and_survive_their_own_text(fabric: str) -> None:
    once = job(fabric)
    again = load_scenario(once.to_tree(), {}, label="again").scenario
    assert again.to_core_json() == once.to_core_json()
    row = finished(once).summary
    parts = ("compute", "exposed_a2a", "exposed_other", "reconfiguration")
    assert sum(row[f"{part}_ps"] for part in parts) == row["iteration_ps"]


@pytest.mark.parametrize("fabric", ("fat-tree", *RIVALS))
def test_every_gpu_has_one_nic_of_the_same_rate_on_the_bill(fabric: str) -> None:
    bill = bill_of(job(fabric))
    assert {line.rate.gbps for line in bill} == {400}
    assert sum(line.count for line in bill if line.item == "nic") == 128
    assert cost_of(bill, job(fabric).prices).total_usd > 0
    as_railx = job(fabric, **{"prices.preset": "railx-table-6"}).prices
    assert cost_of(bill, as_railx).total_usd > 0


def test_a_table_of_costs_has_cables_and_boards(capsys: pytest.CaptureFixture[str]) -> None:
    fabrics = ("torus-ocs", "hamming-mesh", "railx")
    command = ["cost", "--gpus", "128", "--bandwidth", "400", "--fabrics", ",".join(fabrics)]
    assert run([*command, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    items = [{line["item"]: line["source"] for line in row["bill"]} for row in rows]
    assert [sorted(bill.keys() & {"copper_cable", "board_link"}) for bill in items] == [
        ["copper_cable"], ["board_link"], ["board_link"],
    ]  # fmt: skip
    assert items[0]["copper_cable"].startswith("RailX, Section 6.2")
    assert run(command) == 0
    assert "copper board" in " ".join(capsys.readouterr().out.split())
    assert run([*command, "--set", 'prices.nic."400 Gbps"=0']) == 0


def test_bills_by_hand() -> None:
    def counts(fabric: str, **changes: Any) -> dict[str, int]:
        return {line.item: line.count for line in bill_of(job(fabric, **changes))}

    assert counts("rail-only") == {"nic": 128, "transceiver": 256, "switch_port": 128}
    # 2 x 2 x 4 servers of 8 NICs: 48 links of 4/3 of a NIC's rate; two cubes of 12 are copper.
    sides: dict[str, Any] = {"fabric.sides": (2, 2, 4)}
    bill = counts("torus-ocs", **sides)
    links = {"copper_cable": 24 * 8 // 6, "transceiver": 24 * 16 // 6, "ocs_port": 24 * 16 // 6}
    assert bill == {"nic": 128, **links}
    # By cables alone, what goes around a side of one cube stays in it.
    links = {"copper_cable": 40 * 8 // 6 + 1, "transceiver": 8 * 16 // 6 + 1}
    assert counts("torus", **sides) == {"nic": 128, **links}
    # Four boards of four links, on each of four lines either way two ends of two boards.
    links = {"board_link": 16 * 2, "transceiver": 32 * 4, "switch_port": 32 * 2}
    assert counts("hamming-mesh", **{"fabric.columns": 2}) == {"nic": 128, **links}


@pytest.mark.parametrize("fabric", ["torus", "torus-ocs", "hamming-mesh"])
def test_the_best_shape_is_taken_for_the_job(fabric: str) -> None:
    taken = simulate(job(fabric), progress=False)
    name = taken.rows[0]["topology"]
    (why,) = (note for note in taken.info["notes"] if "was taken" in note)
    assert f": {name} was taken: of " in why
    key = "columns" if fabric == "hamming-mesh" else "sides"
    words = name.split(" of ")[-1].removesuffix(" servers").split(" x ")
    value: Any = int(name.split(" x ")[0]) if key == "columns" else tuple(map(int, words))
    again = simulate(job(fabric, **{f"fabric.{key}": value}), progress=False)
    assert again.rows[0]["iteration_s"] == taken.rows[0]["iteration_s"]
    assert again.rows[0]["topology"] == "none"
    by_hand = [(4, 2, 2), (2, 4, 2), (2, 2, 4)] if key == "sides" else [1, 2, 4]
    for value in by_hand:
        other = simulate(job(fabric, **{f"fabric.{key}": value}), progress=False)
        # Which links flows share when is not foreseen.
        assert taken.rows[0]["iteration_s"] <= 1.02 * other.rows[0]["iteration_s"], value


def test_a_ring_goes_round_a_torus_both_ways_along_all_sides() -> None:
    """An all-reduce of one GPU a server takes what all six links carry together."""
    tables = {
        "cluster": {"gpus": 64, "gpus_per_server": 1, "nics_per_server": 1, "numa_nodes": 1},
        "fabric": {"preset": "torus", "sides": [4, 4, 4], "link_delay": "0 s"},
    }
    size = 1 << 26
    row = lightloom.collective(
        "all-reduce", spec=tables, size=size, algorithm="hierarchical", progress=False
    ).rows[0]
    # A GPU sends and gets 2 (n - 1) / n of all, a sixth by each link of a sixth of the rate.
    assert row["time_s"] == pytest.approx(2 * 63 / 64 * size * 8 / 400e9, rel=1e-6)


@pytest.mark.parametrize(
    ("sides", "hops"), [([8], 2.0), ([8, 8], 2.0), ([4, 2, 8], 2.0), ([4, 4, 4], 1.0)]
)
@pytest.mark.parametrize("gpus", [1, 4])
def test_an_even_all_to_all_takes_what_the_longest_side_does(
    sides: list[int], hops: float, gpus: int
) -> None:
    count = math.prod(sides) * gpus
    tables = {
        "cluster": {
            "gpus": count, "gpus_per_server": gpus, "nics_per_server": gpus, "numa_nodes": 1,
        },
        "fabric": {"preset": "torus", "sides": sides, "link_delay": "0 s"},
    }  # fmt: skip
    size = 1 << 24
    row = lightloom.collective("all-to-all", spec=tables, size=size, progress=False).rows[0]
    # By each of two links along it a server sends half of all bytes so many hops.
    rate = 400e9 / (2 * len(sides))
    least = hops / 2 * size * 8 / rate
    # Of many equal paths sixteen are taken.
    assert 0.999 * least < row["time_s"] < 1.12 * least


@pytest.mark.parametrize(
    ("fabric", "changes", "message"),
    [
        ("torus", {"fabric.sides": [4, 4, 4]}, "fabric.sides = [4, 4, 4]: must multiply to the 16"),
        ("torus", {"fabric.sides": []}, "fabric.sides = []: must be 1 to 8 numbers"),
        ("torus", {"fabric.sides": [0, 4]}, "fabric.sides"),
        ("torus", {"fabric.twist": "yes"}, 'fabric.twist = "yes": must be true or false'),
        ("torus", {"fabric.board": 3}, "fabric.board = 3: must divide fabric.cube = 2"),
        ("torus", {"fabric.columns": 3}, 'unknown key for fabric "torus"'),
        (
            "torus-ocs",
            {"fabric.ocs_ports": 2},
            "fabric.ocs_ports = 2: must be at least 4: 2 c",
        ),
        ("torus-ocs", {"fabric.cube": 3}, "its 16 servers make no torus of three dimensions"),
        ("torus-twisted", {"fabric.sides": [4, 4]}, "fabric.twist = true: needs sides of n and of"),
        ("hamming-mesh", {"fabric.board": 3}, "its 16 servers fill no boards of 3 x 3; allowed"),
        ("hamming-mesh", {"fabric.columns": 3}, "fabric.columns = 3: must divide the 4 boards"),
        ("rail-only", {"fabric.switch_ports": 8}, "fabric.switch_ports = 8: must be at least 16"),
        (
            "rail-only",
            {"fabric.carrier": "direct"},
            'fabric.carrier = "direct": fabric "rail-',
        ),
    ],
)
def test_what_cannot_be_is_refused(
    fabric: str, changes: dict[str, Any], message: str, refused: Callable[..., str]
) -> None:
    asked = {**changes, "cluster.gpus": 128}
    sets = [part for key, value in asked.items() for part in ("--set", f"{key}={value}")]
    said = refused("simulate", "mixtral-8x7b", "--set", f"fabric.preset={fabric}", *sets)
    assert message in said


def test_a_size_that_fits_no_twisted_torus_is_told_which_do() -> None:
    with pytest.raises(InputError, match=r"cluster.gpus = 512: .* allowed, nearest: 256, 1024"):
        bill_of(job("torus-twisted", gpus=512))
