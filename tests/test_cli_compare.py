"""``lightloom compare`` and what follows it, as a user meets them: output, files, exit codes."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightloom
import pyarrow.parquet as pq
import pytest
from lightloom.cli import COMMANDS, run

JOB = ["mixtral-8x7b", "--gpus", "128", "--set", "training.micro_batches=4"]
FIELDS = [
    "model",
    "fabric",
    "bandwidth_gbps",
    "gpus",
    "iteration_s",
    "compute_s",
    "exposed_a2a_s",
    "exposed_other_s",
    "reconfiguration_s",
    "cost_usd",
    "perf_per_dollar_vs_fat_tree",
    "pareto",
    "network_usd",
    "servers_usd",
    "energy_usd",
    "cluster_usd",
    "watts",
    "perf_per_network_dollar_vs_fat_tree",
    "perf_per_cluster_dollar_vs_fat_tree",
    "usd_per_trillion_tokens",
    "missing",
    "tokens_per_s",
    "tokens_per_s_per_gpu",
    "mfu",
    "mfu_full_attention",
]
FABRICS = ["fat-tree", "fat-tree-3to1", "rail-optimized", "topoopt", "mixnet"]
TABLES = ["bill", "demand", "links", "money", "reconfigurations", "runs", "tasks", "transfers"]
REPORT = ["bars.png", "heatmap.png", "pareto.png", "report.html", "timeline.json.gz"]


def program(*arguments: str, at: Path, code: str = "") -> subprocess.CompletedProcess[str]:
    """Run the installed command in a process of its own, with `code` before it."""
    # A shell's background job ignores interrupts, and so would whatever it starts.
    heed = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)"
    start = f"{heed}\n{code}\nfrom lightloom.cli import main\nmain()"
    return subprocess.run(
        [sys.executable, "-c", start, *arguments],
        capture_output=True,
        text=True,
        cwd=at,
        timeout=120,
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("compare")


@pytest.fixture(scope="module")
def compared(place: Path) -> subprocess.CompletedProcess[str]:
    return program("compare", *JOB, "--json", "--out", "result", at=place)


@pytest.fixture(scope="module")
def rows(compared: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    assert compared.returncode == 0, compared.stderr
    printed = json.loads(compared.stdout)
    assert list(printed) == ["rows", "verdict"]
    found: list[dict[str, Any]] = printed["rows"]
    return found


def test_json_is_the_promised_one_and_nothing_else(rows: list[dict[str, Any]]) -> None:
    assert [list(row) for row in rows] == [FIELDS] * 20
    cells = [(row["bandwidth_gbps"], row["fabric"]) for row in rows]
    assert cells == [(rate, fabric) for rate in (100.0, 200.0, 400.0, 800.0) for fabric in FABRICS]
    assert {(row["model"], row["gpus"]) for row in rows} == {("mixtral-8x7b", 128)}


def test_parts_add_up(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        parts = ("compute_s", "exposed_a2a_s", "exposed_other_s", "reconfiguration_s")
        assert sum(row[part] for part in parts) == pytest.approx(row["iteration_s"], abs=1e-9)
        assert all(row[part] >= 0 for part in parts) and row["compute_s"] > 0


def test_performance_per_dollar_and_front_follow_from_time_and_cost(
    rows: list[dict[str, Any]],
) -> None:
    reference = {row["bandwidth_gbps"]: row for row in rows if row["fabric"] == "fat-tree"}
    for row in rows:
        base = reference[row["bandwidth_gbps"]]
        for name, usd in (
            ("", "cost_usd"), ("network_", "network_usd"), ("cluster_", "cluster_usd"),
        ):  # fmt: skip
            ratio = base["iteration_s"] * base[usd] / (row["iteration_s"] * row[usd])
            assert row[f"perf_per_{name}dollar_vs_fat_tree"] == pytest.approx(ratio, rel=1e-12)
        parts = row["servers_usd"] + row["network_usd"] + row["energy_usd"]
        assert row["cluster_usd"] == pytest.approx(parts, rel=1e-12)
        usd = "network_usd"
        beaten = [
            other
            for other in rows
            if (other["iteration_s"] < row["iteration_s"] and other[usd] <= row[usd])
            or (other["iteration_s"] <= row["iteration_s"] and other[usd] < row[usd])
        ]
        assert row["pareto"] == (not beaten)
        year = 365.25 * 24 * 3600
        tokens = row["tokens_per_s"] * 4 * year
        assert row["usd_per_trillion_tokens"] == pytest.approx(row["cluster_usd"] / tokens * 1e12)


def test_a_faster_link_is_never_slower(rows: list[dict[str, Any]]) -> None:
    for fabric in FABRICS:
        times = [row["iteration_s"] for row in rows if row["fabric"] == fabric]
        assert times == sorted(times, reverse=True)


def test_the_result_is_complete(rows: list[dict[str, Any]], place: Path) -> None:
    result = place / "result"
    files = {path.name for path in result.iterdir()}
    assert files >= {*REPORT, "spec.toml", "result.json", *(f"{name}.parquet" for name in TABLES)}
    assert all((result / name).stat().st_size > 0 for name in files)
    assert not list(place.glob(".result*")), "no draft is left"
    kept = pq.read_table(result / "runs.parquet").to_pylist()
    assert [{name: row[name] for name in FIELDS} for row in kept] == rows
    info = json.loads((result / "result.json").read_text(encoding="utf-8"))
    assert info["complete"] is True and info["warnings"] == [] and info["seed"] == 1
    assert info["command"].startswith("lightloom compare mixtral-8x7b --gpus 128")
    trace = json.loads(gzip.decompress((result / "timeline.json.gz").read_bytes()))
    assert len(trace["traceEvents"]) > 1000
    page = (result / "report.html").read_text(encoding="utf-8")
    assert "mixtral-8x7b" in page and not re.search(r"https?://(?!www\.w3\.org)", page)


def test_progress_is_on_stderr(compared: subprocess.CompletedProcess[str]) -> None:
    assert all("runs done" in line for line in compared.stderr.splitlines())


@pytest.mark.usefixtures("compared")
def test_the_report_rebuilds(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    assert run(["report", "result", "--out", "again", "--json"]) == 0
    written = {Path(name).name for name in json.loads(capsys.readouterr().out)["files"]}
    assert written >= set(REPORT)
    for name in written:
        assert (place / "again" / name).read_bytes() == (place / "result" / name).read_bytes()


@pytest.mark.usefixtures("undrawn")
def test_the_resolved_specification_runs_again(
    rows: list[dict[str, Any]],
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(place)
    arguments = ["compare", "result/spec.toml", "--bandwidth", "400", "--fabrics", "mixnet"]
    assert run([*arguments, "--json", "--out", "rerun"]) == 0
    (again,) = json.loads(capsys.readouterr().out)["rows"]
    (first,) = (r for r in rows if (r["fabric"], r["bandwidth_gbps"]) == ("mixnet", 400.0))
    assert again["iteration_s"] == first["iteration_s"]
    assert again["perf_per_dollar_vs_fat_tree"] is None, "there is no fat-tree to compare with"


@pytest.mark.usefixtures("undrawn")
def test_a_table_for_people(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["compare", *JOB, "--fabrics", "fat-tree,mixnet", "--bandwidth", "0.4 Tbps"]) == 0
    out = capsys.readouterr().out
    (place,) = (tmp_path / "results").iterdir()
    assert place.name.startswith("compare-mixtral-8x7b-128-")
    assert "mixnet" in out and f"open results/{place.name}/report.html" in out
    assert max(map(len, out.splitlines())) <= 100
    assert "\x1b" not in out, "no colours in a pipe"


@pytest.mark.usefixtures("undrawn")
def test_simulate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "job.toml").write_text(
        '[model]\npreset = "mixtral-8x7b"\n[cluster]\ngpus = 128\n[fabric]\npreset = "mixnet"\n'
    )
    arguments = ["simulate", str(tmp_path / "job.toml"), "--set", "training.micro_batches=2"]
    assert run([*arguments, "--seed", "7", "--out", str(tmp_path / "one"), "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert row["run"] == "mixnet@400G" and row["iteration_s"] > row["compute_s"] > 0
    result = lightloom.Result.open(tmp_path / "one")
    assert result.info["seed"] == 7 and len(result.rows) == 1
    assert run([*arguments, "--engine", "packets", "--out", str(tmp_path / "two")]) == 2
    assert capsys.readouterr().err.count("\n") == 1 and not (tmp_path / "two").exists()


def test_cost_ratios(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["cost", "--json"]) == 0
    priced = json.loads(capsys.readouterr().out)["rows"]
    ratios = [row["fat_tree_over_this"] for row in priced if row["fabric"] == "mixnet"]
    assert ratios == pytest.approx([1.453, 1.771, 2.303, 2.341], rel=0.005)
    for row in priced:
        assert row["cost_usd"] == pytest.approx(sum(line["total_usd"] for line in row["bill"]))


def test_spec_resolve(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["spec", "resolve", "mixtral-8x7b", "--set", "fabric.preset=mixnet"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert 'fabric.ocs.delay = "25 ms"  # preset devices/polatis.toml' in lines
    assert 'fabric.kind = "mixnet"  # preset fabrics/mixnet.toml' in lines


BAD = {
    "a model that there is not": (["mixtral-8x7"], 'did you mean "mixtral-8x7b"?'),
    "a fabric that there is not": (
        ["mixtral-8x7b", "--fabrics", "fat-tree,mixnets"],
        'did you mean "mixnet"?',
    ),
    "no rate": (["mixtral-8x7b", "--bandwidth", "fast"], '--bandwidth "fast": not a rate'),
    "no GPUs": (["mixtral-8x7b", "--gpus", "0"], "cluster.gpus = 0: "),
    "GPUs that do not divide": (["mixtral-8x7b", "--gpus", "1000"], "must be a multiple of"),
    "GPUs that are no number": (
        ["mixtral-8x7b", "--gpus", "many"],
        "--gpus': Input should be a valid integer",
    ),
    "a key that there is not": (
        ["mixtral-8x7b", "--set", "training.micro_batche=4"],
        "training.micro_batche = 4: unknown key",
    ),
    "a trace that does not fit": (
        [*JOB, "--set", "gating.trace=sixteen.parquet"],
        "has 16 experts; must have model.experts = 8: lightloom trace record",
    ),
    "a trace that is none": ([*JOB, "--set", "gating.trace=data.csv"], "data.csv"),
    "a place that is no Result": ([*JOB, "--out", "mine"], "is not empty and not a Result"),
    "a place that is a file": ([*JOB, "--out", "data.csv"], "is a file"),
    "a place below a file": ([*JOB, "--out", "data.csv/x"], "data.csv is not a directory"),
    "a switch with too few ports": (
        [*JOB, "--set", "fabric.preset=mixnet", "--set", "fabric.ocs.device=epiphotonics"],
        "fabric.ocs.ports",
    ),
    "a model on no fabric": (["mixtral-8x7b", "--fabrics", ""], "--fabrics"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_leaves_nothing(
    case: str, tmp_path: Path, refused: Callable[..., str]
) -> None:
    arguments, says = BAD[case]
    lightloom.GatingTrace.builtin(16, 4).save(tmp_path / "sixteen.parquet")
    (tmp_path / "data.csv").write_text("1,2\n")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    assert says in refused("compare", *arguments, "--json")


def test_an_interrupt_keeps_the_finished_runs(tmp_path: Path) -> None:
    """Ctrl-C as soon as one run is done: exit code 130, and a Result that says it is incomplete."""
    code = """
