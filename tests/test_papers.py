"""The frame of ``lightloom reproduce``: figures are found, parts are kept, refusals."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from lightloom.cli import run
from lightloom.errors import InputError
from lightloom.papers import PAPERS, Context, Line, Paper, Part, Reproduction, load, reproduce
from lightloom.papers.runs import Run, Store
from matplotlib.figure import Figure as Picture

QUICK = Run("mixtral-8x7b", "fat-tree", 128, (("training.micro_batches", 1),))

FIGURES = [(paper, name) for paper in PAPERS for name in load(paper).names()]


def test_every_figure_is_found() -> None:
    numbers = {paper: load(paper).numbers("figure") for paper in PAPERS}
    assert numbers["mixnet"] == (*range(2, 6), *range(10, 15), *range(16, 20), *range(24, 29))
    assert numbers["rails"] == tuple(range(7, 14))
    assert numbers["swot"] == tuple(range(7, 12))
    assert numbers["railx"] == (14, 15, 16, 17) and load("railx").numbers("table") == (2, 3, 6)


@pytest.mark.parametrize(("paper", "name"), FIGURES, ids=" ".join)
def test_a_figure_is_what_its_module_says(paper: str, name: str) -> None:
    module = load(paper).figure(name)
    kind, number = name.split()
    assert int(number) == module.NUMBER and module.TITLE
    assert str(module.__doc__).startswith(f"{kind.capitalize()} {number}: ")
    assert hasattr(module, "lines") and hasattr(module, "draw") == (kind == "figure")
    parts = module.parts()
    assert parts and all(isinstance(part, Part) for part in parts)


def test_no_picture_is_begun_before_it_is_asked_for() -> None:
    """Refusals, and help, are quick: nothing is imported to draw with."""
    code = """
import sys
from lightloom.cli import run
for paper in ("mixnet", "rails", "swot", "railx"):
    run(["reproduce", paper, "--figures", "99"])
sys.exit("matplotlib" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr.count("is not made") == 4


def test_what_is_not_made_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "f"
    for paper, figures, says in (
        ("mixnet", (1,), "figures: no figure 1 of MixNet is made; allowed: 2, 3"),
        ("swot", (), "figures: none chosen"),
    ):
        with pytest.raises(InputError, match=says):
            reproduce(paper, figures, directory=place)
    with pytest.raises(InputError, match="tables: no table 1 of RailS is made; allowed: none"):
        reproduce("rails", tables=(1,), directory=place)
    with pytest.raises(InputError, match="jobs: 0: must be at least 1"):
        reproduce("mixnet", (18,), directory=place, jobs=0)
    assert not place.exists()


@pytest.mark.parametrize("paper", PAPERS)
def test_places_that_are_taken(
    paper: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.txt").write_text("mine", encoding="utf-8")
    for place in (tmp_path, tmp_path / "mine.txt"):
        assert run(["reproduce", paper, "--out", str(place)]) == 2
        assert capsys.readouterr().err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


class Fake:
    """A figure of two parts; the second one needs a run, and stops once."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.stops = True

    def parts(self) -> tuple[Part, ...]:
        return Part("figure 99 a", self._first), Part("figure 99 b", self._second, runs=(QUICK,))

    def _first(self, context: Context) -> list[dict[str, Any]]:
        self.calls.append("a")
        context.progress(0.5)
        return [{"x": 1}]

    def _second(self, context: Context) -> list[dict[str, Any]]:
        self.calls.append("b")
        if self.stops:
            raise KeyboardInterrupt
        return [{"x": context.outcomes[QUICK].iteration_s}]

    def lines(self, rows: list[dict[str, Any]]) -> list[Line]:
        return [Line(99, "", "x", "", str(row["x"])) for row in rows]

    def draw(self, rows: list[dict[str, Any]]) -> Picture:
        return Picture()


def test_an_interrupt_keeps_what_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake, simulated, perform = Fake(), [], Store.perform

    def simulate(self: Store, wanted: Any, report: Any, jobs: int | None) -> None:
        for each in self.missing(wanted):
            simulated.append(each)
            perform(self, (each,), report, jobs)

    monkeypatch.setattr(Store, "perform", simulate)
    monkeypatch.setattr(Paper, "names", lambda self, *_: ["figure 99"])
    monkeypatch.setattr(Paper, "figure", lambda self, name: fake)
    paper = Paper("fake", "Fake", lambda settings: "", timed=True)
    place, reported = tmp_path / "f", []

    def work() -> Reproduction:
        return Reproduction(paper, directory=place)

    assert work().outstanding == 3  # two parts and a run
    assert not place.exists()
    with pytest.raises(KeyboardInterrupt):
        work().make(lambda name, share: reported.append(name))
    assert fake.calls == ["a", "b"] and simulated == [QUICK] and "figure 99 a" in reported
    assert json.loads((place / "rows.json").read_text())["missing"] == ["figure 99 b"]
    assert not (place / "figure-99.png").exists()
    assert work().outstanding == 1

    fake.stops = False
    whole = work().make()
    assert fake.calls == ["a", "b", "b"] and simulated == [QUICK]
    (ran,) = Store(place / "runs").of((QUICK,)).values()
    assert not whole.missing
    assert [line["ours"] for line in whole.table] == ["1", str(ran.iteration_s)]
    assert whole.cpu_s == pytest.approx(ran.cpu_s, abs=0.05)

    # A part that was damaged, or made by another version, is made anew; so is a run.
    for name in ("figure-99-a", "figure-99-b"):
        part = place / "parts" / f"{name}.json"
        part.write_text(part.read_text().replace('"lightloom": "', '"lightloom": "0'))
    (kept,) = (place / "runs").glob("*/*")
    kept.write_bytes(kept.read_bytes()[:-1])
    work().make()
    assert fake.calls == ["a", "b", "b", "a", "b"] and simulated == [QUICK, QUICK]
