"""A job whose first iteration is recorded, and whose later ones follow plans, on optical planes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from lightloom.errors import InputError
from lightloom.runtime.shim import Shim
from lightloom.testbed.shape import Shape
from lightloom.units import Rate, Time
from testbed_beds import standing

NAME = f"i{os.getpid() % 1_000_000}"
SHAPE = Shape(
    name=NAME, servers=4, planes=2, ranks_per_server=1,
    rate=Rate.parse("20 Mbps"), delay=Time.parse("5 ms"),
)  # fmt: skip
# In iteration 2 the last two come in another order, in iteration 3 one has another size.
PROGRAM = """
import numpy as np
from lightloom.runtime import Rank, Shim

def exchange(shim, rank, rows, iteration):
    sent = np.full((rank.size * rows, 3), rank.rank, dtype="int32")
    sent += 10 * np.repeat(np.arange(rank.size), rows)[:, None] + 1000 * iteration
    received = np.empty_like(sent)
    shim.all_to_all(received, sent)
    wanted = np.repeat(np.arange(rank.size), rows)[:, None] + 10 * rank.rank + 1000 * iteration
    assert (received == wanted).all()

def add(shim, rank, count, dtype):
    ours = (np.arange(count) % 100 * (rank.rank + 1)).astype(dtype)
    shim.all_reduce(ours)
    wanted = np.arange(count) % 100 * sum(range(1, rank.size + 1))
    assert (ours == wanted.astype(dtype)).all()

with Rank() as rank, Shim(rank) as shim:
    by_plan = []
    for iteration in range(4):
        before = len(shim.carried)
        with shim.iteration():
            exchange(shim, rank, 2500, iteration)
            if iteration == 2:
                exchange(shim, rank, 1, iteration)
                add(shim, rank, 10_001, "float32")
            else:
                add(shim, rank, 10_001 + (iteration == 3), "float32")
                exchange(shim, rank, 1, iteration)
        by_plan.append(len(shim.carried) - before)
    if rank.rank == 0:
        print(by_plan, [done["without"] for done in shim.carried])
"""


@pytest.fixture(scope="module")
def bed() -> Iterator[Shape]:
    with standing(SHAPE) as shape:
        yield shape


def run(place: Path, name: str) -> subprocess.CompletedProcess[str]:
    file = place / "job.py"
    file.write_text(PROGRAM)
    words = ["testbed", "run", "--name", name, "--", sys.executable, str(file)]
    return subprocess.run(
        [sys.executable, "-m", "lightloom", *words], capture_output=True, text=True
    )


def test_what_was_recorded_goes_by_plan_and_what_differs_goes_without(
    bed: Shape, tmp_path: Path
) -> None:
    done = run(tmp_path, bed.name)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[0, 3, 1, 2] [[], [], [], [], [], []]"
    said = [line for line in done.stderr.splitlines() if line.startswith("lightloom: collective")]
    assert said == [
        "lightloom: collective 1 is an alltoall of 48 B of int32; the first iteration had an"
        " allreduce of 40,004 B of float32: no plan",
        "lightloom: collective 2 is an allreduce of 40,004 B of float32; the first iteration had an"
        " alltoall of 48 B of int32: no plan",
        "lightloom: collective 1 is an allreduce of 40,008 B of float32; the first iteration had an"
        " allreduce of 40,004 B of float32: no plan",
    ]


def test_two_ranks_a_server_have_no_plans(tmp_path: Path) -> None:
    with standing(replace(SHAPE, name=f"{NAME}w", servers=2, ranks_per_server=2)) as shape:
        done = run(tmp_path, shape.name)
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() == "[0, 0, 0, 0] []"
        assert "has no plan: 2 ranks a server; plans are for one" in done.stderr


def test_without_a_planner_there_is_no_shim(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LIGHTLOOM_PLANNER", raising=False)
    with pytest.raises(InputError, match="LIGHTLOOM_PLANNER: is not in the environment"):
        Shim(None)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="is no planner"):
        Shim(None, "nowhere")  # type: ignore[arg-type]
