"""``lightloom railx decompose``: rings that join every two nodes, 4 and 6 twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lightloom.cli import run
from lightloom.cli.railx import decompose
from lightloom.railx.systems import TWICE

COMMAND = ["railx", "decompose"]


def arcs(ring: list[int]) -> list[tuple[int, int]]:
    return list(zip(ring, ring[1:] + ring[:1], strict=True))


@settings(max_examples=30)
@given(st.integers(2, 120).filter(lambda nodes: nodes not in TWICE))
def test_each_ordered_pair_is_on_one_ring(nodes: int) -> None:
    rings = decompose._ask(nodes, rings=True)["rings"]
    assert len(rings) == nodes - 1
    assert all(sorted(ring) == list(range(nodes)) for ring in rings)
    every = [arc for ring in rings for arc in arcs(ring)]
    assert len(every) == len(set(every)) == nodes * (nodes - 1)


def test_rings_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*COMMAND, "5"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("5 nodes, 4 rings")
    assert lines[1:] == ["0: 4 0 3 1 2", "1: 4 2 1 3 0", "2: 4 1 0 2 3", "3: 4 3 2 0 1"]
    assert run([*COMMAND, "2"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == ["0: 0 1"]


@pytest.mark.parametrize("nodes", [5, 12])
def test_json_is_what_is_printed(nodes: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*COMMAND, str(nodes)]) == 0
    printed = [line.split()[1:] for line in capsys.readouterr().out.splitlines()[1:]]
    assert run([*COMMAND, str(nodes), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["nodes"] == nodes
    assert answer["rings"] == [[int(node) for node in ring] for ring in printed]


def test_every_number_to_160(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*COMMAND, "--verify", "--max", "160", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["first"], answer["last"], answer["verified"]) == (3, 160, 158)
    assert answer["failed"] == []
    assert answer["slowest"]["seconds"] < 1 and answer["seconds"] < 30


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*COMMAND, "--verify", "--max", "20"]) == 0
    head, odd, even, every = capsys.readouterr().out.splitlines()
    assert head.startswith("3 to 20 nodes")
    assert [row.split()[1:3] for row in (odd, even, every)] == [
        ["9", "9"],
        ["9", "9"],
        ["18", "18"],
    ]


@pytest.mark.parametrize("outcome", ["wrong", "unknown"])
def test_one_that_fails_is_told(
    outcome: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ask = decompose._ask

    def worse(nodes: int, rings: bool) -> dict[str, Any]:
        answer = ask(nodes, rings)
        return answer | {"outcome": outcome, "reason": "of this"} if nodes == 7 else answer

    monkeypatch.setattr(decompose, "_ask", worse)
    assert run([*COMMAND, "--verify", "--max", "9"]) == 1
    assert "7 nodes: of this" in capsys.readouterr().err
    assert run([*COMMAND, "7"]) == 1
    assert "decompose 7: of this" in capsys.readouterr().err


@pytest.mark.parametrize("nodes", TWICE)
def test_the_exceptions_are_covered_twice(nodes: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*COMMAND, str(nodes)]) == 0
    assert "followed by every other on two of them" in capsys.readouterr().out
    assert run([*COMMAND, str(nodes), "--json"]) == 0
    rings = json.loads(capsys.readouterr().out)["rings"]
    assert len(rings) == 2 * (nodes - 1)
    assert all(sorted(ring) == list(range(nodes)) for ring in rings)
    every = [arc for ring in rings for arc in arcs(ring)]
    assert {every.count(arc) for arc in permutations(range(nodes), 2)} == {2}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "either K"),
        (["5", "--verify"], "either K"),
        (["5", "--max", "9"], "--max 9"),
        (["0"], "must be 2 to 1024"),
        (["1025"], "must be 2 to 1024"),
        (["--", "-3"], "must be 2 to 1024"),
        (["five"], "valid integer"),
        (["--verify", "--max", "2"], "--max 2: must be 3 to 1024"),
        (["--verify", "--max", "1025"], "--max 1025: must be 3 to 1024"),
    ],
)
def test_bad_input(arguments: list[str], message: str, refused: Callable[..., str]) -> None:
    assert message in refused(*COMMAND, *arguments)
