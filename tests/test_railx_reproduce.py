"""``lightloom reproduce railx``: figures and tables, what is kept, refusals."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from lightloom.cli import run
from lightloom.errors import RunError
from lightloom.papers import Context, Paper, Part, Reproduction
from lightloom.papers.railx.curves import draw, figure_lines

CURVE = [
    {"panel": panel, "series": series, "x": x, "y": 0.1 * x, "what": "at 2", "paper": paper}
    for panel in ("a", "b")
    for series in ("one", "two")
    for x, paper in ((1, None), (2, "0.3" if panel == "a" else None), (3, None))
]


@pytest.fixture
def curves(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Put a small curve in the place of every figure; returns what is made."""
    asked: list[str] = []
    whole = Paper.figure

    def figure(self: Paper, name: str) -> Any:
        if name.startswith("table"):
            return whole(self, name)

        def make(context: Context) -> list[dict[str, Any]]:
            asked.append(name)
            context.progress(0.5)
            return list(CURVE)

        number = int(name.split()[1])
        return SimpleNamespace(
            parts=lambda: (Part(name, make),),
            lines=lambda rows: figure_lines(number, rows),
            draw=draw,
        )

    monkeypatch.setattr(Paper, "figure", figure)
    known = {("railx", "figure"): (14, 16), ("railx", "table"): (2, 3, 6)}
    monkeypatch.setattr(Paper, "numbers", lambda self, kind: known.get((self.name, kind), ()))
    return asked


@pytest.mark.soak
def test_tables(tmp_path: Path, made: Callable[..., Any]) -> None:
    place = tmp_path / "f"
    answer = made("railx", place, "--tables", "2,3,6")
    assert {row["part"] for row in answer["rows"]} == {"table 2", "table 3", "table 6"}
    said = {(line["part"], line["what"]): line for line in answer["table"]}
    assert said["table 3", "cells that follow"]["here"] == "52"
    assert said["table 6", "cells that follow"]["here"] == "87"
    assert said["table 6", "1000 transceivers"]["paper"] == "4128"
    hyperx = [line for line in answer["table"] if line["setting"] == "hyperx m=4 n=2 R=128"]
    assert [(line["paper"], line["here"]) for line in hyperx[:2]] == [("1,296",) * 2, ("2", "2")]
    written = list(csv.DictReader((place / "table-6.csv").open(encoding="utf-8")))
    assert len(written) == 12 and json.loads(written[7]["paper"])["musd"] == "751.1"
    text = (place / "table.md").read_text(encoding="utf-8")
    assert text.count("\n") == len(answer["table"]) + 2


def test_figures_are_drawn_and_made_once(
    tmp_path: Path, made: Callable[..., Any], curves: list[str]
) -> None:
    place = tmp_path / "f"
    answer = made("railx", place, "--figures", "14,16")
    assert curves == ["figure 14", "figure 16"]
    assert len(answer["rows"]) == 2 * len(CURVE)
    # Only what the paper gives comes into the table.
    assert [line["part"] for line in answer["table"]] == ["14a"] * 2 + ["16a"] * 2
    assert {(line["paper"], line["here"]) for line in answer["table"]} == {("0.3", "0.200")}
    for number in (14, 16):
        assert (place / f"figure-{number}.png").stat().st_size > 1000
    # Kept ones are not made again; a file of another version or of junk is no kept part.
    again = made("railx", place, "--figures", "14,16", "--tables", "6")
    assert len(curves) == 2 and again["rows"][: len(answer["rows"])] == answer["rows"]
    (place / "parts" / "figure-14.json").write_text("[]", encoding="utf-8")
    old = json.loads((place / "parts" / "figure-16.json").read_text(encoding="utf-8"))
    (place / "parts" / "figure-16.json").write_text(json.dumps(old | {"lightloom": "0"}))
    made("railx", place, "--figures", "14,16")
    assert len(curves) == 4


