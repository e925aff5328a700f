"""Measured times beside the flow engine's: the simulated side by other means, and the command."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lightloom
import numpy as np
import pytest
from lightloom.cli import run
from lightloom.rails import Job
from lightloom.rails.runs import run as run_rails
from lightloom.testbed import nics, plots
from lightloom.testbed.collective import between
from lightloom.testbed.comparison import Comparison, Row
from lightloom.testbed.nics import Join, Matrix
from lightloom.testbed.request import Request
from lightloom.testbed.shape import Shape
from lightloom.testbed.specification import specification
from lightloom.units import Rate, Time
from testbed_beds import standing

NAME = f"v{os.getpid() % 1_000_000}"
SHAPE = Shape(
    name=NAME, servers=4, ranks_per_server=2, eps_nics=2, ocs_nics=2,
    rate=Rate.parse("40 Mbps"), delay=Time.parse("5 ms"),
)  # fmt: skip
JOINS: list[Join] = [((0, 0), (1, 1)), ((0, 1), (3, 0)), ((1, 0), (2, 0))]


def recorded(shape: Shape) -> Matrix:
    matrix: Matrix = Request(workload="e8k2", size_bytes=2_000_003).demands(shape)[0]
    return matrix


@pytest.fixture
def payload(monkeypatch: pytest.MonkeyPatch) -> None:
    """NICs count payload alone, as all else in the simulator does."""
    monkeypatch.setattr(nics, "framed", lambda sums, mtu: sums)


def seconds(path: str, chunk_bytes: int, joins: list[Join]) -> float:
    carried = nics.parts(SHAPE, path, recorded(SHAPE), chunk_bytes, joins)
    return nics.seconds(SHAPE, nics.flows(SHAPE, carried))


def test_delegation_takes_as_long_as_on_mixnet(payload: None, tmp_path: Path) -> None:
    """`lightloom collective` on the testbed's own specification, with the same circuits."""
    circuits = tmp_path / "circuits.csv"
    circuits.write_text("".join(f"{one[0]},{other[0]}\n" for one, other in JOINS))
    said = tomllib.loads(specification(SHAPE))
    found = lightloom.collective(
        "all-to-all", spec={key: said[key] for key in ("cluster", "fabric")},
        matrix=recorded(SHAPE), circuits=circuits, engine="flow", progress=False,
    )  # fmt: skip
    assert seconds("delegate", 1, JOINS) == pytest.approx(found.rows[0]["time_s"], rel=2e-3)


@pytest.mark.parametrize("path", ["rails", "stripe", "pxn"])
def test_rails_take_as_long_as_in_the_simulator(path: str, payload: None) -> None:
    """`lightloom rails` of the same demand, on a rail-optimized fabric."""
    scheme = {"rails": "rails", "stripe": "rails-round-robin", "pxn": "rails-pxn"}[path]
    job = Job.of(
        domains=4, gpus_per_domain=2, schemes=scheme, workload="trace:e8k2", size="2000003 B",
        bandwidth=str(SHAPE.rate), engine="flow", chunk="50000 B", queue_pairs=1,
    )  # fmt: skip
    [row] = run_rails(job).rows
    assert seconds(path, 50_000, []) == pytest.approx(row.completion_s, rel=2e-3)


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_nothing_beats_the_busiest_nic_and_every_byte_is_carried(ranks: int) -> None:
    shape = Shape(servers=3, ranks_per_server=ranks, eps_nics=2, ocs_nics=1)
    drawn = np.random.default_rng(ranks).integers(0, 200_001, (3 * ranks, 3 * ranks))
    matrix = drawn.astype(np.uint64)
    for path in nics.RULES:
        sums = nics.flows(shape, nics.parts(shape, path, matrix, 7_001, [((0, 0), (2, 0))]))
        assert sums.sum() == between(matrix, shape).sum()
        counted = nics.framed(sums)
        least = max(counted.sum(axis=0).max(), counted.sum(axis=1).max()) * 8 / int(shape.rate)
        assert least <= nics.seconds(shape, sums) <= 1.5 * least


def compared(ratios: dict[str, list[float]]) -> Comparison:
    rows = [
        Row(path, at, ratio, 1.0, 10**6, 0, None)
        for path, row in ratios.items()
        for at, ratio in enumerate(row)
    ]
    return Comparison(SHAPE, Request(paths=tuple(ratios), count=3), tuple(rows))


def test_gaps_are_to_either_side() -> None:
    found = compared({"rails": [1.1, 0.7, 1.0], "stripe": [1.2, 1.2, 1.2]})
    assert found.median_gap("rails") == pytest.approx(0.1)
    assert found.worst_gap("rails") == pytest.approx(0.3)
    assert found.median_gap() == pytest.approx(0.2) and found.median_ratio() == pytest.approx(1.15)
    assert found.said()["summary"]["stripe"]["worst_gap"] == pytest.approx(0.2)
    left, right = plots.compared(found).axes
    assert len(left.collections) == 2 and len(right.lines) == 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--count", "0"], "--count: 0: must be from 1 to 100000"),
        (["--path", "rails,x"], "--path: x: must be one of delegate, rails"),
        (["--size", "ten"], "--size: ten:"),
        (["--name", "nobody"], "--name: nobody: there is no such testbed"),
    ],
)
def test_bad_input_is_named(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["testbed", "compare", *words]) == 2
    assert said in capsys.readouterr().err


@pytest.fixture(scope="module")
def bed() -> Iterator[Shape]:
    with standing(SHAPE) as shape:
        yield shape


def test_the_command_measures_and_simulates(
    bed: Shape, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    words = ["testbed", "compare", "--name", NAME, "--demand", "e8k2", "--size", "1500001 B"]
    assert run([*words, "--count", "2", "--out", str(out), "--json"]) == 0
    said: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert [(row["path"], row["demand"]) for row in said["rows"]] == [
        (path, at) for path in ("delegate", "rails", "stripe") for at in range(2)
    ]
    for row in said["rows"]:
        # Not faster than NICs are, but for what token buckets let through at once; and on a busy
        # machine not much slower.
        assert 0.9 < row["ratio"] < 3, row
        # Barriers send some, and a busy machine may find other circuits than were said.
        assert row["elsewhere_bytes"] < 1000 or row["path"] == "delegate", row
    assert json.loads((out / "comparison.json").read_text())["rows"] == said["rows"]
    assert (out / "comparison.png").stat().st_size > 10_000
    assert run([*words, "--out", str(out)]) == 2
    capsys.readouterr()
    assert run([*words[:-1], "10 B", "--count", "1"]) == 2
    assert "--size: 10: demand 0 sends" in capsys.readouterr().err
