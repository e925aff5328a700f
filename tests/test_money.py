"""What a buyer pays: by hand, by another way, in properties; prices, their sources, bad files."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import lightloom
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lightloom import Scenario, presets
from lightloom.cli import run
from lightloom.cost import FABRICS
from lightloom.money import Money, money_of, usd_per_trillion_tokens
from lightloom.money.chassis import chassis_for, packed
from lightloom.money.listed import entries
from lightloom.scenario import leaves
from lightloom.sections import Chassis
from lightloom.units import Rate
from scripts import script

ROOT = Path(__file__).parents[1]
SMALL = {
    "parallelism.tp": 1, "parallelism.ep": 8, "parallelism.pp": 1, "memory.oversize": "allow",
}  # fmt: skip


def job(fabric: str, gpus: int = 1024, **more: Any) -> Scenario:
    return Scenario.preset("mixtral-8x7b", gpus=gpus, fabric=fabric, bandwidth=400, **more)


def page() -> ModuleType:
    return script("docs/money.py")


def test_the_tables_of_the_page_are_the_code_s() -> None:
    made = page()
    assert made.page() == made.PAGE.read_text(encoding="utf-8")


# Ports and how many such switches, links between transceivers, optical and panel ports: worked out
# in docs/money.md from the definition of a folded Clos network, without the compiled core.


def clos(hosts: int, uplinks: int | None = None) -> tuple[Counter[int], int]:
    """Switches by ports, and links, of three tiers of the smallest radix, every cable wired."""
    half = next(k // 2 for k in range(2, 1000, 2) if k**3 // 4 >= hosts)
    tors = [min(half, hosts - at) for at in range(0, hosts, half)]
    up = uplinks or min(half, hosts)
    switches: Counter[int] = Counter(below + up for below in tors)
    pods = [len(tors[at : at + half]) for at in range(0, len(tors), half)]
    full = max(pods)
    for pod in pods:
        switches[pod + full] += up
    switches[len(pods)] += up * full
    return switches, hosts + len(tors) * up + len(pods) * up * full


def one_by_one(switches: Counter[int], size: int) -> int:
    """Chassis of a size, each switch in turn into the fullest chassis with room."""
    free: list[int] = []
    for ports in sorted(switches.elements(), reverse=True):
        fitting = [room for room in free if room >= ports]
        if fitting:
            free.remove(min(fitting))
            free.append(min(fitting) - ports)
        else:
            free.append(size - ports)
    return len(free)


NIC, TRANSCEIVER, PORT, OCS, PANEL, FIBRE, SERVER = 1499, 659, 1090, 520, 100, 6, 258_102
BY_HAND = {
    "fat-tree": (clos(1024), 0, 0),
    "fat-tree-3to1": (clos(1024, 3), 0, 0),
    "rail-optimized": (clos(1024), 0, 0),
    "topoopt": ((Counter[int](), 0), 0, 1024),
    "mixnet": (clos(256), 768, 0),
}
NETWORK = {
    "fat-tree": 11_183_104, "fat-tree-3to1": 6_837_504, "rail-optimized": 11_183_104,
    "topoopt": 2_318_336, "mixnet": 5_241_304,
}  # fmt: skip


@pytest.mark.parametrize("fabric", FABRICS)
def test_a_bill_of_1024_gpus_by_another_way(fabric: str) -> None:
    (switches, links), optical, panel = BY_HAND[fabric]
    devices = math.ceil(2 / (576 // (optical // 2))) if optical else 0
    chassis = min(
        (one_by_one(switches, size) * size * PORT, watts * one_by_one(switches, size))
        for size, watts in ((64, 747), (128, 940))
    )
    transceivers = 2 * links + optical + panel
    usd = (
        1024 * NIC + transceivers * TRANSCEIVER + chassis[0] + devices * 576 * OCS
        + panel * PANEL + (links + optical + panel) * FIBRE
    )  # fmt: skip
    money = money_of(job(fabric))
    assert money.network_usd == usd == NETWORK[fabric]
    assert money.servers_usd == 128 * SERVER
    watts = 128 * 10_200 + 9 * transceivers
    # Of one price, fewer watts are not sought: the first model by name is taken.
    assert money.watts is not None and money.watts >= watts + chassis[1]
    assert money.energy_usd == pytest.approx(money.watts / 1e3 * 8766 * 4 * 0.0806)
    assert money.cluster_usd == pytest.approx(
        money.servers_usd + money.network_usd + money.energy_usd
    )
    text = (ROOT / "docs" / "money.md").read_text(encoding="utf-8")
    assert f"{NETWORK[fabric]:,}**" in text


sizes = st.dictionaries(st.integers(1, 64), st.integers(1, 40), min_size=1, max_size=6)


@given(sizes)
def test_chassis_are_packed_as_one_by_one(switches: dict[int, int]) -> None:
    found = packed(list(switches.items()), 64)
    ports = sum(size * count for size, count in switches.items())
    assert math.ceil(ports / 64) <= found <= sum(switches.values())
    assert found == one_by_one(Counter(switches), 64)


@given(sizes, st.booleans())
def test_each_switch_has_its_ports(switches: dict[int, int], shared: bool) -> None:
    listed = {str(n): Chassis(rate=Rate(10**11), ports=n) for n in (16, 32, 48)}
    found = chassis_for(list(switches.items()), listed, 10.0, shared=shared)
    room = sum(one.ports * one.count for one in found)
    assert room >= sum(size * count for size, count in switches.items())
    if not shared:
        assert sum(one.count for one in found) == sum(switches.values())


def scaled(factor: float) -> Scenario:
    """The MixNet job with every price of the network times a factor."""
    base = job("mixnet")
    changes: dict[str, Any] = {
        f'prices.{item}."{rate}"': usd * factor
        for item in ("nic", "transceiver", "switch_port", "ocs_port")
        for rate, usd in getattr(base.prices, item).items()
    }
    return base.with_(changes | {"money.fibre_usd_m": 0.3 * factor})


@pytest.mark.parametrize("factor", [0.0, 0.5, 3.0])
def test_money_is_linear_in_prices(factor: float) -> None:
    one, many = money_of(job("mixnet")), money_of(scaled(factor))
    assert one.network_usd is not None
    assert many.network_usd == pytest.approx(factor * one.network_usd)
    assert many.servers_usd == one.servers_usd and many.energy_usd == one.energy_usd


def test_energy_is_linear_in_years_price_and_pue() -> None:
    def energy(**changes: float) -> float:
        found = money_of(job("fat-tree", **{f"money.{key}": of for key, of in changes.items()}))
        assert found.energy_usd is not None
        return found.energy_usd

    one = energy()
    assert energy(years=8.0) == pytest.approx(2 * one)
    assert energy(kwh_usd=0.0806 * 3) == pytest.approx(3 * one)
    assert energy(pue=1.5) == pytest.approx(1.5 * one)


def parts(money: Money) -> float:
    return sum(line.total_usd or 0.0 for line in money.lines)


@pytest.mark.parametrize("fabric", presets.names("fabrics"))
def test_every_fabric_s_parts_sum(fabric: str) -> None:
    money = money_of(Scenario.preset("mixtral-8x7b", gpus=1024, fabric=fabric))
    names = {line.item for line in money.lines}
    assert {"server", "fibre"} <= names and len({line.name for line in money.lines}) == len(
        money.lines
    )
    assert all(line.count > 0 for line in money.lines)
    if money.network_usd is None:
        assert any(name.startswith("price of") for name in money.missing)
        assert money.cluster_usd is None
    else:
        assert money.servers_usd is not None and money.energy_usd is not None
        assert money.network_usd + money.servers_usd == pytest.approx(parts(money))
        assert money.cluster_usd == pytest.approx(parts(money) + money.energy_usd)


@pytest.mark.parametrize("gpus", [8, 72, 200, 256, 1000, 1008])
@pytest.mark.parametrize("fabric", [*FABRICS, "leaf-spine", "planes", "rail-only", "dragonfly"])
def test_odd_sizes_have_a_place_for_every_port(fabric: str, gpus: int) -> None:
    try:
        odd = job(fabric, gpus, **SMALL)
        money = money_of(odd)
    except lightloom.errors.InputError:
        pytest.skip("no such fabric of this size")
    assert money.network_usd is not None and money.network_usd > 0
    (server,) = (line for line in money.lines if line.part == "servers")
    assert server.count == gpus // 8
    count = {item: 0 for item in ("chassis", "transceiver", "fibre", "NIC", "patch panel port")}
    ports = 0
    for line in money.lines:
        count[line.item] = count.get(line.item, 0) + line.count
        if line.item == "chassis":
            ports += line.count * int(line.kind.partition(", ")[2].partition(" x ")[0])
    assert count["NIC"] == gpus
    # A cable has two ends: transceivers that are not in NICs are in chassis.
    assert count["transceiver"] - count["NIC"] <= ports
    assert count["fibre"] >= gpus


def test_the_engine_does_not_decide_what_is_bought() -> None:
    for fabric in ("fat-tree", "mixnet", "fat-tree-3to1"):
        one = job(fabric, 72, **SMALL)
        assert money_of(one).lines == money_of(one.with_({"engine.kind": "packet"})).lines


def test_a_chassis_of_its_own_for_each_switch() -> None:
    money = money_of(job("fat-tree", **{"money.share_chassis": False}))
    (chassis,) = (line for line in money.lines if line.item == "chassis")
    assert chassis.count == 320


def test_a_rack_that_is_sold_whole_is_paid_whole() -> None:
    rack = Scenario.preset("mixtral-8x7b", fabric="gb200-nvl72", **{"compute.gpu": "gb200"})
    money = money_of(rack)
    assert money.servers_usd == 16 * 3_400_000
    loose = money_of(rack.with_({"money.server.gb200.whole": False}))
    assert loose.servers_usd == pytest.approx(16 * 3_400_000 * 64 / 72)


def test_tokens_cost_the_cluster_over_its_years() -> None:
    money = money_of(job("fat-tree", **{"money.years": 1.0}))
    assert money.cluster_usd is not None
    per = usd_per_trillion_tokens(money, 1e6)
    assert per == pytest.approx(money.cluster_usd * 1e6 / (8766 * 3600))
    assert usd_per_trillion_tokens(money, None) is None


class TestMissing:
    def test_a_server_without_a_price_leaves_no_cluster_price(self) -> None:
        money = money_of(job("fat-tree", **{"compute.gpu": "h200"}))
        assert money.servers_usd is None and money.cluster_usd is None
        assert money.network_usd == NETWORK["fat-tree"]
        assert "price of server h200" in money.missing
        assert usd_per_trillion_tokens(money, 1e6) is None

    def test_nor_does_one_without_watts_leave_an_energy_price(self) -> None:
        money = money_of(job("fat-tree", **{"compute.gpu": "h800"}))
        assert money.watts is None and money.energy_usd is None
        assert set(money.missing) == {"price of server h800", "watts of server h800"}

    def test_the_table_json_and_parquet_say_so(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        two = ["--fabrics", "fat-tree,mixnet", "--bandwidth", "400", "--micro-batches", "1"]
        asked = ["compare", "mixtral-8x7b", "--gpus", "128", *two, "--set", "compute.gpu=h200"]
        assert run([*asked, "--out", str(tmp_path / "out")]) == 0
        out = capsys.readouterr().out
        assert "missing: price of server h200 (fat-tree, mixnet)" in " ".join(out.split())
        rows = lightloom.Result.open(tmp_path / "out").rows
        assert [row["cluster_usd"] for row in rows] == [None, None]
        assert all("price of server h200" in row["missing"] for row in rows)
        text = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
        assert "price: missing" in text and "What a buyer pays" in text
        lines = lightloom.Result.open(tmp_path / "out").money.to_pylist()
        (server,) = (x for x in lines if x["item"] == "server" and x["run"] == "mixnet@400G")
        assert server["unit_usd"] is None and server["watts"] == 10_200


class TestSources:
    def test_every_shipped_figure_has_a_source_and_a_date(self) -> None:
        for prices in presets.names("prices"):
            for one in entries(job("mixnet", **{"prices.preset": prices})):
                if one.figure.value is not None:
                    assert one.figure.source and one.figure.date, one

    def test_a_figure_of_one_s_own_is_given(self) -> None:
        found = job("fat-tree", **{"money.server.h100.usd": 1.0}).money.server["h100"]
        assert found.usd_source is None and found.usd_date is None
        assert found.watts_source and found.watts_date
        (server, *_) = money_of(job("fat-tree", **{"money.server.h100.usd": 1.0})).lines
        assert server.source == "given" and server.date is None

    def test_they_survive_their_own_toml_and_other_changes(self) -> None:
        again = job("fat-tree").with_(seed=7)
        assert again.money == job("fat-tree").money

    def test_the_command_lists_them(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["cost", "--prices", "--json"]) == 0
        listed = json.loads(capsys.readouterr().out)
        found = {(one["of"], one["unit"]): one for one in listed["prices"]}
        assert found["server h100", "$"]["value"] == SERVER
        assert found["server h200", "$"]["value"] is None
        assert found["NIC 400 Gbps", "$"]["date"] == "2025-09"
        assert run(["cost", "--prices"]) == 0
        out = capsys.readouterr().out
        assert "missing" in out and "SemiAnalysis" in out


class TestFile:
    EXAMPLE = ROOT / "examples" / "prices.toml"

    def test_what_it_holds_takes_the_place_of_the_lists(self) -> None:
        own = job("mixnet", **{"money.file": str(self.EXAMPLE)})
        money = money_of(own)
        chassis, server, nic, optics = (
            next(line for line in money.lines if line.item == item)
            for item in ("chassis", "server", "NIC", "transceiver")
        )
        assert chassis.unit_usd == 40_000 and chassis.source == "quote of a vendor"
        assert chassis.watts == 747 and chassis.date == "2026-02-03"
        assert server.unit_usd == SERVER and nic.watts == 20 and optics.unit_usd == 450
        assert money.years == 5 and money.missing == ()
        assert own.money.name == "our quotes"

    def test_the_command_line_goes_above_it(self) -> None:
        both = {"money.file": str(self.EXAMPLE), "money.years": 7.0}
        assert job("mixnet", **both).money.years == 7

    def test_its_values_have_it_as_their_origin(self) -> None:
        found = lightloom.resolve.load_scenario(
            {"model": {"preset": "mixtral-8x7b"}, "money": {"file": str(self.EXAMPLE)}}
        )
        assert found.origins["money.years"].layer == str(self.EXAMPLE)
        keys = [key for key, _ in leaves(found.scenario.to_tree()) if key.startswith("money.")]
        assert set(keys) <= set(found.origins)

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("[money]\nyears = -2\n", "money.years = -2: must be more than 0"),
            ("[money]\nyears = nan\n", "money.years = nan: must be"),
            ("[money\n", "not valid TOML"),
            ("[monye]\nyears = 1\n", "monye: unknown key; allowed: prices, power, money"),
            ("years = 1\n", "years: unknown key; allowed: prices, power, money"),
            ("money = 1\n", "money = 1: must be a table"),
            ('[prices.nic]\n"400 Gbps" = -3\n', 'prices.nic."400 Gbps" = -3: must be at least 0'),
            ('[prices.nic]\n"fast" = 3\n', "prices.nic"),
            ("[money.server.h100]\nusd = nan\n", "money.server.h100.usd = nan: must be"),
            ("[money.server.h100]\nusd = inf\n", "money.server.h100.usd = inf: must be"),
            ("[money.server.x]\nusd = 1.0\n", "money.server.x.gpus: missing"),
            ('[money.chassis.x]\nports = 8\nrate = "8"\n', "money.chassis.x.rate"),
            ('[money.server.h100]\nusd_date = "May"\n', 'usd_date = "May": must be 2024'),
            ("[money]\npue = 0.9\n", "money.pue = 0.9: must be at least 1"),
            ("[money]\nkwh = 1\n", "money.kwh = 1: unknown key"),
        ],
    )
    def test_what_is_wrong_with_one(
        self, text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "mine.toml"
        path.write_text(text, encoding="utf-8")
        assert run(["cost", "--set", f"money.file={path}"]) == 2
        err = capsys.readouterr().err
        assert err.count("\n") == 1 and err.startswith(f"error: {path}: ") and said in err

    def test_one_that_is_not_there(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["cost", "--set", "money.file=nowhere.toml"]) == 2
        err = capsys.readouterr().err
        assert "money.file" in err and "nowhere.toml" in err and "no such file" in err
