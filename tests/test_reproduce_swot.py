"""``lightloom reproduce swot``: figures, what is kept of an interrupted run, refusals."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lightloom import _core
from lightloom.cli import run
from lightloom.papers import Context
from lightloom.papers.swot import figure07, figure08, figure09, figure10, figure11
from lightloom.papers.swot.points import MB, Point, Row

FIGURES = (figure07, figure08, figure09, figure10, figure11)
# One schedule fast, and two sizes instead of the paper's range.
SMALL = ["--effort", "quick", "--sizes", "512KB,16MB"]


def test_scaling_is_the_papers(tmp_path: Path, made: Callable[..., Any]) -> None:
    answer = made("swot", tmp_path / "f", "--figures", "8", "--effort", "quick")
    rows = {(row["panel"], row["nodes"]): row for row in answer["rows"]}

    def shorter(panel: str, nodes: int) -> float:
        row = rows[panel, nodes]
        return float(100 * (1 - row["swot_us"] / row["lockstep_us"]))

    assert shorter("8b", 5) == pytest.approx(26.0, abs=0.5)
    assert shorter("8b", 10) == pytest.approx(45.5, abs=0.5)
    assert shorter("8a", 64) >= 39.6 and shorter("8a", 512) >= 46.9
    assert {n for (panel, n), row in rows.items() if panel == "8a" and row["one_shot_us"]} == {
        4, 8, 16,
    }  # fmt: skip
    assert max(n for (p, n), row in rows.items() if p == "8b" and row["one_shot_us"]) == 5
    said = {(line["setting"], line["what"]): line["ours"] for line in answer["table"]}
    assert said["pairwise, 4 planes", "most nodes of one-shot"] == "5"
    assert (tmp_path / "f" / "figure-8.png").stat().st_size > 1000


def test_small_messages_on_eight_planes() -> None:
    point = Point("rabenseifner-allreduce", 256, 256_000, 8, latency="1 us")
    row = point.solve("", "normal")
    assert row.lockstep_us == pytest.approx(2821, abs=1) and row.below_lockstep >= 0.91


@pytest.mark.soak
def test_every_figure_is_drawn(tmp_path: Path, made: Callable[..., Any]) -> None:
    place = tmp_path / "f"
    answer = made("swot", place, *SMALL)
    for figure in FIGURES:
        assert (place / f"figure-{figure.NUMBER}.png").stat().st_size > 1000
    for row in answer["rows"]:
        assert row["bound_us"] <= row["swot_us"] <= row["lockstep_us"], row
        assert row["ideal_us"] <= row["swot_us"]
        if row["initial"] == "free" and row["one_shot_us"] is not None:
            assert row["bound_us"] <= row["one_shot_us"]
    assert {line["figure"] for line in answer["table"]} == {
        *("7a", "7b", "7c", "7d", "8a", "8b", "9a", "9b", "10", "11")
    }
    written = list(csv.DictReader((place / "rows.csv").open(encoding="utf-8")))
    assert len(written) == len(answer["rows"])
    assert [float(row["swot_us"]) for row in written] == [r["swot_us"] for r in answer["rows"]]
    # Overhead falls with the size, where nothing but the size changes.
    for delay in (2000.0, 20000.0):
        small, large = (
            1 - row["ideal_us"] / row["swot_us"]
            for row in answer["rows"]
            if row["panel"] == "11 bruck-alltoall" and row["reconfiguration_us"] == delay
        )
        assert small > large
    text = (place / "table.md").read_text(encoding="utf-8")
    assert text.count("\n") == len(answer["table"]) + 2 and "| 8b |" in text


@pytest.mark.usefixtures("blank")
def test_figures_are_made_once(
    tmp_path: Path, made: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "f"
    core, calls = _core.plan_collective, []

    def counted(request: str) -> Any:
        calls.append(request)
        if len(calls) == 10:
            raise KeyboardInterrupt
        return core(request)

    monkeypatch.setattr(_core, "plan_collective", counted)
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    assert run(["reproduce", "swot", "--figures", "8,10", "--out", str(place), *SMALL]) == 130
    # The first panel has eight points: it is kept, the second is not.
    kept = json.loads((place / "rows.json").read_text(encoding="utf-8"))
    assert len(kept["rows"]) == 8 and kept["missing"][0] == "8b"
    assert not (place / "figure-8.png").exists()
    del calls[:]
    calls += [""] * 100
    answer = made("swot", place, "--figures", "8,10", *SMALL)
    assert len(calls) - 100 == len(answer["rows"]) - 8
    # Other settings are another run; a file that is not ours is no kept panel.
    del calls[100:]
    (place / "parts" / "8a.json").write_text("[]", encoding="utf-8")
    made("swot", place, "--figures", "8", "--effort", "quick")
    assert len(calls) - 100 == 8
    made("swot", place, "--figures", "10", "--effort", "quick", "--sizes", "16 MB")
    assert len(calls) - 100 == 8 + 9


def test_the_table_leaves_out_what_did_not_run() -> None:
    assert figure09.lines([]) == []
    row = Row("9a 16", "bruck-alltoall", 16, 16 * MB, 4, 200.0, 5.0, "first-step",
              None, 940.0, 340.0, 470.0, 340.0, 8)  # fmt: skip
    lines = {line.what: line.ours for line in figure09.lines([row])}
    assert lines["shorter than the best baseline"] == "16 MB: 50.0%"
    assert "same, planes preset as one-shot's are" not in lines


def test_panels_are_named_apart() -> None:
    every = [part for figure in FIGURES for part in figure.parts()]
    assert len({part.name for part in every}) == len(every)
    for part in every:
        points = [str(point) for point in part.settings["points"]]
        assert len(set(points)) == len(points)
    # Figure 7's nodes are those that one-shot can serve.
    for part in figure07.parts((MB,), "quick"):
        assert part.run(Context())[0].one_shot_us is not None


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["swot", "--figures", "6"], "--figures 6: is not made; allowed: 7, 8"),
        (["swot", "--figures", ""], '--figures ""'),
        (["swot", "--domains", "16"], "--domains: is no setting of swot's figures"),
        (["swot", "--seed", "1"], "--seed: is no setting of swot's figures"),
        (["swot", "--engine", "flow"], "allowed: --figures, --sizes, --effort"),
        (["rails", "--sizes", "1MB"], "--sizes: is no setting of rails's figures"),
        (["rails", "--effort", "quick"], "--effort: is no setting of rails's figures"),
        (["swot", "--effort", "much"], 'effort "much"'),
        (["swot", "--sizes", "1 MB,x"], 'sizes: "x" is not a size'),
        (["swot", "--sizes", "1 B"], "sizes: 1 B"),
        (["swot", "--sizes", ""], 'sizes: "" is not a size'),
        (["swot", "--figures", "8", "--sizes", "1MB"], "Figure 8 is over nodes"),
    ],
)
def test_bad_input(arguments: list[str], named: str, refused: Callable[..., str]) -> None:
    assert named in refused("reproduce", *arguments)
