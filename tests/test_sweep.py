"""``lightloom sweep`` and `lightloom.sweep`: what runs, what is written, how it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightloom
import pyarrow.parquet as pq
import pytest
from lightloom import InputError, RunError, Scenario
from lightloom.cli import run
from lightloom.sweeps import Sweep
from rich.console import Console

HERE = Path(__file__).parent
MODEL = "mixtral-8x7b"
SMALL = ["--gpus", "128", "--set", "training.micro_batches=1", "--set", "model.layers=4"]
BANDWIDTHS = ["--over", "fabric.link_bandwidth=100,400"]
FABRICS = ["--over", "fabric.preset=mixnet,fat-tree"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undrawn: None) -> Path:
    """A directory of one's own, with a cache; pictures are not drawn."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LIGHTLOOM_CACHE", str(tmp_path / "cache"))
    return tmp_path


def small(**more: Any) -> Scenario:
    job = Scenario.preset(MODEL, gpus=128)
    return job.with_({"training.micro_batches": 1, "model.layers": 4} | more)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "no axis; allowed: --over KEY=VALUES"),
        (["--over", "training.micro_batc=1,2"], 'unknown key (did you mean "micro_batch"?)'),
        (["--over", "trainin.micro_batch=1"], 'unknown key (did you mean "training"?)'),
        (["--over", "training.micro_batch"], "must be KEY=VALUES"),
        (["--over", "training.micro_batch="], "must be KEY=VALUES"),
        (["--over", "training.micro_batch=1,,2"], "without empty places"),
        (["--over", "training.micro_batch=8..1"], "8..1: the range descends"),
        (["--over", "seed=1", "--over", "seed=2"], "--over seed: two axes of one key"),
        (["--over", "seed=1", "--seeds", "2"], "--seeds 2: two axes of the key seed"),
        (["--seeds", "1", "--seed", "2"], "--seeds and --seed 2: two values for seed"),
        (["--seeds", "5..1"], "--seeds: 5..1: the range descends"),
        (
            ["--over", "cluster.gpus=128", "--gpus", "256"],
            "--over cluster.gpus and --gpus 256: two",
        ),
        (
            ["--over", "fabric.link_bandwidth=100", "--set", "fabric.link_bandwidth=100 Gbps"],
            "--over fabric.link_bandwidth and --set fabric.link_bandwidth: two values",
        ),
        (
            ["--over", "training.micro_batches=1,2", "--micro-batches", "1"],
            "--over training.micro_batches and --micro-batches 1: two values",
        ),
        (["--seeds", "1", "--micro-batches", "99"], "allowed: 1 to 16"),
        (
            ["--seeds", "1,2", "--where", "seeed > 1"],
            "seeed: no point has such a key; did you mean",
        ),
        (["--seeds", "1,2", "--where", "seed >"], "not a condition"),
        (["--seeds", "1,2", "--where", "seed > 2"], "none of 2 points is left"),
        (["--over", "cluster.gpus=100,200"], "cluster.gpus = 100: must be a multiple of"),
        (["--over", "fabric.preset=mixne,fat-tre"], 'no such preset (did you mean "mixnet"?)'),
        (["--seeds", "1", "--on", "moon"], '--on "moon": no such place; allowed: local, ray'),
        (["--seeds", "1", "--on", "ray:"], '--on "ray:": no such place'),
        (["--seeds", "1", "--slurm", "partition=a"], "--slurm and --no-wait are of --on slurm"),
        (["--seeds", "1", "--no-wait"], "--slurm and --no-wait are of --on slurm"),
        (["--seeds", "1", "--jobs", "0"], "--jobs 0: must be at least 1"),
        (["--seeds", "1", "--x", "sed"], '--x "sed": no such axis (did you mean "seed"?)'),
        (["--seeds", "1", "--x", "seed", "--by", "seed"], "--x and --by seed: must be two keys"),
        (["--seeds", "1", "--by", "model.size"], '--by "model.size": no such axis'),
        (["--axes", "missing.toml"], "missing.toml: cannot be read"),
        (["--seeds", "1", "--out", "."], "holds the current directory"),
    ],
    ids=str,
)
def test_bad_input_is_refused(arguments: list[str], says: str, refused: Callable[..., str]) -> None:
    assert says in refused("sweep", MODEL, *arguments)


