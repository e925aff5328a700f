"""``lightloom reproduce mixnet``: small figures, simulated iterations that are kept, refusals."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lightloom import Scenario
from lightloom.cli import run
from lightloom.errors import InputError, RunError
from lightloom.papers import load
from lightloom.papers.mixnet.figure02 import traffic
from lightloom.papers.mixnet.jobs import FIELDS, KINDS, STATIC, WITHOUT, matrix
from lightloom.papers.part import Context, Rows
from lightloom.papers.runs import Outcome, Run, Store, price
from lightloom.simulation import run_all

SMALL = (("training.micro_batches", 2), ("model.layers", 4))
QUICK = Run("mixtral-8x7b", "fat-tree", 128, SMALL)


def test_small_figures(tmp_path: Path, made: Callable[..., Any]) -> None:
    place = tmp_path / "f"
    answer = made("mixnet", place, "--figures", "2,11,18,24")
    said = {(line["figure"], line["what"]): line for line in answer["table"]}
    assert said["11", "fat-tree over MixNet, mean"]["ours"] == "2.30"  # the last: 400 Gbps
    assert said["24", "fat-tree over MixNet"]["ours"] == "2.30"  # the last: transceivers
    assert {row["figure"] for row in answer["rows"]} == {2, 11, 18, 24}
    for number in (2, 11, 18, 24):
        assert (place / f"figure-{number}.png").stat().st_size > 1000
    written = list(csv.DictReader((place / "figure-11.csv").open(encoding="utf-8")))
    assert len(written) == 6 * 6 * 4
    text = (place / "table.md").read_text(encoding="utf-8")
    assert text.count("\n") == len(answer["table"]) + 2


@pytest.mark.usefixtures("blank")
def test_text_names_the_cpu_seconds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reproduce", "mixnet", "--figures", "18", "--out", str(tmp_path / "f")]) == 0
    out = capsys.readouterr().out
    assert "MixNet says" in out and "CPU seconds" in out


def test_names_of_parts_and_keys_of_runs_are_unique() -> None:
    paper = load("mixnet")
    parts = [part for name in paper.names() for part in paper.figure(name).parts()]
    assert max(Counter(part.name for part in parts).values()) == 1
    every = {each for part in parts for each in part.runs}
    assert len({each.key for each in every}) == len(every)


def test_kinds_of_mixnet_differ() -> None:
    jobs = {fabric: each.scenario() for (fabric, _), each in
            matrix("mixtral-8x7b", "roofline", KINDS, (400,)).items()}  # fmt: skip
    printed = {name: job.to_core_json() for name, job in jobs.items() if name != "mixnet"}
    assert len(set(printed.values())) == len(printed) == 4


def test_rivals_at_their_best() -> None:
    runs = matrix("mixtral-8x7b", "paper-profile", FIELDS["auto"], (400,), carrier="auto")
    jobs = {fabric: each.scenario() for (fabric, _), each in runs.items()}
    carriers = {name: job.fabric.carrier for name, job in jobs.items()}
    assert carriers == {
        **dict.fromkeys((*STATIC, "mixnet"), "auto"),
        **dict.fromkeys(WITHOUT, "delegate"),
    }
    usd = {name: price(job) for name, job in jobs.items()}
    assert usd["mixnet-all-packet"] == usd["fat-tree"]
    assert usd["mixnet-unplugged"] < usd["mixnet"]
    assert 0.999 * usd["mixnet"] < usd["mixnet-same-money"] <= usd["mixnet"]
    assert jobs["mixnet-same-money"].fabric.oversubscription > 1


def test_both_carriers_and_compute_tables_stand_beside_each_other() -> None:
    """MixNet takes 2 s for half of the others' money, without optics 1 s, everything else 3 s."""
    seconds = dict.fromkeys(WITHOUT, 1.0) | {"mixnet": 2.0}
    three = "3.00 to 3.00"
    for number, settings, gain in (
        (12, {"model", "table", "carrier"}, "1.50 (block 1.50; never 1.50)"),
        (13, {"model", "table", "carrier"}, f"{three} (block {three}; never {three})"),
        (14, {"model", "table"}, "+0.0 %"),
        (27, {"table"}, "2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0"),
    ):
        figure = load("mixnet").figure(f"figure {number}")
        rows: Rows = []
        for part in figure.parts():
            ran = {
                each: Outcome(seconds.get(each.fabric, 3.0), 0, 0, 0, 0, 0, 1, usd, 1, 1)
                for each in part.runs
                for usd in (1e6 if each.fabric == "mixnet" else 2e6,)
            }
            rows += part.run(Context(outcomes=ran))
        assert settings <= set(rows[0])
        lines = figure.lines(rows)
        assert lines[0].ours == gain
        assert len({(line.setting, line.what) for line in lines}) == len(lines)
        if number == 13:
            on_front = {line.setting: line.ours for line in lines if "the front" in line.what}
            for setting, count in (
                ("roofline, paper", "16 (block 16; never 16)"),
                ("roofline, auto", "16"),
                ("paper-profile, auto", "16"),
            ):
                assert on_front[f"all models, {setting}, against all fabrics"] == count