import os, signal, lightloom.progress as progress
from contextlib import contextmanager

@contextmanager
def runs(total):
    def on_progress(name, share):
        if share == 1.0:
            os.kill(os.getpid(), signal.SIGINT)
    yield on_progress

progress.runs = runs
"""
    done = program("compare", *JOB, "--json", "--out", "part", at=tmp_path, code=code)
    kept = lightloom.Result.open(tmp_path / "part")
    says = f"interrupted: {len(kept.rows)} of 20 runs are kept in part\n"
    assert (done.returncode, done.stdout, done.stderr) == (130, "", says)
    assert 1 <= len(kept.rows) < 20
    assert kept.info["complete"] is False
    assert kept.info["warnings"] == [f"stopped after {len(kept.rows)} of 20 runs"]
    assert (tmp_path / "part" / "report.html").exists()


def test_an_interrupt_of_the_report_keeps_every_run(tmp_path: Path) -> None:
    code = """
import os, signal, lightloom.report as report
def interrupted(*_):
    os.kill(os.getpid(), signal.SIGINT)
report.build_report = interrupted
"""
    one = ["--fabrics", "mixnet", "--bandwidth", "400", "--out", "kept"]
    done = program("compare", *JOB, *one, at=tmp_path, code=code)
    says = "interrupted: every run is kept in kept; lightloom report kept draws its report\n"
    assert (done.returncode, done.stdout, done.stderr) == (130, "", says)
    kept = lightloom.Result.open(tmp_path / "kept")
    assert len(kept.rows) == 1 and kept.info["complete"] is True
    assert "lightloom report kept" in kept.info["warnings"][0]
    assert program("report", "kept", at=tmp_path).returncode == 0
    assert (tmp_path / "kept" / "report.html").exists()


def test_an_interrupt_before_any_run_is_done_leaves_nothing(tmp_path: Path) -> None:
    code = """
