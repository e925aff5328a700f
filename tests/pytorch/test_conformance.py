"""Every operation, on gloo and on lightloom: the same bits where the order of sums allows."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import cases_models  # noqa: F401
import cases_moves  # noqa: F401
import cases_reductions  # noqa: F401
import pytest
import torch
from case import CASES, Case
from loopback import RANKS, run, runtimes
from table import said, table

HERE = Path(__file__).parent
PAGE = Path(__file__).parents[2] / "docs" / "torch.md"
SEQUENCES = int(os.environ.get("LIGHTLOOM_TORCH_SEQUENCES", "100"))
# By case: what each rank got and what is right, or the error.
Outcomes = list[dict[str, Any]]


def carried_out(place: Path, backend: str) -> Outcomes:
    place.mkdir()
    program = [sys.executable, str(HERE / "program.py"), backend, str(place)]
    with runtimes(place) as sockets:
        for code, words in run(place, sockets, program, 300):
            assert code == 0, words[-2000:]
    return [torch.load(place / f"{backend}-{rank}.pt") for rank in range(RANKS)]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Outcomes, Outcomes]]:
    place = tmp_path_factory.mktemp("conformance")
    with ThreadPoolExecutor() as both:
        ours, gloos = both.map(
            lambda backend: carried_out(place / backend, backend), ("lightloom", "gloo")
        )
    yield ours, gloos


def alike(one: list[torch.Tensor], other: list[torch.Tensor], exact: bool) -> None:
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        if exact or not a.numel():
            assert torch.equal(a, b), (a, b)
        else:
            # Four numbers are added in another order, and rounded each time.
            most = 16 * torch.finfo(a.dtype).eps * max(1.0, float(b.abs().max()))
            torch.testing.assert_close(a, b, rtol=0, atol=most)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_operation_gives_what_is_right_and_what_gloo_gives(
    outcomes: tuple[Outcomes, Outcomes], case: Case
) -> None:
    for ours, gloos in zip(*outcomes, strict=True):
        mine, theirs = ours[case.name], gloos[case.name]
        assert not isinstance(mine, str), mine
        got, right = mine
        alike(got, right, case.exact)
        if not isinstance(theirs, str):
            alike(got, theirs[0], case.exact)


def test_the_page_has_the_table(outcomes: tuple[Outcomes, Outcomes]) -> None:
    refused = {name for gloos in outcomes[1] for name, it in gloos.items() if isinstance(it, str)}
    now = table(CASES, refused)
    assert now in PAGE.read_text(encoding="utf-8"), f"{PAGE.name} must have:\n{now}"
    assert said(CASES) > 100


def test_random_sequences_of_operations_on_several_groups(tmp_path: Path) -> None:
    program = [sys.executable, str(HERE / "sequences.py"), str(SEQUENCES), "0"]
    with runtimes(tmp_path) as sockets:
        ends = run(tmp_path, sockets, program, 120 + 2 * SEQUENCES)
    assert [code for code, _ in ends] == [0] * RANKS, ends
    assert f"{SEQUENCES} sequences are right" in ends[0][1]
