"""``lightloom study``: points are told apart, and a small study is made as the whole one is."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from lightloom.cli import run
from lightloom.papers import Reproduction, load
from lightloom.studies import STUDIES
from lightloom.studies.constants import listed
from lightloom.studies.constants import table01 as constants
from lightloom.studies.constants.figures import FIGURES
from lightloom.studies.ingredients import table01
from lightloom.studies.reconfiguration import again, figure01, figure02, figure03, points
from lightloom.studies.reconfiguration import map as maps
from lightloom.studies.reconfiguration import table01 as packets
from lightloom.studies.reconfiguration import table02 as best
from lightloom.studies.reconfiguration.points import At, Delay


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two skews, two delays, one speed."""
    axes = {
        "SKEWS": (1.0, 7.0),
        "SPEEDS": (1.0,),
        "DELAYS": (Delay("10 us", "x"), Delay("10 s", "y")),
    }
    for module in (points, maps, figure01):
        for name, values in axes.items():
            monkeypatch.setattr(module, name, values)


def test_points_are_told_apart_and_shared() -> None:
    whole = [run for part in figure01.parts() for run in part.runs]
    assert len({run.key for run in whole}) == len(whole) == 2 * 5 * 6 * (2 * 7 + 5)
    for figure in (figure02, figure03):
        assert {part.name for part in figure.parts()} < {part.name for part in figure01.parts()}


def test_rows_of_ingredients_are_told_apart(tmp_path: Path) -> None:
    whole = [run for part in table01.parts() for run in part.runs]
    assert len({run.key for run in whole}) == len(whole) == 4 * 2 * 3 * 10
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table01, "JOBS", {"mixtral-8x7b": table01.JOBS["mixtral-8x7b"]})
        patch.setattr(table01, "RATES", (400,))
        patch.setattr(table01, "MICRO_BATCHES", 1)
        made = Reproduction(load("ingredients", "lightloom.studies"), directory=tmp_path).make()
    at = {(row["demand"], row["row"]): row["iteration_s"] for row in made.rows}
    direct, delegated, *_ = table01.ROWS
    for demand in ("even", "recorded", "skewed"):
        assert at[demand, delegated] <= 1.0001 * at[demand, direct]
    assert (tmp_path / "table-1.csv").is_file() and not list(tmp_path.glob("*.png"))


def test_no_constant_of_a_preset_is_missing() -> None:
    own = {one.key for one in listed.KEYS} | set(listed.ASKED)
    for place in (Path(listed.__file__).parents[2] / "presets").rglob("*.toml"):
        for key, source in tomllib.loads(place.read_text("utf-8")).get("source", {}).items():
            if "chosen here" in source or "stated assumption" in source:
                assert key in own, f"{place.name}: {key}: {source}"


def test_constants_in_rust_stand_where_they_are_said_to() -> None:
    crates = Path(__file__).parents[1] / "crates"
    for one in listed.SOURCE:
        text = (crates / one.file).read_text("utf-8")
        assert text.count(one.line.replace("{}", one.value)) == 1, one.name
    assert {name for one in (*listed.KEYS, *listed.SOURCE) for name in one.figures} == set(FIGURES)


def test_a_constant_is_halved_and_doubled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    keys = [one for one in listed.KEYS if one.key in ("engine.balancer.paths", "fabric.share_eps")]
    keys = [one._replace(figures=one.figures[-1:]) for one in keys]
    monkeypatch.setattr(constants, "KEYS", keys)
    made = Reproduction(load("constants", "lightloom.studies"), directory=tmp_path).make()
    at = {(row["key"], row["other"]): row for row in made.rows}
    assert set(at) == {("fabric.share_eps", "True"), ("engine.balancer.paths", "128"),
                       ("engine.balancer.paths", "512")}  # fmt: skip
    shared = at["fabric.share_eps", "True"]
    assert shared["then"] < shared["seconds"]
    assert [line["constant"] for line in made.table] == [
        "`fabric.share_eps`",
        "`engine.balancer.paths`",
    ]


@pytest.mark.usefixtures("small")
def test_a_small_study(tmp_path: Path) -> None:
    made = Reproduction(
        load("reconfiguration", "lightloom.studies"), figures=(1, 2, 3), directory=tmp_path
    ).make()
    assert len(made.rows) == 2 * 2 * 2
    at = {(row["partners"], row["skew"], row["delay"]): row for row in made.rows}
    for (_, skew, delay), row in at.items():
        if skew == 1.0:  # an even demand: circuits of an even start are as good as any
            assert row["timed"] == row["never changed"]
        elif delay == "10 us":
            assert row["timed"] < 0.5 * row["never changed"]
        assert row["timed"] > row["eight packet NICs"]
    # What partners exchange fills both directions of a circuit.
    assert at["in twos", 7.0, "10 us"]["timed"] < at["in a circle", 7.0, "10 us"]["timed"]
    assert {path.name for path in tmp_path.glob("figure-*.png")} == {
        f"figure-{number}.png" for number in (1, 2, 3)
    }


def test_a_point_again_by_packets_and_beside_the_best_circuits(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    point = (At("in a circle", 7.0, 2.0), Delay("1 ms", "x"))
    for module in (packets, best):
        monkeypatch.setattr(module, "chosen", lambda: [point])
    small = {"model.layers": 1, "training.micro_batches": 1, "training.sequence_length": 16}
    monkeypatch.setattr(packets, "_SIZE", packets._SIZE | small)
    made = Reproduction(
        load("reconfiguration", "lightloom.studies"), tables=(1, 2), directory=tmp_path
    ).make()
    by_packets, beside = made.rows
    for row in packets.ROWS:
        assert by_packets[f"{row}, flow"] < by_packets[f"{row}, packet"]
    # One circle: what Algorithm 1, the search and the program choose carries it alike.
    assert beside["proven"] and beside["exact"] == pytest.approx(beside["timed"], rel=1e-3)
    assert beside["exact"] <= 1.001 * beside["algorithm-1"]


def test_ten_points_are_of_the_study() -> None:
    drawn = again.chosen()
    assert len(set(drawn)) == again.COUNT
    runs = {run.key for part in figure01.parts() for run in part.runs}
    assert all(points.changing("timed", at, delay).key in runs for at, delay in drawn)


def test_the_money_of_a_rival_is_that_of_mixnet() -> None:
    from lightloom.papers.runs import price

    at = At("in twos", 1.0, 1.0)
    mixnet = price(points.run("mixnet", at, {}).scenario())
    assert 0.97 * mixnet < price(points.standing("the same money", at).scenario()) <= mixnet


def test_what_there_is_not(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    place = tmp_path / "out"
    assert run(["study", "reconfiguratoin", "--out", str(place)]) == 2
    said = capsys.readouterr().err
    assert 'study "reconfiguratoin": there is none' in said and STUDIES[0] in said
    assert run(["study", "reconfiguration", "--figures", "9", "--out", str(place)]) == 2
    assert "allowed: 1, 2, 3" in capsys.readouterr().err
    assert not place.exists()


def test_one_figure_as_json(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, small: None
) -> None:
    command = ["study", "reconfiguration", "--figures", "2", "--out", str(tmp_path), "--json"]
    assert run(command) == 0
    told = json.loads(capsys.readouterr().out)
    assert {row["partners"] for row in told["rows"]} == {"in twos"}