def test_a_job_that_is_none(refused: Callable[..., str]) -> None:
    assert "neither a file nor a model preset" in refused("sweep", "mixtral", "--seeds", "1")


def test_a_file_of_axes_that_is_bad(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "axes.toml").write_text("[over\n")
    assert run(["sweep", MODEL, "--axes", "axes.toml"]) == 2
    assert capsys.readouterr().err.startswith("error: axes.toml: not valid TOML: ")


def test_messages_say_where_a_value_is_from(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "axes.toml").write_text("[over]\ncluster.gpus = [100, 200]\n")
    assert run(["sweep", MODEL, "--axes", "axes.toml", "--seeds", "1"]) == 2
    assert "error: axes.toml: cluster.gpus = 100: must be" in capsys.readouterr().err
    assert run(["sweep", MODEL, "--axes", "axes.toml", "--over", "fabric.preset=mixne"]) == 2
    assert "error: command line: fabric.preset" in capsys.readouterr().err


def test_a_sweep_from_the_command_line(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["sweep", MODEL, *SMALL, *BANDWIDTHS, *FABRICS, "--seeds", "1,2"]
    assert run([*command, "--out", "a", "--json"]) == 0
    out, err = capsys.readouterr()
    assert "8 points, 8 runs, 0 kept; about 1 s of CPU time" in err
    told = json.loads(out)
    assert len(told["rows"]) == 8 and told["misfits"] == told["failed"] == []
    first = told["rows"][0]
    assert first["fabric.link_bandwidth"] == "100 Gbps" and first["fabric.preset"] == "mixnet"
    found = Sweep.open("a")
    assert found.complete and found.axes == ("fabric.link_bandwidth", "fabric.preset", "seed")
    assert {"sweep.png", "heatmap.png", "spec.toml"} <= set(os.listdir("a"))
    assert found.table.num_rows == found.times.num_rows == found.points.num_rows == 8
    assert found.info["sweep"]["axes"]["over"]["fabric.link_bandwidth"] == ["100 Gbps", "400 Gbps"]
    # In another order of axes, without a cache, and from a file: the same bytes.
    (here / "axes.toml").write_text(
        'seeds = [1, 2]\n[over.fabric]\npreset = ["mixnet", "fat-tree"]\n'
        'link_bandwidth = "100,400"\n'
    )
    os.environ["LIGHTLOOM_CACHE"] = "off"
    assert run(["sweep", MODEL, *SMALL, "--axes", "axes.toml", "--out", "b"]) == 0
    for name in ("runs", "points"):
        assert (
            Path("a", f"{name}.parquet").read_bytes() == Path("b", f"{name}.parquet").read_bytes()
        )
    # A figure is what `simulate` gives.
    job = small(seed=2, **{"fabric.preset": "mixnet"}).with_({"fabric.link_bandwidth": "400 Gbps"})
    row = next(r for r in found.rows if (r["seed"], r["fabric.name"]) == (2, "mixnet")
               and r["fabric.link_bandwidth"] == "400 Gbps")  # fmt: skip
    assert row["iteration_s"] == lightloom.simulate(job).rows[0]["iteration_s"]
    # The same place is taken only with --force.
    capsys.readouterr()
    assert run([*command, "--out", "a"]) == 2
    assert "a: holds a Result; allowed: another directory, or --force" in capsys.readouterr().err
    assert run([*command, "--out", "a", "--force"]) == 0


def test_what_is_kept_is_not_run_again(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["sweep", MODEL, *SMALL, *BANDWIDTHS]
    assert run(command) == 0
    assert run([*command[:-1], "fabric.link_bandwidth=100,200,400"]) == 0
    assert "3 points, 3 runs, 2 kept; about 1 s" in capsys.readouterr().err
    assert run(command) == 0
    assert "2 points, 2 runs, 2 kept\n" in capsys.readouterr().err
    assert len(list((here / "results").iterdir())) == 2


def test_points_that_resolve_to_the_same_run_once(here: Path) -> None:
    found = lightloom.sweep(
        small(), over={"fabric.link_bandwidth": ["400 Gbps", "0.4 Tbps", 400], "seed": [1]}
    )
    assert (found.points.num_rows, found.table.num_rows, len(found.rows)) == (2, 1, 2)
    assert len(set(found.points["run"].to_pylist())) == 1


def test_a_name_is_an_axis_like_others(here: Path) -> None:
    found = lightloom.sweep(small(name="mine"), over={"name": ["a", "b"]}, seeds=[1])
    assert [row["name"] for row in found.rows] == ["a", "b"] == found.table["name"].to_pylist()


def test_prices_are_axes_like_others(here: Path) -> None:
    """What costs another amount runs once, and has a row each."""
    found = lightloom.sweep(small(), over={'prices.nic."400 Gbps"': [1000.0, 2000.0]})
    assert found.table.num_rows == 2 and len(set(found.table["run"].to_pylist())) == 1
    costs = [row["cost_usd"] for row in found.rows]
    assert costs[1] - costs[0] == 128 * 1000


def test_engines_are_an_axis_each_with_its_figures(here: Path) -> None:
    over = {"engine.kind": ["flow", "packet"], "model.layers": [4]}
    found = lightloom.sweep(small(**{"training.micro_batch": 1, "model.hidden": 256}), over=over)
    assert {"flows", "packets"} <= set(found.figures)
    flow, packet = found.rows
    assert flow["packets"] is None and packet["packets"] > 0
    assert found.plot(y="packets").axes[0].get_ylabel() == "packets"


def test_a_misfit_is_one_bad_point(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--set", "training.micro_batches=1", "--set", "model.layers=4"]
    assert (
        run(["sweep", MODEL, *arguments, "--over", "cluster.gpus=128,200,256", "--out", "a"]) == 0
    )
    out, err = capsys.readouterr()
    assert "misfit: cluster.gpus=200: command line: cluster.gpus = 200: must be a multiple" in err
    found = Sweep.open("a")
    assert [row["cluster.gpus"] for row in found.rows] == [128, 256]
    ((name, message),) = found.misfits
    assert name == "cluster.gpus=200" and "must be a multiple" in message
    assert "misfit" not in out and len(found.points) == 3
    assert run(["sweep", MODEL, *arguments, "--over", "cluster.gpus=128,200", "--dry-run"]) == 0
    assert "200   misfit" in capsys.readouterr().out


def test_a_trace_that_does_not_fit_is_a_misfit(here: Path) -> None:
    over = {"parallelism.ep": [4, 8], "gating.trace": ["builtin"], "model.experts": [8, 12]}
    found = lightloom.sweep(small(), over=over)
    assert found.table.num_rows >= 1 and found.misfits


def test_a_dry_run_runs_nothing(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["sweep", MODEL, *SMALL, *BANDWIDTHS, *FABRICS, "--dry-run"]
    assert run(command) == 0
    out, _ = capsys.readouterr()
    assert "4 points, 4 runs, 0 kept; about" in out and "400 Gbps        fat-tree" in out
    assert run([*command, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["points"]) == 4
    assert not list(here.rglob("*.run")) and not (here / "results").exists()


def test_fewer_micro_batches_are_said(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["sweep", MODEL, "--gpus", "128", "--set", "model.layers=4", "--seeds", "1"]
    assert run([*command, "--micro-batches", "1", "--out", "a"]) == 0
    assert "reduced from the job's 16 by --micro-batches" in capsys.readouterr().err
    assert "reduced" in Sweep.open("a").info["warnings"][0]


def test_a_figure_that_there_is_not(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sweep", MODEL, *SMALL, "--seeds", "1,2", "--plot", "iteration", "--out", "a"]) == 2
    err = capsys.readouterr().err
    assert (
        'error: --plot "iteration": no run has such a figure (did you mean "iteration_s"?)' in err
    )
    assert Sweep.open("a").table.num_rows == 2 and not Path("a", "sweep.png").exists()


@pytest.mark.parametrize("width", [60, 80])
def test_the_table_fits(width: int, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from lightloom.sweeps import terminal

    over = {"fabric.preset": "mixnet,fat-tree", "training.micro_batch": "1..2", "seed": "1..2"}
    found = lightloom.sweep(small(), over=over)
    terminal.render(found, "iteration_s", Console(width=width, no_color=True))
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= width
    assert out.count("*") == 2 and "* best iteration [s]" in out
    best = found.best()["iteration_s"]
    assert f"{best:.5f}*" in out and best == min(row["iteration_s"] for row in found.rows)
    assert found.best("tokens_per_s")["tokens_per_s"] == max(r["tokens_per_s"] for r in found.rows)


def test_the_best_of_many_are_shown(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sweep", MODEL, *SMALL, "--seeds", "1..41"]) == 0
    out = capsys.readouterr().out
    assert "the 20 best of 41 points by iteration_s" in out and len(out.splitlines()) < 30


def test_a_run_that_fails_is_listed(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from lightloom.runs import scenario

    perform = scenario.perform

    def failing(of: Any, *rest: Any, **how: Any) -> Any:
        if of.name == "seed=2":
            raise RunError("it was to fail")
        return perform(of, *rest, **how)

    monkeypatch.setattr(scenario, "perform", failing)
    assert run(["sweep", MODEL, *SMALL, "--seeds", "1..3", "--out", "a"]) == 1
    err = capsys.readouterr().err
    assert "failed: seed=2: mixtral-8x7b on fat-tree: it was to fail\n" in err
    assert err.endswith("error: 1 points failed; the others are in a\n")
    found = Sweep.open("a")
    assert [row["seed"] for row in found.rows] == [1, 3] and found.complete
    assert found.failures == [("seed=2", "mixtral-8x7b on fat-tree: it was to fail")]
    # It is not kept: without the fault it is run, and the whole is what it would have been.
    monkeypatch.undo()
    monkeypatch.setenv("LIGHTLOOM_CACHE", str(here / "cache"))
    assert run(["sweep", MODEL, *SMALL, "--seeds", "1..3", "--out", str(here / "b")]) == 0
    assert "3 points, 3 runs, 2 kept" in capsys.readouterr().err
    with pytest.raises(RunError, match="it was to fail"):
        monkeypatch.setattr(scenario, "perform", failing)
        lightloom.sweep(small(), seeds=[2], cache=False)


def test_an_interrupt_keeps_what_was_finished(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = []

    def stop(name: str, share: float) -> None:
        ended.append(share == 1.0)
        if sum(ended) == 3:
            raise KeyboardInterrupt

    with pytest.raises(lightloom.errors.Interrupted, match="runs are kept in a; the same command"):
        lightloom.sweep(small(), seeds="1..9", out="a", jobs=1, on_progress=stop)
    half = Sweep.open("a")
    assert not half.complete and 3 <= half.table.num_rows < 9
    assert half.points["state"].to_pylist().count("unfinished") == 9 - half.table.num_rows
    # Another sweep does not take its place, the same one does.
    with pytest.raises(InputError, match="holds a Result"):
        lightloom.sweep(small(), seeds="1..8", out="a")
    whole = lightloom.sweep(small(), seeds="1..9", out="a")
    assert whole.complete and whole.table.num_rows == 9
    lightloom.sweep(small(), seeds="1..9", out="b", cache=False)
    assert Path("a/runs.parquet").read_bytes() == Path("b/runs.parquet").read_bytes()


class Swept:
    """Sweeps as processes of their own, the runs that they begin counted."""

    def __init__(self, place: Path) -> None:
        self.place, self.marks = place, place / "marks"
        path = [str(HERE / "fixtures" / "sweep"), os.environ.get("PYTHONPATH", "")]
        self.env = os.environ | {
            "LIGHTLOOM_CACHE": str(place / "cache"),
            "SWEEP_MARKS": str(self.marks),
            "SWEEP_SLOW": "0.05",
            "PYTHONPATH": os.pathsep.join(filter(None, path)),
            "MPLBACKEND": "agg",
        }

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        # A shell has what it runs in the background ignore interrupts, and all that this begins.
        heed = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        code = f"{heed}from lightloom.cli import main; main()"
        program = [sys.executable, "-c", code, "sweep", MODEL, *SMALL, *arguments]
        with (self.place / "said").open("ab") as said:
            return subprocess.Popen(program, env=self.env, cwd=self.place, stdout=said, stderr=said,
                                    process_group=0)  # fmt: skip

    @property
    def begun(self) -> list[str]:
        return self.marks.read_text().splitlines() if self.marks.exists() else []

    @property
    def kept(self) -> set[str]:
        return {path.stem for path in (self.place / "cache").glob("??/*.run")}

    def killed_and_resumed(self, points: int, *arguments: str, on: tuple[str, ...] = ()) -> None:
        """Kill a sweep in its middle, go on, and compare with one in one go on this machine."""
        process = self.start(*arguments, *on, "--out", "resumed")
        while len(self.kept) < points // 3:
            assert process.poll() is None, (self.place / "said").read_text()
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        time.sleep(1.0)  # workers end by themselves
        kept, begun = self.kept, len(self.begun)
        assert points // 3 <= len(kept) < points and not (self.place / "resumed").exists()
        assert self.start(*arguments, *on, "--out", "resumed").wait() == 0
        again = self.begun[begun:]
        assert len(again) == len(set(again)) == points - len(kept), "none twice"
        assert not kept & set(again) and len(self.kept) == points, "none lost"
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("LIGHTLOOM_CACHE", "off")
            patch.chdir(self.place)
            assert run(["sweep", MODEL, *SMALL, *arguments, "--out", "whole", "--jobs", "1"]) == 0
        for name in ("runs", "points"):
            one, other = (self.place / d / f"{name}.parquet" for d in ("resumed", "whole"))
            assert one.read_bytes() == other.read_bytes()
        assert pq.read_table(self.place / "whole" / "runs.parquet").num_rows == points


def test_a_sweep_that_was_killed_goes_on(tmp_path: Path) -> None:
    axes = ["--over", "fabric.preset=fat-tree,rail-optimized", "--seeds", "1..12"]
    Swept(tmp_path).killed_and_resumed(24, *axes)


def test_a_second_interrupt_right_after_the_first_loses_nothing(tmp_path: Path) -> None:
    swept = Swept(tmp_path)
    process = swept.start("--seeds", "1..200", "--out", "a", "--jobs", "1")
    while len(swept.kept) < 5:
        assert process.poll() is None, (tmp_path / "said").read_text()
        time.sleep(0.01)
    for wait_s in (0.02, 0.03, 0.05, 0.1, 0.0):
        process.send_signal(signal.SIGINT)
        time.sleep(wait_s)
    assert process.wait() == 130
    *_, said = (tmp_path / "said").read_text().splitlines()
    assert re.fullmatch(r"interrupted: \d+ of 200 runs are kept in a; .*", said)
    assert Sweep.open(tmp_path / "a").table.num_rows >= 5


def test_an_interrupt_from_the_keyboard_leaves_slurms_tasks(tmp_path: Path) -> None:
    swept = Swept(tmp_path)
    swept.env |= {
        "PATH": f"{HERE / 'fixtures' / 'slurm'}{os.pathsep}{os.environ['PATH']}",
        "SLURM_HERE": str(tmp_path),
    }
    axes = ["--seeds", "1..30", "--on", "slurm"]
    process = swept.start(*axes, "--out", "a", "--jobs", "1")
    while not list(tmp_path.glob("cache/slurm/*/??/*.run")):
        assert process.poll() is None, (tmp_path / "said").read_text()
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    *_, said = (tmp_path / "said").read_text().splitlines()
    none, some = (
        "interrupted: no run was finished",
        r"interrupted: \d+ of 30 runs are kept in a; .*",
    )
    assert said == none or re.fullmatch(some, said)
    assert (tmp_path / "a").exists() == (said != none)
    assert swept.start(*axes, "--out", "a", "--jobs", "1").wait() == 0
    assert Sweep.open(tmp_path / "a").table.num_rows == 30 == len(swept.begun)
    assert len(list(tmp_path.glob("*.job"))) == 1, "tasks went on, and were found again"


@pytest.mark.parametrize("name", ["pandas", "polars"])
def test_others_read_and_join_the_tables(name: str, here: Path) -> None:
    frames = pytest.importorskip(name)
    for out, fabrics in (("a", "mixnet,fat-tree"), ("b", "topoopt")):
        lightloom.sweep(small(), over={"fabric.preset": fabrics, "seed": [1, 2]}, out=out)
    runs, times, other = (
        frames.read_parquet(f"{place}.parquet") for place in ("a/runs", "a/times", "b/runs")
    )
    if name == "pandas":
        joined = runs.merge(times, on=["run", "point"])
        both = frames.concat([runs, other])
    else:
        joined = runs.join(times, on=["run", "point"])
        both = frames.concat([runs, other], how="diagonal_relaxed")
    assert (len(joined), len(both)) == (4, 6)
    own = pq.read_table("a/runs.parquet")
    assert list(runs["iteration_s"]) == own["iteration_s"].to_pylist()
    assert sorted(joined["cpu_s"]) == sorted(pq.read_table("a/times.parquet")["cpu_s"].to_pylist())


def test_pictures_of_one_axis_and_of_two(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = lightloom.sweep(small(), over={"fabric.preset": "mixnet,fat-tree", "seed": [1, 2, 3]})
    (axes,) = found.plot().axes
    assert [t.get_text() for t in axes.get_xticklabels()] == ["mixnet", "fat-tree"]
    lines = found.plot(x="seed", y="cost_usd", by="fabric.preset").axes[0].get_lines()
    assert [line.get_label() for line in lines] == ["mixnet", "fat-tree"]
    assert [list(line.get_xdata()) for line in lines] == [[1, 2, 3]] * 2
    grid = found.heatmap(x="seed").axes[0].get_images()[0].get_array()
    assert grid.shape == (2, 3)
    with pytest.raises(InputError, match="a heat map needs two axes"):
        lightloom.sweep(small(), seeds=[1, 2]).heatmap()
    with pytest.raises(InputError, match="no such figure"):
        found.plot(y="iteration")
    with pytest.raises(InputError, match="no such axis or key"):
        found.plot(x="sed")
    with pytest.raises(InputError, match="seed: lies along x and makes the lines"):
        found.plot(x="seed", by="seed")
    page = found._repr_html_()
    assert page.count("<tr") == 7 and page.count("font-weight: bold") == 1


def test_a_directory_that_is_no_sweep(here: Path) -> None:
    lightloom.simulate(small(), out="run")
    with pytest.raises(InputError, match="run: holds no sweep"):
        Sweep.open("run")
    lightloom.sweep(small(), seeds=[1], out="swept")
    with pytest.raises(InputError, match="swept: holds a sweep"):
        lightloom.Result.open("swept")
