"""``lightloom sql``: the tables of Results, asked by DuckDB."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import lightloom
import pytest
from lightloom.cli import run

JOB = {"training.micro_batches": 1, "model.layers": 4, "cluster.gpus": 128}


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undrawn: None) -> Path:
    """A directory with a sweep, a sweep over other axes, and a simulation."""
    pytest.importorskip("duckdb")
    monkeypatch.chdir(tmp_path)
    job = lightloom.Scenario.preset("mixtral-8x7b").with_(JOB)
    over = {"fabric.preset": "mixnet,fat-tree"}
    lightloom.sweep(job, over=over, seeds=[1, 2], out="results/one")
    lightloom.sweep(job, seeds=[7], out="results/two")
    lightloom.simulate(job, out="results/three")
    return tmp_path


def asked(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert run(["sql", *arguments]) == 0
    return capsys.readouterr().out


def test_tables_of_all_results_are_asked(
    results: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    count = "select result, count(*) n from runs group by result order by result"
    assert json.loads(asked(capsys, count, "--json")) == [
        {"result": "results/one", "n": 4},
        {"result": "results/three", "n": 1},
        {"result": "results/two", "n": 1},
    ]
    assert asked(capsys, count, "--csv").splitlines()[:2] == ["result,n", "results/one,4"]
    keys = '"fabric.preset", p.seed, iteration_s'
    joined = f"select {keys} from points p join runs using (result, point)"
    assert asked(capsys, f"{joined} order by all").splitlines()[1].startswith("fat-tree          1")
    one = "select count(*) as n from 'results/two/runs.parquet'"
    assert json.loads(asked(capsys, one, "--json")) == [{"n": 1}]
    monkeypatch.setenv("COLUMNS", "60")
    wide = asked(capsys, "select * from runs")
    assert max(map(len, wide.splitlines())) <= 60 and "left out at 60 columns" in wide
    monkeypatch.chdir(results / "results")
    assert asked(capsys, "select count(*) as n from runs", "--in", ".", "--csv") == "n\n6\n"


def test_a_question_that_is_none(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for question, says in (
        ("select", "error: sql: Parser Error"),
        ("select nme from runs", 'Referenced column "nme" not found in FROM clause!'),
        ("select * from 'missing.parquet'", "error: sql: IO Error: No files found"),
    ):
        assert run(["sql", question]) == 2
        out, err = capsys.readouterr()
        assert out == "" and says in err and err.count("\n") == 1
    assert run(["sql", "select 1", "--json", "--csv"]) == 2
    assert "--json and --csv: two forms" in capsys.readouterr().err


def test_nothing_is_said_but_the_answer() -> None:
    pytest.importorskip("duckdb")
    command = [sys.executable, "-m", "lightloom", "sql", "select 1 as n"]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (said.stdout.split(), said.stderr) == (["n", "1"], "")


def test_without_duckdb(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert run(["sql", "select 1"]) == 2
    assert capsys.readouterr().err == (
        "error: sql: DuckDB is not installed: pip install 'duckdb>=1.0'\n"
    )