@pytest.mark.usefixtures("blank")
@pytest.mark.parametrize(("stop", "code"), [(KeyboardInterrupt(), 130), (RunError("no"), 1)])
def test_what_was_finished_is_kept(
    stop: BaseException, code: int, tmp_path: Path, made: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch, curves: list[str],
) -> None:  # fmt: skip
    place, make = tmp_path / "f", Reproduction._make

    def stopping(self: Reproduction, part: Part, report: Callable[[str, float], None]) -> None:
        if part.name == "figure 16":
            raise stop
        make(self, part, report)

    monkeypatch.setattr(Reproduction, "_make", stopping)
    assert run(["reproduce", "railx", "--figures", "14,16", "--out", str(place)]) == code
    kept = json.loads((place / "rows.json").read_text(encoding="utf-8"))
    assert len(kept["rows"]) == len(CURVE) and kept["missing"] == ["figure 16"]
    assert not (place / "figure-16.png").exists()
    monkeypatch.setattr(Reproduction, "_make", make)
    made("railx", place, "--figures", "14,16")
    assert curves == ["figure 14", "figure 16"]


@pytest.mark.usefixtures("curves")
@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["railx", "--figures", "13"], "--figures 13: is not made; allowed: 14, 16"),
        (["railx", "--tables", "5"], "--tables 5: is not made; allowed: 2, 3, 6"),
        (["railx", "--tables", "x"], '--tables "x": must be a number; allowed: 2, 3, 6'),
        (["railx", "--tables", ""], '--tables "": must be a number'),
        (["railx", "--seed", "1"], "--seed: is no setting of railx's figures"),
        (["railx", "--sizes", "1MB"], "allowed: --figures, --tables"),
        (["swot", "--tables", "2"], "--tables: is no setting of swot's figures"),
        (["rail"], 'paper "rail": is not reproduced'),
    ],
)
def test_bad_input(arguments: list[str], named: str, refused: Callable[..., str]) -> None:
    assert named in refused("reproduce", *arguments)


def test_pictures_say_what_rows_say() -> None:
    rows = [
        {"panel": "a", "series": f"{kind}, {engine}", "x": x, "y": 1e-6 * x, "hidden_s": 1e-6,
         "title": "times", "x_axis": "size [B]", "y_axis": "time [s]", "log": "xy"}
        for kind in ("ring", "direct") for engine in ("flow", "flit") for x in (10, 1000)
    ]  # fmt: skip
    rows += [{"panel": "a", "series": "limit", "x": 10, "y": 1e-5, "log": "xy"}]
    rows += [{"panel": "a", "series": "ring, flow", "x": None, "y": "for the table", "paper": "1"}]
    (axes,) = draw(rows).axes
    lines = {str(line.get_label()): line for line in axes.lines}
    assert list(lines) == ["ring, flow", "ring, flit", "direct, flow", "direct, flit", "limit"]
    assert [float(y) for y in lines["ring, flow"].get_ydata()] == pytest.approx([9e-6, 999e-6])  # type: ignore[union-attr]
    # One colour a kind, one dash an engine; a lone point has no line.
    assert lines["ring, flow"].get_color() == lines["ring, flit"].get_color()
    assert lines["ring, flow"].get_color() != lines["direct, flow"].get_color()
    assert lines["ring, flow"].get_linestyle() == lines["direct, flow"].get_linestyle()
    assert lines["ring, flow"].get_linestyle() != lines["ring, flit"].get_linestyle()
    assert lines["limit"].get_linestyle() == "None"
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("size", "time")
    assert [axes.xaxis.get_major_formatter()(x) for x in axes.get_xticks()] == ["10 B", "1 kB"]


def test_figure_16_comes_into_the_table(tmp_path: Path, made: Callable[..., Any]) -> None:
    answer = made("railx", tmp_path / "f", "--figures", "16")
    assert {line["part"] for line in answer["table"]} == {"16c"}
    assert (tmp_path / "f" / "figure-16.png").stat().st_size > 1000