import os, signal, lightloom.simulation as simulation
load = simulation.load_trace
def interrupted(scenario):
    os.kill(os.getpid(), signal.SIGINT)
    return load(scenario)
simulation.load_trace = interrupted
"""
    done = program("compare", *JOB, "--out", "none", at=tmp_path, code=code)
    says = "interrupted: nothing was kept\n"
    assert (done.returncode, done.stdout, done.stderr) == (130, "", says)
    assert list(tmp_path.iterdir()) == []


def test_version_and_help(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = program("--version", at=tmp_path)
    assert (done.returncode, done.stdout) == (0, f"lightloom {lightloom.__version__}\n")
    inner = {
        "spec": ["resolve", "presets"],
        "predict": ["evaluate"],
        "compute": ["measure"],
        "trace": ["record", "import", "generate", "show", "widen"],
        "plan": ["collective", "alltoall", "check", "run"],
        "controller": [
            *("check", "drivers", "status", "circuits", "demand", "events", "page", "serve"),
        ],
        "ocs": ["serve", "counts"],
        "testbed": ["up", "status", "down"],
        "agent": ["serve", "emulate"],
        "soak": ["control"],
        "maps": ["check", "show", "schema"],
        "railx": ["build", "map", "simulate", "cost", "allocate", "decompose"],
    }
    for command in COMMANDS:
        for more in inner.get(command, [None]):
            arguments = [command, *([more] if more else [])]
            assert run([*arguments, "--help"]) == 0
            text = " ".join(capsys.readouterr().out.split())
            assert f"Example: lightloom {' '.join(arguments)}" in text
            # Daemons speak to logs; what agents say and a schema are JSON; shells read scripts.
            without = ("serve", "emulate", "schema")
            assert "--json" in text or more in without or command == "completion"


def test_help_shows_its_brackets(capsys: pytest.CaptureFixture[str]) -> None:
    """Rich would take them for markup and leave them out."""
    assert run(["trace", "record", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "pip install 'torch>=2.4'" in text
    assert "to train on [the Python standard library's sources]" in text
    assert run(["trace", "generate", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "0 is even [1.0]" in text


ONE = [*JOB, "--fabrics", "mixnet", "--bandwidth", "400"]


@pytest.mark.usefixtures("undrawn")
def test_out_of_a_result_keeps_what_a_user_put_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["compare", *ONE, "--out", "mine", "--json"]) == 0
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    capsys.readouterr()
    again = ["compare", *ONE, "--seed", "2", "--out", "mine", "--json"]
    assert run(again) == 2
    assert "mine: holds a Result; allowed: another directory, or --force" in capsys.readouterr().err
    assert lightloom.Result.open("mine").info["seed"] == 1
    assert run([*again, "--force"]) == 0
    assert lightloom.Result.open("mine").info["seed"] == 2
    assert (tmp_path / "mine" / "notes.txt").read_text() == "mine"
    held = {path.name for path in (tmp_path / "mine").iterdir()} - {"notes.txt"}
    assert held == set(lightloom.Result.open("mine").info["files"])


@pytest.mark.usefixtures("undrawn")
def test_another_job_has_another_default_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    few = ["--set", "training.micro_batches=1", "--json"]
    base = ["mixtral-8x7b", "--fabrics", "mixnet", "--bandwidth", "400", "--gpus", "128", *few]
    variants: list[list[str]] = [
        [],
        ["--gpus", "256"],
        ["--fabrics", "topoopt"],
        ["--bandwidth", "200"],
        ["--seed", "2"],
        ["--set", "engine.tolerance=0.01"],
        ["--set", "model.preset=llama-moe", "--set", "parallelism.pp=1"],
    ]
    for variant in variants:  # the last of an option counts
        assert run(["compare", *base, *variant]) == 0
    assert len(list((tmp_path / "results").iterdir())) == len(variants)
    assert run(["compare", *base]) == 0, "the same job again takes its own place"
    assert len(list((tmp_path / "results").iterdir())) == len(variants)
    for seed in ("1", "2", "2"):
        few_of_one = ["mixtral-8x7b", "--set", "cluster.gpus=128", *few, "--seed", seed]
        assert run(["simulate", *few_of_one]) == 0
    places = [path.name for path in (tmp_path / "results").iterdir()]
    assert sum(name.startswith("mixtral-8x7b-on-fat-tree-") for name in places) == 2


def first_lines(place: Path, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """Return the first line of a Result's report on the terminal, and that of its page."""
    capsys.readouterr()
    assert run(["report", str(place)]) == 0
    page = (place / "report.html").read_text(encoding="utf-8")
    (heading,) = re.findall(r"<h1><strong>(.*?)</strong>", page, re.DOTALL)
    return capsys.readouterr().out.splitlines()[0], heading


