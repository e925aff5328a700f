"""What a command line says twice, or says and nothing reads: refused, with both named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from lightloom.cli import run

MODEL = "mixtral-8x7b"
FAIL = "nic:server3.nic2@1.2s"

CONTRADICTIONS = {
    "gpus": (
        ["compare", MODEL, "--gpus", "128", "--set", "cluster.gpus=256"],
        '--gpus 128 and --set "cluster.gpus=256": two values for cluster.gpus; allowed: one',
    ),
    "gpus of a price": (
        ["cost", MODEL, "--gpus", "128", "--set", "cluster.gpus=256"],
        '--gpus 128 and --set "cluster.gpus=256": two values for cluster.gpus',
    ),
    "size": (
        ["collective", "all-reduce", "--size", "2MiB", "--set", "collective.size=1MiB"],
        '--size 2MiB and --set "collective.size=1MiB": two values for collective.size',
    ),
    "fabric": (
        ["collective", "all-reduce", "--fabric", "mixnet", "--set", "fabric.preset=fat-tree"],
        '--fabric mixnet and --set "fabric.preset=fat-tree": two values for fabric.preset',
    ),
    "engine": (
        ["compare", MODEL, "--engine", "packet", "--set", "engine.kind=flow"],
        '--engine packet and --set "engine.kind=flow": two values for engine.kind',
    ),
    "engine as a table": (
        ["simulate", MODEL, "--engine", "packet", "--set", 'engine={kind="flow"}'],
        "two values for engine.kind",
    ),
    "transport": (
        [
            *("simulate", MODEL, "--engine", "packet", "--transport", "ndp"),
            *("--set", "engine.transport.kind=spray"),
        ],
        '--transport ndp and --set "engine.transport.kind=spray"',
    ),
    "balancer": (
        [
            *("simulate", MODEL, "--engine", "packet", "--balancer", "reps"),
            *("--set", 'engine.balancer."kind"=ecmp'),
        ],
        "two values for engine.balancer.kind",
    ),
    "seed": (
        ["simulate", MODEL, "--seed", "2", "--set", "seed=3"],
        '--seed 2 and --set "seed=3": two values for seed',
    ),
    "oversize": (
        ["simulate", MODEL, "--allow-oversize", "--set", "memory.oversize=refuse"],
        '--allow-oversize and --set "memory.oversize=refuse": two values for memory.oversize',
    ),
    "bandwidth": (
        ["compare", MODEL, "--bandwidth", "200,400", "--set", "fabric.link_bandwidth=100 Gbps"],
        '--bandwidth 200 Gbps,400 Gbps and --set "fabric.link_bandwidth=100 Gbps"',
    ),
    "bandwidth of a price": (
        ["cost", MODEL, "--bandwidth", "200", "--set", "fabric.link_bandwidth=100 Gbps"],
        "two values for fabric.link_bandwidth",
    ),
    "bandwidth of a part": (
        [
            *("compare", MODEL, "--bandwidth", "200", "--set", "fabric.preset=mixnet"),
            *("--set", "fabric.ocs.link_bandwidth=100 Gbps"),
        ],
        "--bandwidth 200 Gbps and --set fabric.ocs.link_bandwidth: ",
    ),
    "fabrics": (
        ["compare", MODEL, "--fabrics", "fat-tree,topoopt", "--set", "fabric.preset=mixnet"],
        '--fabrics fat-tree,topoopt and --set "fabric.preset=mixnet"',
    ),
    "a setting of a fabric that is left out": (
        ["compare", MODEL, "--fabrics", "topoopt", "--set", "fabric.oversubscription=2"],
        '--fabrics topoopt and --set fabric.oversubscription: the setting is of "fat-tree"',
    ),
    "a kind of fabric that is left out": (
        ["cost", MODEL, "--fabrics", "topoopt", "--set", "fabric.kind=mixnet"],
        '--fabrics topoopt and --set fabric.kind: the setting is of "mixnet"',
    ),
    "fail": (
        ["simulate", MODEL, "--fail", FAIL, "--set", "failures=[]"],
        f'--fail {FAIL} and --set "failures=[]": two values for failures',
    ),
    "set": (
        ["simulate", MODEL, "--set", "seed=2", "--set", "seed=3"],
        '--set "seed=2" and --set "seed=3": two values for seed',
    ),
    "set of a specification": (
        ["spec", "resolve", MODEL, "--set", "seed=2", "--set", "seed=3"],
        '--set "seed=2" and --set "seed=3": two values for seed',
    ),
    "more micro-batches than there are": (
        ["compare", MODEL, "--micro-batches", "99"],
        "--micro-batches 99: the job has training.micro_batches = 16; allowed: 1 to 16, or "
        "--set training.micro_batches=99",
    ),
    "more micro-batches than --set gives": (
        ["simulate", MODEL, "--micro-batches", "5", "--set", "training.micro_batches=4"],
        "--micro-batches 5: the job has training.micro_batches = 4",
    ),
}


@pytest.mark.parametrize("case", CONTRADICTIONS)
def test_a_contradiction_is_refused(case: str, refused: Callable[..., str]) -> None:
    arguments, says = CONTRADICTIONS[case]
    assert says in refused(*arguments)


def test_the_same_twice_is_no_contradiction(capsys: pytest.CaptureFixture[str]) -> None:
    same = ["--gpus", "128", "--set", "cluster.gpus=128", "--set", "cluster={gpus=128}"]
    rate = ["--bandwidth", "400", "--set", "fabric.link_bandwidth=0.4 Tbps"]
    chosen = ["--fabrics", "fat-tree,mixnet", "--set", "fabric.preset=mixnet"]
    assert run(["cost", MODEL, *same, *rate, *chosen, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(r["fabric"], r["bandwidth_gbps"], r["gpus"]) for r in rows] == [
        ("fat-tree", 400, 128),
        ("mixnet", 400, 128),
    ]


def test_a_rate_that_is_set_is_the_rate(capsys: pytest.CaptureFixture[str]) -> None:
    """Without --bandwidth, whose default would hide it."""
    assert run(["cost", MODEL, "--set", "fabric.link_bandwidth=200 Gbps", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {row["bandwidth_gbps"] for row in rows} == {200}


def test_as_many_micro_batches_as_there_are_are_not_fewer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    few = ["--set", "training.micro_batches=1", "--set", "cluster.gpus=128", "--micro-batches", "1"]
    assert run(["simulate", MODEL, *few]) == 0
    out, err = capsys.readouterr()
    assert "reduced" not in out + err


def test_an_engine_that_there_is_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in (["--engine", "warp"], ["--set", "engine.kind=warp"]):
        assert run(["compare", MODEL, *arguments]) == 2
        assert capsys.readouterr().err == (
            'error: command line: engine.kind = "warp": unknown kind; allowed: flow, packet, flit\n'
        )
