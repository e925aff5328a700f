"""Comparisons of several draws: what varies, what is paired, and which intervals are claimed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lightloom
import numpy as np
import pyarrow.parquet as pq
import pytest
from lightloom import Scenario
from lightloom.cli import run
from lightloom.cost import on_fabrics
from lightloom.draws.axes import Draws
from lightloom.draws.repeat import Repeated, summary
from lightloom.draws.spread import ratio, spread
from lightloom.errors import InputError, Interrupted
from lightloom.report import Result
from lightloom.trace.gating_trace import BUILTIN_DIRECTORY
from lightloom.units import Rate

SMALL = {"cluster.gpus": 128, "training.micro_batches": 1}
RATE = Rate.parse("400 Gbps")
FABRICS = ("fat-tree", "mixnet")
CLI = ("compare", "mixtral-8x7b", "--gpus", "128", "--set", "training.micro_batches=1")


@pytest.fixture(scope="module")
def job() -> Scenario:
    return Scenario.preset("mixtral-8x7b", gpus=128).with_(SMALL)


@pytest.fixture(scope="module")
def result(job: Scenario, tmp_path_factory: pytest.TempPathFactory) -> Result:
    return lightloom.compare(
        job,
        fabrics=FABRICS,
        bandwidths=[100, 400],
        seeds=3,
        profiles=["share", "shape"],
        out=tmp_path_factory.mktemp("draws") / "out",
        progress=False,
    )


def test_intervals_are_those_of_numpy_on_a_table_by_hand() -> None:
    def row(run: str, fabric: str, draw: int, time: float, usd: float) -> Mapping[str, Any]:
        figures = {"iteration_s": time, "network_usd": usd, "cluster_usd": 10 * usd}
        return {"run": run, "fabric": fabric, "bandwidth_gbps": 400.0, "draw": draw, **figures}

    times = {"fat-tree": [1.0, 2.0, 4.0, 8.0], "mixnet": [1.5, 2.2, 4.2, 8.8]}
    usd = {"fat-tree": [10.0, 10.0, 20.0, 20.0], "mixnet": [5.0, 5.0, 8.0, 8.0]}
    rows = tuple(
        row(f"{name}@400G", name, at, times[name][at], usd[name][at])
        for at in range(4)
        for name in times
    )
    found = summary(Repeated(rows, 4, None))["mixnet@400G"]
    assert found["draws"] == 4
    assert found["iteration_s_draws"] == times["mixnet"]
    mixnet, tree = (np.array(times[name]) for name in ("mixnet", "fat-tree"))
    gain = (tree * usd["fat-tree"]) / (mixnet * usd["mixnet"])
    for name, values in (
        ("iteration_s", mixnet),
        ("time_vs_fat_tree", mixnet / tree),
        ("perf_per_network_dollar_vs_fat_tree", gain),
        ("perf_per_cluster_dollar_vs_fat_tree", gain),
    ):
        got = [found[f"{name}_{part}"] for part in ("low", "median", "high")]
        assert got == pytest.approx(np.percentile(values, [5, 50, 95]))
    # Unpaired, the ratio would reach from 0.19 to 8.8.
    assert found["time_vs_fat_tree_high"] < 1.5


def test_a_price_that_is_missing_makes_no_ratio() -> None:
    rows = tuple(
        {"run": name, "fabric": name, "bandwidth_gbps": 1.0, "draw": 1, "iteration_s": 1.0,
         "network_usd": 1.0, "cluster_usd": None}
        for name in FABRICS
    )  # fmt: skip
    found = summary(Repeated(rows, 1, None))["mixnet"]
    assert found["perf_per_cluster_dollar_vs_fat_tree_median"] is None
    assert found["perf_per_network_dollar_vs_fat_tree_median"] == 1.0


def test_of_one_value_the_interval_is_the_value() -> None:
    assert spread([2.5]) == (2.5, 2.5, 2.5)
    assert ratio([3.0, 6.0], [2.0, 4.0]) == (1.5, 1.5, 1.5)
    with pytest.raises(ValueError, match="none"):
        spread([])


@pytest.mark.parametrize("fabric", ["fat-tree", "mixnet", "topoopt", "mixnet-same-money", "torus"])
def test_a_seed_changes_nothing_of_a_fabric_but_the_seed(job: Scenario, fabric: str) -> None:
    plan = Draws.of(job, seeds=3)
    for draw, (found,) in zip(
        plan.draws,
        plan.scenarios(lambda one: list(on_fabrics(one, [fabric], [RATE]))),
        strict=True,
    ):
        (fresh,) = on_fabrics(job.with_(seed=draw.seed), [fabric], [RATE])
        assert found.to_tree() == fresh.to_tree()
        assert found.to_core() == fresh.to_core()


def test_a_draw_has_the_same_demand_on_each_fabric(job: Scenario) -> None:
    sent = {}
    for fabric in FABRICS:
        for seed in (1, 2):
            one = job.with_(fabric={"preset": fabric}, seed=seed)
            demand = lightloom.simulate(one, progress=False).demand
            keys = ("layer", "micro_batch", "source", "destination", "bytes")
            rows = zip(*(demand[key].to_pylist() for key in keys), strict=True)
            sent[fabric, seed] = sorted(row for row in rows if row[-1])
    assert sent["fat-tree", 1] == sent["mixnet", 1]
    assert sent["fat-tree", 2] == sent["mixnet", 2]
    assert sent["fat-tree", 1] != sent["fat-tree", 2]


def test_every_draw_is_the_run_that_it_says(result: Result, job: Scenario) -> None:
    draws = result.draws.to_pylist()
    assert len(draws) == 2 * 2 * 6
    assert {row["draw"] for row in draws} == set(range(1, 7))
    for wanted in (draws[5], draws[-1]):
        one = job.with_({"compute.efficiency": wanted["profile"], "seed": wanted["seed"]})
        rate = f"{wanted['bandwidth_gbps']:g} Gbps"
        (one,) = on_fabrics(one, [wanted["fabric"]], [Rate.parse(rate)])
        (row,) = lightloom.simulate(one, progress=False).rows
        assert row["iteration_s"] == wanted["iteration_s"]


def test_runs_hold_every_draw_and_the_intervals(result: Result) -> None:
    assert result.directory is not None
    draws = result.draws.to_pylist()
    for row in pq.read_table(result.directory / "runs.parquet").to_pylist():
        mine = [one["iteration_s"] for one in draws if one["run"] == row["run"]]
        assert row["draws"] == 6
        assert row["iteration_s_draws"] == mine
        assert mine[0] == row["iteration_s"], "the first draw is the one that is shown whole"
        low, middle, high = np.percentile(mine, [5, 50, 95])
        assert row["iteration_s_low"] == pytest.approx(low)
        assert row["iteration_s_median"] == pytest.approx(middle)
        assert row["iteration_s_high"] == pytest.approx(high)
    assert result.info["draws"]["varied"] == "3 seeds x 2 profiles (share, shape)"
    assert result.info["draws"]["count"] == result.info["draws"]["done"] == 6


def test_a_saved_result_reads_as_the_one_in_memory(result: Result, tmp_path: Path) -> None:
    again = Result.open(result.save(tmp_path / "again").directory or "")
    assert again.draws.equals(result.draws)
    assert again.verdict == result.verdict
    assert again.rows == result.rows


def test_the_report_has_whiskers_and_says_how_many_draws(result: Result) -> None:
    assert result.directory is not None
    page = (result.directory / "report.html").read_text(encoding="utf-8")
    assert "of 6 draws: 3 seeds x 2 profiles (share, shape)" in page
    assert '"iteration_s_high":' in page
    assert "What would reverse it" in page
    figure = result.bars()
    assert sum(len(axes.lines) for axes in figure.axes) == 4 * 4, "four lines a whisker"


def test_of_one_draw_no_interval_is_claimed(job: Scenario, tmp_path: Path) -> None:
    one = lightloom.compare(
        job, fabrics=FABRICS, bandwidths=400, out=tmp_path / "one", progress=False
    )
    assert "draws" not in one.info
    assert one.draws.num_rows == 0
    assert not [name for name in one.rows[0] if name.endswith(("_low", "_high", "_draws"))]
    assert one.verdict is not None
    assert (one.verdict.low, one.verdict.high, one.verdict.noise) == (None, None, False)
    assert "percentile" not in one.verdict.text
    page = (tmp_path / "one" / "report.html").read_text(encoding="utf-8")
    assert "How sure it is" not in page
    assert not (tmp_path / "one" / "draws.parquet").exists()


def test_two_seeds_are_two_draws(job: Scenario) -> None:
    found = lightloom.compare(job, fabrics=FABRICS, bandwidths=400, seeds=2, progress=False)
    assert [row["draws"] for row in found.rows] == [2, 2]
    assert found.verdict is not None
    assert found.verdict.draws == 2
    low, high = (
        min(found.rows[0]["iteration_s_draws"]),
        max(found.rows[0]["iteration_s_draws"]),
    )
    assert low <= found.rows[0]["iteration_s_low"] <= found.rows[0]["iteration_s_high"] <= high


def test_an_interrupt_keeps_the_draws_that_are_whole(job: Scenario, tmp_path: Path) -> None:
    def stop(name: str, share: float) -> None:
        if name.endswith("draw 3"):
            raise KeyboardInterrupt

    place = tmp_path / "out"
    asked: dict[str, Any] = {"fabrics": FABRICS, "bandwidths": 400, "seeds": 3}
    with pytest.raises(Interrupted, match=r"of 6 runs are kept in"):
        lightloom.compare(job, **asked, out=place, on_progress=stop)
    part = Result.open(place)
    done = part.info["draws"]["done"]
    assert 1 <= done <= 3
    assert part.shortfalls == [f"INTERRUPTED: {2 * done} of 6 runs"]
    assert part.verdict is not None
    assert part.verdict.draws == done
    again = lightloom.compare(job, **asked, out=place, force=True, progress=False)
    assert again.info["draws"]["done"] == 3
    assert not again.shortfalls


def test_traces_and_price_lists_are_axes(job: Scenario) -> None:
    found = lightloom.compare(
        job,
        fabrics=FABRICS,
        bandwidths=400,
        traces=["builtin", "uniform"],
        price_lists=["mixnet-table-4", {'prices.ocs_port."400 Gbps"': 5200.0}],
        progress=False,
    )
    draws = found.draws.to_pylist()
    assert len(draws) == 2 * 4
    assert {row["trace"] for row in draws} == {"builtin", "uniform"}
    mixnet = [row for row in draws if row["fabric"] == "mixnet"]
    cheap, dear = (
        {row["network_usd"] for row in mixnet if ("ocs_port" in row["prices"]) is other}
        for other in (False, True)
    )
    assert len(cheap) == len(dear) == 1
    assert dear.pop() > cheap.pop()
    tree = {row["network_usd"] for row in draws if row["fabric"] == "fat-tree"}
    assert len(tree) == 1, "a fat-tree has no optical ports"


def test_another_price_list_brings_none_of_the_former_prices(job: Scenario) -> None:
    railx = job.with_({"prices.preset": "railx-table-6"})
    assert railx.with_(seed=2).prices == railx.prices
    assert list(railx.with_(seed=2).prices.nic) == [RATE]


def test_the_cli_prints_medians_intervals_and_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["--fabrics", "fat-tree,mixnet", "--bandwidth", "400", "--seeds", "2", "--force"]
    place = ["--out", str(tmp_path / "out")]
    assert run([*CLI, *asked, *place]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "of 2 draws: 2 seeds." in printed
    assert "5th to 95th percentile of 2 draws" in printed
    assert run([*CLI, *asked, *place, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert list(said) == ["rows", "verdict", "varied", "draws"]
    assert said["verdict"]["text"] in printed
    assert len(said["draws"]) == 4
    assert said["rows"][0]["iteration_s_draws"] == [
        row["iteration_s"] for row in said["draws"] if row["run"] == "fat-tree@400G"
    ]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["--seeds", "0"], "--seeds 0: must be a whole number from 1 to 10,000"),
        (["--seeds", "10001"], "--seeds 10001: must be"),
        (["--traces", "nope"], 'gating.trace = "nope": no such file'),
        (["--traces", str(BUILTIN_DIRECTORY / "e64k4.parquet")], "must have model.experts = 8"),
        (["--traces", "builtin,"], '--traces "builtin,": must be a list'),
        (["--profiles", "fast"], '--profiles "fast": no such profile; allowed: share, shape'),
        (["--profiles", "share,share"], '--profiles "share,share": one twice'),
        (["--profiles", "prices.nic=1"], '--profiles "prices.nic=1": no such profile'),
        (["--profiles", "compute.tabel=x"], "compute.tabel = "),
        (["--price-lists", "cheap"], '--price-lists "cheap": no such price list'),
        (["--price-lists", "prices.name="], '--price-lists "prices.name=": no such price list'),
    ],
)
def test_bad_input_is_one_message(
    asked: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fabrics = ["--fabrics", "fat-tree,mixnet", "--bandwidth", "400"]
    assert run([*CLI, *fabrics, *asked, "--out", str(tmp_path / "out")]) == 2
    printed = capsys.readouterr()
    assert said in printed.err
    assert len(printed.err.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("seeds", [0, -1, 1.5, True, "2"])
def test_python_refuses_odd_counts_of_seeds(job: Scenario, seeds: Any) -> None:
    with pytest.raises(InputError, match=re.escape(f"seeds {seeds}: must be a whole number")):
        lightloom.compare(job, fabrics=FABRICS, bandwidths=400, seeds=seeds)
