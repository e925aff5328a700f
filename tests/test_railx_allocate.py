"""Failed nodes: the largest job against HiGHS, several jobs, files of faults, the command."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from lightloom.cli import run
from lightloom.errors import InputError
from lightloom.oracle.railx import largest
from lightloom.papers.part import Context
from lightloom.papers.railx import figure17
from lightloom.railx.availability import aligned, apart, sample
from lightloom.railx.faults import Job, allocate, read_faults, read_jobs


def clustered(faults: list[tuple[int, int]]) -> int:
    rows, columns = [fault[0] for fault in faults], [fault[1] for fault in faults]
    return sum(rows.count(row) > 1 or columns.count(column) > 1 for row, column in faults)


def draw(seed: int) -> tuple[int, int, list[tuple[int, int]]]:
    """Draw a grid of up to 64 x 64 with faults, at most 20 of them not isolated."""
    rng = np.random.default_rng(seed)
    while True:
        rows, columns = (int(side) for side in rng.integers(4, 65, 2))
        count = int(rng.integers(0, min(40, rows * columns)))
        at = rng.choice(rows * columns, count, replace=False)
        faults = [(int(node) // columns, int(node) % columns) for node in at]
        if clustered(faults) <= 20:
            return rows, columns, faults


def agree(seeds: range) -> None:
    for seed in seeds:
        rows, columns, faults = draw(seed)
        found, exact = allocate(rows, columns, faults), largest(rows, columns, faults)
        said = f"seed {seed}: {columns} x {rows}, {faults}"
        assert found.algorithm_2 == found.largest.nodes == found.bound == exact.nodes, said
        kept = {(r, c) for r in found.largest.rows for c in found.largest.columns}
        assert not kept & set(faults), said


def test_algorithm_2_is_the_optimum() -> None:
    agree(range(30))


@pytest.mark.soak
def test_algorithm_2_is_the_optimum_200_times() -> None:
    agree(range(1000, 1200))


@pytest.mark.parametrize("count", [40, 80, 160])
def test_more_faults_than_algorithm_2_can_take(count: int) -> None:
    rng = np.random.default_rng(count)
    faults = [divmod(int(node), 64) for node in rng.choice(64 * 64, count, replace=False)]
    found, exact = allocate(64, 64, faults), largest(64, 64, faults).nodes
    assert found.algorithm_2 is None
    assert found.largest.nodes <= exact <= found.bound
    # Sparse faults fall into small groups, which are solved exactly; dense ones come near.
    assert found.largest.nodes == exact if count == 40 else found.largest.nodes >= 0.97 * exact


def test_tenants_use_what_one_job_cannot() -> None:
    faults = [(3 * i, 5 * i) for i in range(12)]
    one = allocate(64, 64, faults)
    assert one.largest.nodes == 58 * 58
    many = allocate(64, 64, faults, [None] * 13)
    assert many.used == many.healthy == 4096 - 12
    taken = set(faults)
    for job in many.jobs:
        assert job is not None
        nodes = {(row, column) for row in job.rows for column in job.columns}
        assert len(nodes) == job.nodes and not nodes & taken
        taken |= nodes


def test_a_mix_of_jobs_fills_the_grid() -> None:
    faults = [(3 * i, 5 * i) for i in range(12)]
    jobs: list[Job] = [(16, 16)] * 6 + [(32, 8)] * 4 + [(8, 8)] * 12 + [100] * 4
    found = allocate(64, 64, faults, [*jobs, None, None, None])
    assert all(found.jobs[: len(jobs)]) and found.used >= 0.97 * found.healthy
    for job, placed in zip(jobs, found.jobs, strict=False):
        assert placed is not None
        sides = sorted((len(placed.columns), len(placed.rows)))
        assert placed.nodes == job if isinstance(job, int) else sides == sorted(job or ())


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("f.txt", "1,2\n1 2\n", "line 2: row 1, column 2: is there twice, first in line 1"),
        ("f.txt", "0,0\n\n64,1\n", "line 3: row = 64: is outside the grid; must be from 0 to 63"),
        ("f.txt", "3,64", "line 1: column = 64: is outside the grid; must be from 0 to 63"),
        ("f.csv", "row,column\n1,a\n", "line 2: 1,a: must be a row and a column, such as 3,5"),
        ("f.txt", "-1,2", "line 1: -1,2: must be a row and a column, such as 3,5"),
        ("f.txt", b"\xff\xfe", "byte 0: not UTF-8 text"),
        ("f.json", "[[1, 2],\n[3", "line 2: not JSON: Expecting ',' delimiter"),
        ("f.json", "[[1, 2], [3]]", "entry 2: [3]: must be a list of [row, column], from 0"),
        ("f.json", "[[true, 2]]", "entry 1: [True, 2]: must be a list of [row, column], from 0"),
        ("f.json", "{}", "line 1: {}: must be a list of [row, column]"),
        ("f.json", "[" * 100_000, "not JSON that can be read; must be a list of [row, column]"),
    ],
)
def test_bad_files_are_named(tmp_path: Path, name: str, text: str | bytes, said: str) -> None:
    file = tmp_path / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError) as caught:
        read_faults(file, 64, 64)
    assert str(caught.value) == f"{file}: {said}"


def test_files_are_read_alike(tmp_path: Path) -> None:
    texts = {
        "a.txt": "# Monday\n3 5\n0,63  # again\n",
        "b.csv": "row,column\n3,5\n0,63\n",
        "c.json": '[[3, 5], {"row": 0, "column": 63}]',
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        assert read_faults(tmp_path / name, 64, 64) == [(3, 5), (0, 63)]


@pytest.mark.parametrize("text", ["", "0x3", "3x", "x", "16x16*0", "8x8*2000", "1,,2", "-3", "4.5"])
def test_bad_jobs_are_named(text: str) -> None:
    with pytest.raises(InputError, match="--jobs"):
        read_jobs(text)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, picture = tmp_path / "faults.txt", tmp_path / "grid.png"
    file.write_text("1,2\n1,5\n6,1\n6,7\n", encoding="utf-8")
    command = ["railx", "allocate", "--faults", str(file), "--grid", "8"]
    assert run([*command, "--exact", "--png", str(picture)]) == 0
    out = capsys.readouterr().out
    assert "largest single job: 8 x 6 = 48 nodes, 75.0% of all; HiGHS: 48, the same" in out
    assert "\noooooooo\n--x--x--\n" in out and picture.stat().st_size > 1000
    assert run([*command, "--jobs", "largest*3", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["used"], answer["healthy"], answer["packing_bound"]) == (60, 60, 60)
    assert [job["placed"]["nodes"] for job in answer["jobs"]] == [48, 6, 6]
    assert run([*command, "--jobs", "9x9,4x4"]) == 0
    out = capsys.readouterr().out
    assert "1 of 2 jobs placed on 16 nodes" in out and "a  9x9: no room" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--ocs", "7"], "--ocs 7: must be even"),
        (["--ocs", "2"], "line 2: column = 5: is outside the grid; must be from 0 to 0"),
        (["--grid", "8", "--ocs", "16"], "--grid 8: --ocs gives the grid already"),
        (["--grid", "8x0"], '--grid "8x0": must be nodes along a side'),
        (["--png", "/nowhere/at/all.png"], "--png /nowhere/at/all.png: must be a file *.png"),
        (["--png", "grid.pdf.zip"], "--png grid.pdf.zip: must be a file *.png"),
        (["--jobs", "big"], '--jobs "big": must be columns x rows'),
    ],
)
def test_bad_options(arguments: list[str], said: str, refused: Callable[..., str]) -> None:
    Path("faults.txt").write_text("0,0\n0,5\n", encoding="utf-8")
    assert said in refused("railx", "allocate", "--faults", "faults.txt", *arguments)


def test_availability_is_figure_17s() -> None:
    # The worst case at 0.1 %; random faults come near it.
    for side, share in ((64, 0.938), (100, 0.9025), (128, 0.879), (160, 0.844)):
        faults = round(side**2 / 1000)
        worst, found = apart(side, faults), sample(side, faults)
        assert worst / side**2 == pytest.approx(share, abs=0.0005)
        assert worst <= found.least <= found.mean <= found.most <= aligned(side, faults)
        assert found.mean / side**2 <= share + 0.025 and found.optimal == 1.0
    assert sample(64, 20) == sample(64, 20) != sample(64, 20, seed=2)


@pytest.mark.soak
def test_figure_17_has_all_points() -> None:
    shares: list[float] = []
    (part,) = figure17.parts()
    rows = part.run(Context(shares.append))
    assert shares == sorted(shares) and shares[-1] == 1.0
    for panel, curves in (("a", 4), ("b", 5)):
        assert len({row["series"] for row in rows if row["panel"] == panel}) == curves
    for series in {row["series"] for row in rows}:
        curve = [(row["x"], row["y"]) for row in rows if row["series"] == series]
        if "least" not in series and "0.1 %" not in series:
            assert [x for x, _ in curve] == sorted(x for x, _ in curve), series
            assert [y for _, y in curve] == sorted((y for _, y in curve), reverse=True), series
    assert sum("paper" in row for row in rows) == 8


@pytest.mark.parametrize(
    ("side", "faults", "samples", "said"),
    [
        (0, 0, 1, "side = 0: must be from 1 to 4096"),
        (4, 17, 1, "faults = 17: must be from 0 to 16"),
        (4, 1, 0, "samples = 0: must be from 1 to 1000000"),
    ],
)
def test_samples_that_cannot_be(side: int, faults: int, samples: int, said: str) -> None:
    with pytest.raises(InputError) as caught:
        sample(side, faults, samples=samples)
    assert str(caught.value) == said
