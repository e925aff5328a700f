"""Sweeps on Slurm: stand-ins for its commands run the tasks of an array job on this machine."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from lightloom.cli import run
from lightloom.runs.run import Run
from lightloom.sweeps import Sweep, on_slurm
from lightloom.sweeps.on_slurm import _batches

HERE = Path(__file__).parent
MODEL = "mixtral-8x7b"
SMALL = ["--gpus", "128", "--set", "training.micro_batches=1", "--set", "model.layers=4"]
SEEDS = ["--seeds", "1..6", "--on", "slurm", "--jobs", "2"]


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undrawn: None) -> Path:
    """A directory of one's own with a cache, and Slurm's commands on the path."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "slurm").mkdir()
    fixtures = HERE / "fixtures"
    monkeypatch.setenv("SLURM_HERE", str(tmp_path / "slurm"))
    monkeypatch.setenv("PATH", f"{fixtures / 'slurm'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("LIGHTLOOM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", str(fixtures / "sweep"))
    monkeypatch.setenv("SWEEP_MARKS", str(tmp_path / "marks"))
    monkeypatch.setattr("lightloom.sweeps.on_slurm._PACE_S", 0.1)
    return tmp_path


def jobs(place: Path) -> int:
    return len(list((place / "slurm").glob("*.job")))


def begun(place: Path) -> list[str]:
    return (place / "marks").read_text().splitlines()


def sweep(*more: str) -> int:
    return run(["sweep", MODEL, *SMALL, *SEEDS, *more])


def test_a_sweep_on_slurm_is_the_one_here(slurm: Path) -> None:
    assert sweep("--out", "a", "--slurm", "partition=gpu", "--slurm", "exclusive") == 0
    assert jobs(slurm) == 1 and len(begun(slurm)) == 6
    assert not list((slurm / "cache").glob("slurm/*")), "what was collected goes"
    assert run(["sweep", MODEL, *SMALL, "--seeds", "1..6", "--out", "kept"]) == 0
    assert len(begun(slurm)) == 6
    os.environ["LIGHTLOOM_CACHE"] = "off"
    assert run(["sweep", MODEL, *SMALL, "--seeds", "1..6", "--out", "b"]) == 0
    for other in ("kept", "b"):
        for name in ("runs.parquet", "points.parquet"):
            assert Path("a", name).read_bytes() == Path(other, name).read_bytes()


def test_without_waiting_the_same_command_collects(
    slurm: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sweep("--no-wait", "--slurm", "partition=gpu", "--slurm", "time=30") == 0
    said = capsys.readouterr().out
    assert re.search(
        r"6 runs are with Slurm \(lightloom-[0-9a-f]{16}-001\); the same command", said
    )
    (script,) = (slurm / "cache").glob("slurm/*/job-001/script.sh")
    text = script.read_text()
    for line in ("partition=gpu", "time=30", "array=0-1%2", "cpus-per-task=1"):
        assert f"#SBATCH --{line}\n" in text
    assert re.search(r"^#SBATCH --mem=\d+M$", text, re.MULTILINE)
    assert not (slurm / "results").exists()
    assert sweep("--out", "a") == 0
    assert jobs(slurm) == 1 and len(begun(slurm)) == 6 and Sweep.open("a").complete


def test_who_was_killed_finds_its_tasks_again(slurm: Path) -> None:
    """Also one that was killed before Slurm's answer was written down."""
    assert sweep("--no-wait") == 0
    (answer,) = (slurm / "cache").glob("slurm/*/job-001/job")
    answer.unlink()
    assert sweep("--out", "a") == 0
    assert jobs(slurm) == 1 and len(begun(slurm)) == 6


def test_what_was_prepared_and_never_submitted_is_submitted(slurm: Path) -> None:
    assert sweep("--no-wait", "--seeds", "1..6") == 0
    deadline = time.monotonic() + 60
    while len(list((slurm / "cache").glob("slurm/*/??/*.run"))) < 6:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    (place,) = (slurm / "cache").glob("slurm/*")
    for path in place.glob("??"):
        shutil.rmtree(path)
    (place / "job-001" / "job").unlink()
    for path in (slurm / "slurm").glob("*.job"):
        path.unlink()
    assert sweep("--out", "a") == 0
    assert Sweep.open("a").table.num_rows == 6


def test_a_task_that_is_killed_is_told_and_submitted_again(
    slurm: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_KILLED", "1")
    assert sweep("--out", "a") == 1
    err = capsys.readouterr().err
    assert re.search(r"failed: seed=\d: .*its Slurm task ended without it \(OUT_OF_MEMORY\); see "
                     r".*/job-001/task-1.log; the same command submits it again", err)  # fmt: skip
    assert "3 points failed; the others are in a" in err
    done = len(begun(slurm))
    assert Sweep.open("a").table.num_rows == 3 == done
    monkeypatch.delenv("SLURM_KILLED")
    assert sweep("--out", "b") == 0
    assert jobs(slurm) == 2 and len(begun(slurm)) == 6 == Sweep.open("b").table.num_rows


def test_a_run_that_fails_on_a_node_is_told(
    slurm: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWEEP_FAILS", "seed=3")
    assert sweep("--out", "a") == 1
    assert "failed: seed=3: mixtral-8x7b on fat-tree: it was to fail" in capsys.readouterr().err
    monkeypatch.delenv("SWEEP_FAILS")
    assert sweep("--out", "b") == 0
    assert len(begun(slurm)) == 6 == Sweep.open("b").table.num_rows


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--slurm", "Partition"], '--slurm "Partition": must be an option of sbatch'),
        (["--slurm", "partition=a\nrm"], "must be an option of sbatch"),
        (["--slurm", "array=1-9"], '--slurm "array=1-9": lightloom says it'),
        (["--slurm", "mem=1G", "--slurm", "mem=2G"], "two values for mem"),
    ],
)
def test_an_option_that_is_none(
    options: list[str], says: str, slurm: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sweep(*options) == 2
    assert says in capsys.readouterr().err and jobs(slurm) == 0


def test_a_refusal_of_slurm_is_told(slurm: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert sweep("--slurm", "partition=none") == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert said == "error: --on slurm: sbatch: sbatch: error: invalid partition specified: none"


def test_without_slurm_or_a_cache(
    slurm: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIGHTLOOM_CACHE", "off")
    assert sweep() == 2
    assert "its tasks need the cache, and LIGHTLOOM_CACHE is off" in capsys.readouterr().err
    monkeypatch.setenv("LIGHTLOOM_CACHE", "cache")
    monkeypatch.setenv("PATH", "/nonexistent")
    assert sweep() == 2
    err = capsys.readouterr().err
    assert (
        err.startswith("error: --on slurm: sbatch: no such command here") and err.count("\n") == 1
    )


def test_what_squeue_says_besides_is_no_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "batches.json").write_text('{"keys": [["a"], ["b"]]}')
    submission = on_slurm.Submission(tmp_path)
    said = "Maintenance\non Friday, 12 Jan\n0 COMPLETED\n 1 RUNNING \n999 RUNNING\n"
    monkeypatch.setattr(on_slurm, "_run", lambda *_: said)
    assert submission.alive_keys() == {"b"}


def test_batches_have_about_equal_work() -> None:
    def some(weights: list[float], jobs: int | None = None) -> list[list[float]]:
        runs: list[Any] = [Run("a", str(n), {"n": n}, weight=w) for n, w in enumerate(weights)]
        return [[run.weight for run in each] for each in _batches(runs, jobs)]

    assert some([1.0] * 200) == [[1.0] * 200]
    assert [len(each) for each in some([1.0] * 200, 8)] == [25] * 8
    works = [sum(each) for each in some([300.0, 200.0, 200.0, 100.0, 400.0, 600.0])]
    assert max(works) - min(works) <= 100 and len(works) == 3
    assert len(some([1e4] * 5000)) == 1000 and some([5.0], 9) == [[5.0]]
    assert json.dumps(some([2.0, 1.0], 2)) == "[[2.0], [1.0]]"
