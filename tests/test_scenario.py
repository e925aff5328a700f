"""Resolving: presets, layers, origins, round trips, and the core's JSON."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lightloom import presets
from lightloom.errors import InputError
from lightloom.resolve import load_job, load_scenario
from lightloom.scenario import Scenario, leaves
from lightloom.toml_text import to_toml
from lightloom.units import ByteRate, FlopRate, Quantity, Rate, Time

MODELS, FABRICS = presets.names("models"), presets.names("fabrics")
MIXTRAL: dict[str, Any] = {"model": {"preset": "mixtral-8x7b"}}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("fabric", FABRICS)
@pytest.mark.parametrize("table", ["roofline", "paper-profile"])
def test_every_preset_survives_its_own_toml(model: str, fabric: str, table: str) -> None:
    job = Scenario.preset(model, fabric=fabric, bandwidth="200 Gbps", **{"compute.table": table})
    again = load_scenario(tomllib.loads(job.to_toml())).scenario
    assert again == job
    assert again.to_core_json() == job.to_core_json()
    assert job.fabric.name == fabric and job.model.name == model


@pytest.mark.parametrize(
    "kind", ["models", "gpus", "fabrics", "devices", "hosts", "prices", "power", "networks"]
)
def test_every_figure_of_a_preset_has_a_source(kind: str) -> None:
    labels = ("name", "gpu", "device", "kind")
    for name in presets.names(kind):
        preset = presets.load(kind, name)
        for key, _ in leaves(preset.values):
            assert preset.source(key) or key.rpartition(".")[2] in labels, (name, key)
    defaults = presets.defaults()
    assert all(defaults.source(key) for key, _ in leaves(defaults.values))


def test_the_core_reads_exactly_this() -> None:
    golden = Path(__file__).parent / "golden" / "core-mixtral-8x7b-mixnet.json"
    job = Scenario.preset("mixtral-8x7b", fabric="mixnet")
    assert json.dumps(job.to_core(), indent=1) + "\n" == golden.read_text(encoding="utf-8")


def test_names_that_only_people_read_stay_out_of_the_core() -> None:
    job = Scenario.preset("mixtral-8x7b", fabric="fat-tree-3to1")
    renamed = job.with_(**{"fabric.name": "mine", "name": "night run", "prices.name": "p"})
    assert renamed.title == "night run" and renamed.to_core_json() == job.to_core_json()


def test_delays_of_both_forms_reach_the_core() -> None:
    fixed = Scenario.preset("mixtral-8x7b", fabric="mixnet")
    measured = fixed.with_(**{"fabric.ocs.device": "polatis-measured"})
    assert fixed.to_core()["fabric"]["ocs"]["delay"] == {"kind": "fixed", "ps": 25_000_000_000}
    assert measured.to_core()["fabric"]["ocs"]["delay"] == {
        "kind": "lognormal",
        "pairs": [1, 4, 16],
        "mean_ps": [41_440_000_000, 42_440_000_000, 46_750_000_000],
        "p99_ps": [60_000_000_000, 62_000_000_000, 68_000_000_000],
    }
    back = measured.with_(**{"fabric.ocs.delay": "1 us"})
    assert back.to_core()["fabric"]["ocs"]["delay"]["ps"] == 1_000_000


class TestLayers:
    def test_an_override_lies_above_the_file_and_the_file_above_presets(self) -> None:
        job = load_scenario(
            MIXTRAL | {"parallelism": {"tp": 8}, "seed": 2}, {"parallelism.pp": 2, "seed": 3}
        )
        split = job.scenario.parallelism
        assert (split.tp, split.pp, split.ep, job.scenario.seed) == (8, 2, 8, 3)
        layers = {key: job.origins[f"parallelism.{key}"].layer for key in ("tp", "pp", "ep")}
        assert layers == {
            "tp": "spec",
            "pp": "override",
            "ep": "preset models/mixtral-8x7b.toml",
        }

    def test_another_fabric_starts_afresh(self) -> None:
        job = load_scenario(
            MIXTRAL | {"fabric": {"kind": "mixnet", "optical_nics": 4}},
            {"fabric.preset": "fat-tree-3to1"},
        ).scenario
        assert job.fabric == Scenario.preset("mixtral-8x7b", fabric="fat-tree-3to1").fabric

    @pytest.mark.parametrize("key", ["fabric.preset", "fabric.kind"])
    def test_the_same_fabric_keeps_its_settings(self, key: str) -> None:
        job = load_scenario(MIXTRAL | {"fabric": {"kind": "mixnet", "optical_nics": 4}}).scenario
        assert job.with_(**{key: "mixnet"}) == job

    def test_another_gpu_brings_all_that_belongs_to_it(self) -> None:
        job = Scenario.preset("mixtral-8x7b").with_(**{"compute.gpu": "h800"})
        assert str(job.cluster.scale_up_bandwidth) == "200 GB/s"
        assert job.compute.matmul_efficiency == 0.5

    def test_another_switch_leaves_no_delay_behind(self) -> None:
        job = Scenario.preset("mixtral-8x7b", fabric="mixnet")
        with pytest.raises(InputError, match=r"fabric\.ocs\.delay: missing"):
            job.with_(**{"fabric.ocs.device": "palomar"})
        fast = job.with_(**{"fabric.ocs.device": "palomar", "fabric.ocs.delay": "1 ms"})
        assert fast.to_core()["fabric"]["ocs"]["ports"] == 136

    def test_a_device_of_ones_own_brings_all_its_figures(self) -> None:
        own = {"device": "mine", "ports": 64, "delay": "3 us"}
        job = load_scenario(MIXTRAL | {"fabric": {"kind": "mixnet", "ocs": own}}).scenario
        assert job.to_core()["fabric"]["ocs"]["ports"] == 64

    def test_a_link_setting_of_mixnet_is_for_both_parts_unless_one_says_otherwise(self) -> None:
        fabric = {"kind": "mixnet", "link_bandwidth": "800 Gbps"}
        job = load_scenario(MIXTRAL | {"fabric": fabric | {"eps": {"link_bandwidth": "100 Gbps"}}})
        parts = job.scenario.to_core()["fabric"]
        assert parts["eps"]["link_bps"] == 100_000_000_000
        assert parts["ocs"]["link_bps"] == 800_000_000_000
        both = job.scenario.with_(**{"fabric.link_bandwidth": "200 Gbps"}).to_core()["fabric"]
        assert both["eps"]["link_bps"] == both["ocs"]["link_bps"] == 200_000_000_000

    def test_another_model_brings_its_parallelism(self) -> None:
        job = Scenario.preset("mixtral-8x7b").with_(**{"model.preset": "qwen-moe-32"})
        assert (job.model.experts, job.parallelism.ep, job.parallelism.tp) == (32, 32, 1)

    def test_a_price_at_the_same_rate_replaces_however_it_is_spelled(self) -> None:
        job = Scenario.preset("mixtral-8x7b", **{'prices.nic."0.4 Tbps"': 1.0})
        assert job.prices.nic[Rate.parse("400 Gbps")] == 1.0 and len(job.prices.nic) == 4

    def test_the_users_tables_are_not_changed(self) -> None:
        tables = MIXTRAL | {"fabric": {"kind": "mixnet", "link_bandwidth": "100 Gbps"}}
        before = json.dumps(tables)
        load_scenario(tables)
        assert json.dumps(tables) == before

    def test_every_effective_value_has_an_origin(self) -> None:
        job = load_job("deepseek-v3", {"fabric.kind": "mixnet", "compute.table": "paper-profile"})
        rows = list(job.rows())
        assert all(origin.layer for _, _, origin in rows)
        shown = {key for key, _, _ in rows}
        assert {key for key, _ in leaves(job.scenario.to_tree())} <= shown


class TestPaperProfile:
    """MixNet's printed times, and how they are carried to other shapes."""

    @staticmethod
    def measured(model: str = "mixtral-8x7b", **changes: Any) -> tuple[int, str, int]:
        job = Scenario.preset(model, **{"compute.table": "paper-profile"}, **changes)
        (entry,) = job.compute.measured
        return entry.micro_batch, str(entry.time), entry.origin

    def test_printed_shapes_are_printed_times(self) -> None:
        assert self.measured() == (8, "100 ms", "measured")
        assert self.measured(**{"training.micro_batch": 16}) == (16, "122 ms", "given")

    def test_other_shapes_scale_by_flop_and_are_given(self) -> None:
        assert self.measured(**{"parallelism.tp": 2}) == (8, "200 ms", "given")
        assert self.measured(**{"training.sequence_length": 2048}) == (8, "50 ms", "given")
        # DeepSeek-R1: 8 x 7168 x 2048 over 2 x 4096 x 14336 / 4.
        assert self.measured("deepseek-r1") == (8, "400 ms", "given")

    def test_it_follows_later_changes(self) -> None:
        job = Scenario.preset("mixtral-8x7b", **{"compute.table": "paper-profile"})
        halved = job.with_(**{"parallelism.tp": 8, "cluster.gpus": 1024})
        assert str(halved.compute.measured[0].time) == "50 ms"
        assert job.with_(**{"compute.table": "roofline"}).compute.measured == ()


