"""Tables on narrow terminals: they fit, and keep what matters most."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from lightloom import Result, presets, screen
from lightloom.cli import run
from lightloom.papers import PAPERS
from lightloom.papers.frame import load
from lightloom.report.terminal import PACKETS, render_compare, render_packets
from lightloom.screen import Column, console, table

WIDTHS = (60, 80, 100)
FABRICS = ["fat-tree", "fat-tree-3to1", "rail-optimized", "topoopt", "mixnet"]


def rows(names: list[str]) -> list[dict[str, object]]:
    """Make up runs whose figures are as wide as they come."""
    times = dict.fromkeys(
        ("iteration_s", "compute_s", "exposed_a2a_s", "exposed_other_s", "reconfiguration_s"),
        121.76,
    )
    return [
        {
            "run": f"{name}@{rate}G", "fabric": name, "bandwidth_gbps": float(rate), **times,
            "mfu": 0.512, "tokens_per_s": 1.25e9,
            "network_usd": 1234.56e6, "cluster_usd": 4321.09e6, "missing": "watts of NIC 1",
            "perf_per_network_dollar_vs_fat_tree": 9.75, "usd_per_trillion_tokens": 123.4e3,
            "perf_per_cluster_dollar_vs_fat_tree": 10.25, "pareto": True,
            **dict.fromkeys(PACKETS, 123e6),
        }
        for rate in (100, 800)
        for name in names
    ]  # fmt: skip


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("names", [FABRICS, list(presets.names("fabrics"))], ids=["five", "all"])
def test_no_fabric_no_gain_and_no_front_is_lost(
    width: int,
    names: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    render_compare(rows(names))
    out = capsys.readouterr().out
    assert max(len(line.rstrip()) for line in out.splitlines()) <= width
    assert "…" not in out
    for heading in ("Gbps", "fabric", "iter", "netw", "perf/", "clus", "M$"):
        assert heading in out
    assert out.count("10.25x") == out.count("9.75x") == out.count("yes") == 2 * len(names)
    # Names that are folded go on below; nothing but figures stands beside them.
    text = re.sub(r" (\d+\.\d+x?|yes|[18]00)\b", "", out)
    text = re.sub(r"- *\n +", "-", text)
    for name in names:
        assert name in text
    left = re.search(r"left out at \d+ columns: ((?:.|\n)*?)\nperf/", out)
    assert left is not None or width > 60
    if left is not None:
        gone = " ".join(left[1].split()).split(", ")
        speed = {"tokens per s", "MFU %"}
        assert set(gone) <= {*speed, "other s", "reconf. s", "compute s", "k$ per T tokens"}
        # Speed goes before a part of the iteration does.
        assert len(gone) <= 2 or speed <= set(gone)


def test_the_usual_comparison_is_whole_at_80(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    usual = [{**row, "network_usd": 18.07e6, "cluster_usd": 55.3e6, "iteration_s": 15.34,
              "compute_s": 7.79, "exposed_a2a_s": 6.3, "exposed_other_s": 1.25}
             for row in rows(FABRICS)]  # fmt: skip
    render_compare(usual)
    out = capsys.readouterr().out
    # But for speed, which of one job says what its iterations do, and the least causes.
    assert "left out at 80 columns: tokens per s, MFU %, other s, reconf. s" in out.splitlines()
    assert all(name in out for name in FABRICS)
    assert max(len(line.rstrip()) for line in out.splitlines()) <= 80


@pytest.mark.parametrize("width", WIDTHS)
def test_figures_of_packets_fit(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    render_packets(rows(FABRICS))
    out = capsys.readouterr().out
    assert max(len(line.rstrip()) for line in out.splitlines()) <= width
    assert all(name in out for name in FABRICS) and "drops" in out and "…" not in out


@pytest.mark.parametrize("width", WIDTHS)
def test_no_heading_of_a_price_is_cut(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    assert run(["cost", "--gpus", "131072" if width == 60 else "1024"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(len(line.rstrip()) for line in lines) <= width
    text = "\n".join(lines)
    assert "…" not in text and "fat-tree" in text and "NICs" in text and "cost" in text
    assert all(name in text for name in FABRICS)
    if width >= 80:
        heads = " ".join(lines[1:3])
        for word in ("switch", "ports", "OCS", "patch", "known", "kW"):
            assert word in heads
        assert "transceivers" in heads or ("trans-" in heads and "ceivers" in heads)


def test_a_pipe_without_columns_has_a_hundred(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert console().width == 100
    monkeypatch.setenv("COLUMNS", "72")
    assert console().width == 72


def test_a_report_of_a_result_fits_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    out = ["--out", str(tmp_path / "out"), "--fabrics", "rail-optimized", "--bandwidth", "400"]
    assert run(["compare", "mixtral-8x7b", "--gpus", "128", "--micro-batches", "1", *out]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(len(line.rstrip()) for line in lines if str(tmp_path) not in line) <= 60
    assert Result.open(tmp_path / "out").rows[0]["fabric"] in "\n".join(lines)


def test_the_table_says_why_nothing_waits_for_circuits(
    capsys: pytest.CaptureFixture[str],
) -> None:
    (mixnet,) = rows(["mixnet"])[:1]
    render_compare([mixnet])
    assert 'reconf. "-"' not in capsys.readouterr().out
    render_compare([{**mixnet, "reconfiguration_s": 0.0, "reconfigurations": 1234.0}])
    says = "under compute they did: mixnet@100G 1,234 times"
    assert f'reconf. "-": no iteration waited for circuits that change; {says}' in " ".join(
        capsys.readouterr().out.split()
    )
    waits = {**mixnet, "run": "mixnet@25G", "reconfiguration_s": 0.5}
    render_compare([waits, {**mixnet, "reconfiguration_s": 0.0, "reconfigurations": 1234.0}])
    says = (
        'reconf. "-": the iteration did not wait for circuits that change; under compute they did: '
    )
    assert says + "mixnet@100G 1,234 times" in " ".join(capsys.readouterr().out.split())


# Each table of the other commands: what may be left out at 60 columns, and what every width shows.
TABLES: dict[str, tuple[str, tuple[str, ...]]] = {
    "rails --domains 2 --gpus-per-domain 4 --engine flow --size 1MiB --force --out {out}": (
        "p80 p95 share mean sender MSE",
        ("rails", "min-rtt", "ecmp", "all-to-all ms", "over ECMP", "demand allows"),
    ),
    "predict evaluate e8k2 --layers": (
        "top-2 top-4 ports changed ms a load ms a matrix",
        ("previous-iteration", "copilot", "auto", "load error", "over known", "mean"),
    ),
    "trace show e8k2": (
        "pair max/mean",
        ("layer", "max/mean", "worst", "entropy", "drift", "spread", "servers", "top share"),
    ),
    "railx cost": (
        "copper [1000] transc. [1000] switches global [%]",
        ("1:7:49 Tap. 3-Tier FT", "RailX4Mesh", "cost / inject.", "cost / global", "uniform [%]"),
    ),
    "railx cost --chips 100000": (
        "copper [1000] transc. [1000] switches",
        ("3D torus without OCS", "cost / inject.", "cut [%]"),
    ),
    "railx build --mesh 4 --ports 2 --ocs 128 --topology hyperx": (
        "",
        ("throughput by rails, nearest exit", "on the graph", "RailX, Table 2", "k n a link"),
    ),
    "railx decompose --verify --max 12": ("", ("3 to 12 nodes", "verified", "its seconds", "even")),
    "railx map --model mixtral-8x7b --parallelism tp=16,cp=2,ep=8,dp=4,pp=4 --mesh 4 --ports 4 "
    "--ocs 128": ("", ("keys and values", "V printed", "16 x 1 x 1", "Y 16 all to all", "turns")),
    "railx simulate --network mesh --scale 4x4 --load 0.1 --credits link": (
        "", ("offered", "accepted", "99 %", "busiest"),
    ),
    "plan collective --algorithm rabenseifner-allreduce --nodes 8 --size 40MB --planes 2 "
    "--out {plan}": (
        "reconfigured dark time exposed", ("one-shot", "SWOT", "under lockstep", "bound us", "gap"),
    ),
    "plan collective --algorithm best --primitive all-reduce --nodes 8 --size 40MB": (
        "reconfigured dark time exposed over ideal", ("algorithm", "under lockstep", "gap"),
    ),
    "plan show {plan}": ("", ("ready us", "circuits", "the first of them", "0>1, 1>0")),
    "plan show {plan} --node 3": ("", ("peer", "bytes", "after step")),
    "plan run {plan}": ("", ("plane", "busy", "circuits set")),
    "soak control --seeds 20": ("", ("what happened", "scenarios", "times", "plan confirmed")),
    "spec presets": ("", ("mixtral-8x22b", "polatis-measured", "rail-optimized", "prices.preset")),
}  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    place = tmp_path_factory.mktemp("tables")
    plan = place / "plan.json"
    words = shlex.split(next(name for name in TABLES if "{plan}" in name).format(plan=plan))
    with contextlib.redirect_stdout(io.StringIO()):
        assert run(words) == 0
    return {"plan": str(plan), "out": str(place / "out")}


@pytest.mark.parametrize("command", TABLES)
def test_every_table_fits_and_keeps_what_matters(
    command: str,
    made: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    may_go, stays = TABLES[command]
    tables: list[str] = []

    def kept(*arguments: Any) -> Any:
        tables.append((found := table(*arguments)).plain)
        return found

    monkeypatch.setattr(screen, "table", kept)
    for width in (60, 80):
        tables.clear()
        monkeypatch.setenv("COLUMNS", str(width))
        assert run(shlex.split(command.format(**made))) == 0
        out = capsys.readouterr().out
        assert tables and all(shown in out for shown in tables) and "…" not in out
        lines = "\n".join(tables).splitlines()
        assert max(map(len, lines)) <= width, lines
        for part in re.findall(r"[^\s-]+", " ".join(stays)):  # a name may fold at a hyphen
            assert part in "\n".join(lines), (width, part)
        for shown in tables:
            gone = " ".join(shown.partition(f"left out at {width} columns:")[2].split())
            assert all(part in may_go for part in gone.split(", ")), gone


def test_names_that_fold_stay_whole() -> None:
    for paper in PAPERS:
        columns = [Column(heading, name=True) for heading in load(paper).headings]
        row = ["figure 12", "8x22B 400 Gbps", "over fat-tree at 1,024 GPUs", "1.5", "1.1 to 1.62"]
        for width in (60, 80):
            shown = table(columns, [row], width).plain
            assert max(map(len, shown.splitlines())) <= width
            assert all(word in shown for cell in row for word in cell.split())


def test_a_table_that_cannot_fit_is_whole_all_the_same() -> None:
    row = ["123456789"] * 12
    shown = table(["number"] * 12, [row], 60).plain
    assert shown.splitlines()[-1].split() == row


def test_one_helper_makes_all_tables() -> None:
    """Rich sets blocks beside each other (`Table.grid`), and cuts cells of a table too wide."""
    rooms = Path(screen.__file__).parent.rglob("*.py")
    assert [
        path.name for path in rooms if re.search(r"(?<![\w.])Table\(box", path.read_text())
    ] == []