def test_the_page_says_what_the_data_say(monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path(__file__).parents[1]
    monkeypatch.syspath_prepend(str(root / "reproduce"))
    mixnet = import_module("mixnet")
    page = mixnet.PAGE.read_text(encoding="utf-8")
    tables = mixnet.tables(json.loads(mixnet.DATA.read_text(encoding="utf-8")))
    for name in ("figure-12", "figure-13", "times-roofline-auto", "gain-fat-tree", "without"):
        assert f"<!-- {name} -->\n{tables[name]}\n<!-- /{name} -->" in page, name


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--figures", "1"), "--figures 1: is not made; allowed: 2"),
        (("--figures", "12,x"), '--figures "x": must be a number'),
        (("--figures", ""), '--figures "": must be a number'),
        (("--effort", "quick"), "--effort: is no setting of mixnet's figures; allowed: --figures"),
    ],
)
def test_refusals(arguments: tuple[str, ...], says: str, refused: Callable[..., str]) -> None:
    assert says in refused("reproduce", "mixnet", "--out", "f", *arguments)


def test_runs_are_kept_and_not_run_again(tmp_path: Path) -> None:
    place, reported = tmp_path / "runs", []
    store = Store(place)
    other = QUICK._replace(fabric="mixnet")
    assert store.missing((QUICK, other, QUICK)) == [QUICK, other]
    store.perform((QUICK, other, QUICK), lambda name, share: reported.append((name, share)), 2)
    assert {name for name, share in reported if share == 1.0} == {QUICK.key, other.key}
    again = Store(place)
    assert len(again.of((QUICK, other))) == 2 and again.missing((QUICK, other)) == []
    again.perform((QUICK, other), lambda name, share: pytest.fail("ran again"), 2)
    (mine,) = run_all([QUICK.scenario()]).finished
    kept = again.of((QUICK,))[QUICK]
    assert kept.iteration_s == round(mine.row["iteration_s"], 6)
    assert kept.cost_usd == round(mine.row["cost_usd"], 2)
    assert kept.peak_bytes > 1 << 20 and kept.cpu_s > 0
    split = kept.compute_s + kept.exposed_a2a_s + kept.exposed_other_s + kept.reconfiguration_s
    assert split == pytest.approx(kept.iteration_s, abs=1e-5)


def test_a_run_that_cannot_be_is_an_error(tmp_path: Path) -> None:
    wrong = QUICK._replace(gpus=100)
    with pytest.raises((InputError, RunError), match=r"cluster\.gpus"):
        Store(tmp_path / "runs").perform((wrong,), lambda name, share: None, 1)


def test_progress_may_stop_runs(tmp_path: Path) -> None:
    def stop(name: str, share: float) -> None:
        raise KeyboardInterrupt

    two = (QUICK, QUICK._replace(fabric="mixnet"))
    with pytest.raises(KeyboardInterrupt):
        Store(tmp_path / "runs").perform(two, stop, 1)
    assert len(Store(tmp_path / "runs").missing(two)) == 1, "what had ended is kept"


def test_traffic_is_what_is_simulated() -> None:
    # Each byte goes over one flow: none is handed over.
    job = Scenario.preset("mixtral-8x7b", gpus=256, **{"fabric.carrier": "direct"}, **dict(SMALL))
    sent = traffic(job)
    ran = run_all([job]).finished[0]
    moved: Counter[str] = Counter()
    for row in ran.tables["transfers"].to_pylist():
        moved[row["kind"]] += row["bytes"]
    of = {kind: int(sent["bytes"][sent["kind"] == kind].sum()) for kind in ("ep", "pp", "dp", "tp")}
    assert of["ep"] == moved["dispatch"] + moved["combine"]
    assert of["pp"] == moved["pp_send"]
    assert of["tp"] > of["ep"] > of["pp"] > 0 and of["dp"] > 0
    # Experts' traffic stays in a block, and goes between GPUs of one tensor-parallel rank.
    mine = sent["kind"] == "ep"
    assert np.array_equal(sent["from"][mine] // 32, sent["to"][mine] // 32)
    assert np.array_equal(sent["from"][mine] % 4, sent["to"][mine] % 4)