@pytest.mark.usefixtures("undrawn")
def test_a_reduced_run_says_so_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "few"
    assert run(["compare", *ONE, "--micro-batches", "1", "--out", str(place)]) == 0
    says = "REDUCED: 1 of the job's 4 micro-batches"
    assert capsys.readouterr().out.splitlines()[0] == says
    line, heading = first_lines(place, capsys)
    assert line.startswith(f"{says} · mixtral-8x7b on 128 GPUs")
    assert heading == says.replace("'", "&#x27;")
    job = ["mixtral-8x7b", "--set", "cluster.gpus=128", "--micro-batches", "1"]
    assert run(["simulate", *job, "--out", str(tmp_path / "one")]) == 0
    assert capsys.readouterr().out.startswith("REDUCED: 1 of the job's 16 micro-batches\n")


@pytest.mark.usefixtures("undrawn")
def test_an_interrupted_comparison_says_so_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = lightloom.Scenario.preset("mixtral-8x7b", gpus=128, training={"micro_batches": 4})
    stopped = 0

    def stop_after_one(name: str, share: float) -> None:
        nonlocal stopped
        stopped += share == 1.0
        if stopped > 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match="runs are kept in"):
        lightloom.compare(job, out=tmp_path / "out", on_progress=stop_after_one)
    kept = lightloom.Result.open(tmp_path / "out")
    says = f"INTERRUPTED: {len(kept.rows)} of 20 runs"
    assert kept.title.startswith(f"{says} · mixtral-8x7b on 128 GPUs")
    line, heading = first_lines(tmp_path / "out", capsys)
    assert line == kept.title and heading == says


