"""Prices times counts: the ratios that follow from MixNet Table 4, and the command."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from lightloom import _core, cost
from lightloom.cli import run
from lightloom.cost import BillLine, bill_of, cost_of, cost_table
from lightloom.errors import InputError
from lightloom.scenario import Scenario
from lightloom.units import Rate

# Fat-tree / MixNet with 2 electrical and 6 optical NICs of 8, by hand from Table 4: a NIC on three
# tiers uses 5 switch ports and 6 transceivers, an optical one 1 OCS port and 1 transceiver.
RATIOS = {"100 Gbps": 1.453, "200 Gbps": 1.771, "400 Gbps": 2.303, "800 Gbps": 2.341}


def by_hand(spec_json: str) -> list[dict[str, Any]]:
    """Stand in for the core's counting where the fabric is a non-blocking one or MixNet's."""
    spec = json.loads(spec_json)
    gpus, fabric = spec["cluster"]["gpus"], spec["fabric"]
    lines: Counter[tuple[str, int]] = Counter()

    def add(nics: int, rate: int, **each: int) -> None:
        for item, count in each.items():
            lines[item, rate] += nics * count

    if fabric["kind"] == "mixnet":
        optical = gpus * fabric["optical_nics"] // 8
        eps, ocs = fabric["eps"]["link_bps"], fabric["ocs"]["link_bps"]
        add(gpus - optical, eps, nic=1, switch_port=5, transceiver=6)
        add(optical, ocs, nic=1, ocs_port=1, transceiver=1)
    else:
        add(gpus, fabric["link_bps"], nic=1, switch_port=5, transceiver=6)
    return [{"item": i, "rate_bps": rate, "count": n} for (i, rate), n in lines.items()]


@pytest.fixture
def counted_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_core, "bill", by_hand, raising=False)


@pytest.mark.usefixtures("counted_by_hand")
def test_ratios_of_table_4_by_hand() -> None:
    job = Scenario.preset("mixtral-8x7b")
    rows = cost_table(job, ["fat-tree", "mixnet"], list(RATIOS))
    for row in rows:
        expected = RATIOS[str(row.bandwidth)] if row.scenario.fabric.name == "mixnet" else 1.0
        assert row.fat_tree_over_this == pytest.approx(expected, rel=0.0005)


@pytest.mark.parametrize("bandwidth", list(RATIOS))
@pytest.mark.skipif(not hasattr(_core, "bill"), reason="the compiled core is an old one")
def test_the_core_counts_as_by_hand(bandwidth: str) -> None:
    for fabric in ("fat-tree", "mixnet"):
        job = Scenario.preset("mixtral-8x7b", fabric=fabric, bandwidth=bandwidth)
        counted = {(line.item, line.rate): line.count for line in bill_of(job) if line.count}
        hand = {(c["item"], c["rate_bps"]): c["count"] for c in by_hand(job.to_core_json())}
        assert counted == hand


def test_every_line_says_whose_price_it_is() -> None:
    job = Scenario.preset("mixtral-8x7b", **{'prices.nic."400 Gbps"': 1600.0})
    lines = [BillLine(item, Rate.parse("400 Gbps"), 2) for item in ("nic", "transceiver")]
    priced = cost_of(lines, job.prices)
    assert [(p.unit_usd, p.source) for p in priced.lines] == [
        (1600.0, "given"),
        (659.0, "MixNet Table 4"),
    ]
    assert priced.total_usd == 2 * 1600 + 2 * 659


def test_a_rate_without_a_price_is_named() -> None:
    prices = Scenario.preset("mixtral-8x7b").prices
    with pytest.raises(
        InputError, match=r'prices\.nic\."300 Gbps": no such price in "mixnet-table-4"'
    ):
        cost_of([BillLine("nic", Rate.parse("300 Gbps"), 1)], prices)
    assert cost_of([], prices).total_usd == 0


@pytest.mark.usefixtures("counted_by_hand")
def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["cost", "--gpus", "2048", "--fabrics", "mixnet,fat-tree", "--bandwidth", "400"]
    assert run([*arguments, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["fabric"] for row in rows] == ["mixnet", "fat-tree"]
    mixnet = rows[0]
    assert mixnet["gpus"] == 2048 and mixnet["bandwidth_gbps"] == 400
    # 2 of 8 NICs with 6 transceivers each, 6 with 1, at 9 W.
    assert mixnet["power_w"] == 2048 / 8 * (2 * 6 + 6) * 9
    assert mixnet["power_without"] == ["nic", "switch_port", "ocs_port"]
    assert mixnet["cost_usd"] == sum(line["total_usd"] for line in mixnet["bill"])
    assert run(arguments) == 0
    table = capsys.readouterr().out
    assert "mixnet" in table and "2.303" in table and max(map(len, table.splitlines())) <= 100


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--gpus", "1000"], "command line: cluster.gpus = 1000: must be a multiple of"),
        (["--bandwidth", "fast"], '--bandwidth "fast": not a rate'),
        (["--bandwidth", "100,,200"], "without empty places"),
        (["--fabrics", "mixnett"], '--fabrics "mixnett": no such preset (did you mean "mixnet"?)'),
        (["mixtral"], "mixtral: neither a file nor a model preset"),
        (["--set", "seed"], '--set "seed": must be KEY=VALUE'),
        (["--gpus", "many"], "Invalid value for '--gpus'"),
    ],
)
def test_bad_arguments(arguments: list[str], says: str, refused: Callable[..., str]) -> None:
    assert says in refused("cost", *arguments)


def test_the_fabrics_compared_are_presets() -> None:
    from lightloom import presets

    assert set(cost.FABRICS) <= set(presets.names("fabrics")) and cost.BASELINE in cost.FABRICS


def test_the_origin_of_a_price_is_whoever_gave_it(capsys: pytest.CaptureFixture[str]) -> None:
    """A list of another name keeps its figures' source; a given figure is given, whatever it is."""
    settings = ["--set", "prices.name=mine", "--set", 'prices.nic."400 Gbps"=1499.0']
    one = ["--gpus", "128", "--fabrics", "fat-tree", "--bandwidth", "400", "--json"]
    assert run(["cost", "mixtral-8x7b", *one, *settings]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert {line["item"]: line["source"] for line in row["bill"]} == {
        "nic": "given: command line",
        "transceiver": "MixNet Table 4",
        "switch_port": "MixNet Table 4",
    }
