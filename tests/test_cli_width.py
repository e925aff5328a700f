"""Tables on narrow terminals: they fit, and keep what matters most."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from lightloom import Result, presets
from lightloom.cli import run
from lightloom.report.terminal import PACKETS, render_compare, render_packets
from lightloom.screen import console

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
            "cost_usd": 1234.56e6, "perf_per_dollar_vs_fat_tree": 10.25, "pareto": True,
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
    for heading in ("Gbps", "fabric", "iter", "cost", "perf/$", "Pareto"):
        assert heading in out
    assert out.count("10.25x") == out.count("yes") == 2 * len(names)
    # Names that are folded go on below; nothing but figures stands beside them.
    text = re.sub(r" (\d+\.\d+x?|yes|[18]00)\b", "", out)
    text = re.sub(r"- *\n +", "-", text)
    for name in names:
        assert name in text
    left = re.search(r"left out at \d+ columns: (.*)", out)
    assert (left is None) if width == 100 else (width == 80 or left is not None)
    if left is not None:
        assert set(left[1].split(", ")) <= {"other s", "reconf. s", "compute s"}


def test_the_usual_comparison_is_whole_at_80(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    usual = [{**row, "cost_usd": 18.07e6, "iteration_s": 15.34, "compute_s": 7.79,
              "exposed_a2a_s": 6.3, "exposed_other_s": 1.25} for row in rows(FABRICS)]  # fmt: skip
    render_compare(usual)
    out = capsys.readouterr().out
    assert "left out" not in out and all(name in out for name in FABRICS)
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