def test_a_whole_comparison_says_nothing_of_the_kind(compared: Any, place: Path) -> None:
    title = lightloom.Result.open(place / "result").title
    assert title.startswith("mixtral-8x7b on 128 GPUs")


@pytest.mark.usefixtures("undrawn")
def test_the_table_says_what_no_wait_for_circuits_means(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["compare", *ONE, "--out", str(tmp_path / "idle")]) == 0
    says = 'reconf. "-": no iteration waited for circuits that change; '
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith(says)]
    assert line.removeprefix(says).startswith(("none changed", "under compute they did"))


def free(*items: str) -> list[str]:
    """Return settings under which items cost nothing, whatever their rate."""
    rates = ("100 Gbps", "200 Gbps", "400 Gbps", "800 Gbps")
    settings = [f'prices.{item}."{rate}"=0' for item in items for rate in rates]
    settings += ["money.fibre_usd_m=0"]
    return [text for setting in settings for text in ("--set", setting)]


ITEMS = ("nic", "transceiver", "switch_port", "ocs_port", "patch_port")


@pytest.mark.parametrize("items", [ITEMS, ("nic", "transceiver", "switch_port")])
def test_networks_that_cost_nothing(
    items: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    two = [*JOB, "--fabrics", "fat-tree,mixnet", "--bandwidth", "400", *free(*items)]
    assert run(["compare", *two, "--out", str(tmp_path / "out")]) == 0
    out, err = capsys.readouterr()
    rows = lightloom.Result.open(tmp_path / "out").rows
    assert rows[0]["cost_usd"] == rows[0]["network_usd"] == 0
    for ratio in ("perf_per_dollar_vs_fat_tree", "perf_per_network_dollar_vs_fat_tree"):
        assert [row[ratio] for row in rows] == [None, None]
    assert all(row["perf_per_cluster_dollar_vs_fat_tree"] > 0 for row in rows)
    assert (tmp_path / "out" / "report.html").exists()
    named = "fat-tree, mixnet" if items == ITEMS else "fat-tree"
    assert f"warning: prices: the network of {named} costs nothing" in err
    assert "internal" not in err
    first = next(line for line in out.splitlines() if line.split()[:1] == ["400"])
    assert first.split()[-6] == "0.00" or first.split()[-5] == "0.00"
    assert "-" in first.split()[-5:]
    prices = ["cost", *JOB[:3], "--fabrics", "mixnet", "--bandwidth", "400", *free(*items)]
    assert run([*prices, "--json"]) == 0
    text = capsys.readouterr().out
    assert "Infinity" not in text and "NaN" not in text
    ratio = json.loads(text)["rows"][0]["fat_tree_over_this"]
    assert ratio == (None if items == ITEMS else 0)
    assert run(prices) == 0


@pytest.mark.usefixtures("undrawn")
def test_a_graph_of_ones_own_is_part_of_its_comparison(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = str(Path(__file__).parents[1] / "examples" / "own-graph.toml")
    out = ["--out", str(tmp_path / "out"), "--json", "--micro-batches", "1"]
    assert run(["compare", graph, "--bandwidth", "100,400", *out]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    cells = [(row["bandwidth_gbps"], row["fabric"]) for row in rows]
    assert cells == [*((100, name) for name in FABRICS), *((400, name) for name in FABRICS),
                     (400, "two racks")]  # fmt: skip
    assert rows[-1]["perf_per_dollar_vs_fat_tree"] > 0
    assert run(["cost", graph, "--bandwidth", "400", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"][-1]["fabric"] == "two racks"
    result = lightloom.compare(
        graph, bandwidths=100, out=tmp_path / "own", training={"micro_batches": 1}
    )
    assert [row["run"] for row in result.rows][-1] == "two racks@400G"
    assert result.rows[-1]["perf_per_dollar_vs_fat_tree"] is None, "no fat-tree at that rate"