def test_a_table_file_is_kept_in_the_resolved_specification(tmp_path: Path) -> None:
    (tmp_path / "times.csv").write_text(
        "component,pass,micro_batch,time,origin\nattention,backward,8,7.5 ms,given\n"
    )
    spec = tmp_path / "job.toml"
    spec.write_text(to_toml(MIXTRAL | {"compute": {"table": "times.csv"}}))
    job = load_scenario(spec)
    assert job.scenario.to_core()["compute"]["measured"] == [
        {
            "component": "attention",
            "pass": "backward",
            "micro_batch": 8,
            "time_ps": 7_500_000_000,
            "origin": "given",
        }
    ]
    assert job.origins["compute.measured"].layer.endswith("times.csv")
    (tmp_path / "times.csv").unlink()
    assert load_scenario(tomllib.loads(job.scenario.to_toml())).scenario == job.scenario


def test_a_trace_path_is_relative_to_the_specification(tmp_path: Path) -> None:
    (tmp_path / "trace.parquet").touch()
    spec = tmp_path / "job.toml"
    spec.write_text(to_toml(MIXTRAL | {"gating": {"trace": "trace.parquet"}}))
    assert load_scenario(spec).scenario.gating.trace == str(tmp_path / "trace.parquet")


def test_scenarios_are_frozen() -> None:
    job = Scenario.preset("mixtral-8x7b")
    with pytest.raises(ValueError, match="frozen"):
        job.seed = 2


@given(st.integers(0, 2**64 - 1))
def test_quantities_read_what_they_write(value: int) -> None:
    kinds: list[type[Quantity]] = [Time, Rate, FlopRate]
    for kind in kinds:
        assert kind.parse(str(kind(value))) == value
    assert ByteRate.parse(str(ByteRate(value // 8))) == value // 8


TREES = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(st.dictionaries(st.text(), TREES, max_size=4))
def test_toml_is_read_as_it_was_written(tree: dict[str, Any]) -> None:
    assert tomllib.loads(to_toml(tree)) == tree
