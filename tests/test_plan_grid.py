"""Plans over grids: each dimension has planes of its own, and all are busy at once."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from itertools import combinations_with_replacement, product
from math import prod
from pathlib import Path
from typing import Any

import pytest
from lightloom import plan
from lightloom.cli import run
from lightloom.collectives import program
from lightloom.errors import InputError
from lightloom.maps import PortMaps
from lightloom.maps import read as read_maps
from lightloom.plan import grid
from lightloom.plan.collective import COMPARED, best, candidates
from test_plan_msccl import check as check_msccl

GRID = [
    "plan", "collective", "--algorithm", "rabenseifner-allreduce", "--nodes", "16", "--size",
    "16 MB", "--grid", "4x4", "--planes", "2,2", "--reconfiguration", "20 us",
]  # fmt: skip
ALGORITHMS = ("rabenseifner-allreduce", "ring-allreduce", "pairwise-alltoall", "ring-allgather",
              "rabenseifner-reduce-scatter", "recursive-doubling-allreduce")  # fmt: skip


def job(name: str, nodes: int = 16, size: str = "16 MB", **more: Any) -> plan.Job:
    return plan.Job.of(name, nodes=nodes, size=size, reconfiguration="20 us", **more)


def made(name: str, scheduler: str = "swot", **more: Any) -> plan.Plan:
    found = plan.plan_collective(job(name, **more), plan=scheduler).plan
    assert found is not None
    return found


@pytest.mark.parametrize("scheduler", ["swot", "lockstep", "one-shot"])
@pytest.mark.parametrize("lines", ["4x4", "2x2x4", "2x8"])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_plans_are_valid_and_run_as_planned(name: str, lines: str, scheduler: str) -> None:
    where = {"grid": lines, "planes": 6}
    outcome = plan.plan_collective(job(name, **where), plan=scheduler)
    if outcome.plan is None:
        assert "in dimension" in (outcome.row("one-shot").infeasible or "")
        return
    found = outcome.plan
    assert found.version == 2 and found.check() == found.completion
    ran = found.run()
    assert ran["completion_ps"] == ran["planned_ps"] == found.completion_ps
    ideal = outcome.row("ideal").completion_ps
    assert ideal is not None and found.completion_ps >= found.bound_ps
    assert found.completion_ps >= ideal
    try:
        check_msccl(found.msccl())
    except InputError as error:
        assert "MSCCL has" in str(error) and name.startswith("recursive-doubling")


def test_a_file_of_a_grid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, maps = tmp_path / "plan.json", tmp_path / "maps.json"
    assert run([*GRID, "--out", str(file), "--maps", str(maps), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["grid"] == [[4, 2], [4, 2]]
    read = plan.read(file)
    assert [(one.nodes, one.planes) for one in read.machine.grid] == [(4, 2), (4, 2)]
    again = tmp_path / "again.json"
    read.write(again)
    assert again.read_text() == file.read_text()
    assert run(["plan", "show", str(file)]) == 0
    assert "grid 4x4 with 2 + 2 planes" in capsys.readouterr().out
    # A switch for each line: node 6 is at 2 in the first dimension, at 1 in the second.
    devices = {one.device: one for one in read_maps(maps).devices}
    assert len(devices) == 4 * 4
    assert devices["plane 0, line 1"].ports == (0, 3)
    assert (2, 6, 0) in devices["plane 0, line 1"].attached
    assert (1, 6, 3) in devices["plane 3, line 2"].attached
    # What they leave is what another collective begins with.
    for source in (file, maps):
        assert run([*GRID, "--initial", str(source)]) == 0
    assert run([*GRID[:6], *GRID[6:8], "--initial", str(maps)]) == 2
    assert "devices: must be 4, one a plane" in capsys.readouterr().err


def test_a_program_of_a_grid(tmp_path: Path) -> None:
    found = made("ring-allreduce", grid="4x4", planes=2)
    found.write(file := tmp_path / "plan.json")
    messages = program.read_program(file, "all-reduce", 16, 16_000_000)
    sent = sum(one.bytes for node in found.nodes for one in node.transmissions)
    assert sum(size for *_, size in messages.messages) == sent == 16 * 2 * 15 * 1_000_000


def changed(tree: dict[str, Any], change: Callable[[dict[str, Any]], None]) -> str:
    other = copy.deepcopy(tree)
    change(other)
    return json.dumps(other)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda t: t.update(version=1), "version = 1: must be 2 with machine.grid"),
        (lambda t: t["machine"].update(grid=[]), "version = 2: must be 2 with machine.grid"),
        (lambda t: t["machine"]["grid"][0].update(nodes=8), "the grid is [8, 4]"),
        (lambda t: t["machine"]["grid"][0].update(planes=1), "the grid is not of 16 nodes"),
        (lambda t: t["machine"]["grid"].pop(), "the grid is not of 16 nodes"),
        (lambda t: t["machine"].update(grid=[{"nodes": 16, "planes": 4}]), "one dimension"),
        (lambda t: t["planes"][0].update(initial=[5, 0, 3, 2, 1, *range(4, 4), *[-1] * 11]),
         "is in no line of the plane's dimension"),
        (lambda t: t["planes"].__setitem__(0, t["planes"][2] | {"plane": 0}),
         "is in no line of the plane's dimension"),
        (lambda t: t["nodes"][0]["transmissions"][0].update(after_step=None), "does not wait"),
    ],
)  # fmt: skip
def test_a_grid_that_cannot_be(
    change: Callable[[dict[str, Any]], None], named: str, refused: Callable[..., str]
) -> None:
    tree = json.loads(made("rabenseifner-allreduce", grid="4x4", planes=4).model_dump_json())
    later = tree["nodes"][0]["transmissions"]
    later.sort(key=lambda one: one["after_step"] is None)
    Path("bad.json").write_text(changed(tree, change))
    assert named in refused("plan", "check", "bad.json")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--grid", "4x8"], 'grid "4x8": makes 32 nodes, not 16'),
        (["--grid", "16x1"], "2 nodes or more in each dimension"),
        (["--grid", "4,4"], 'grid "4,4": must be like 8x8'),
        (["--grid", "4x"], 'grid "4x": must be like 8x8'),
        (["--planes", "2,2,2"], "for each of 2 dimensions, such as 2,2"),
        (["--planes", "3"], "or a multiple of 2"),
        (["--planes", "4,0"], "must be 1 or more"),
        (["--planes", "33,33"], "planes = 66: must be 1 to 64"),
        (["--planes", "many"], 'planes "many": must be like 4'),
        (["--grid", "auto"], "one number a dimension needs a grid"),
        (["--grid", "auto", "--planes", "64", "--nodes", "4096"], "more than 4096 grids"),
        (["--algorithm", "double-tree-allreduce"], "does not go over a grid; allowed: ring"),
        (["--algorithm", "binomial-broadcast"], "allowed: another primitive"),
        (["--algorithm", "recursive-halving-reduce-scatter", "--nodes", "12", "--grid", "3x4"],
         "powers of two"),
        (["--algorithm", "best", "--primitive", "broadcast"], "no algorithm of it goes over"),
        (["--algorithm", "bruck-alltoall:5"], "the radix is 5; allowed: 2 to"),
        (["--scheduler", "one-shot", "--planes", "1,1", "--out", "x.json"], "in dimension 0"),
    ],
)  # fmt: skip
def test_bad_grids_are_one_message(
    arguments: list[str], named: str, refused: Callable[..., str]
) -> None:
    assert named in refused(*GRID, *arguments)


def test_circuits_of_another_grid(tmp_path: Path, refused: Callable[..., str]) -> None:
    """A plan of one grid leaves circuits that planes of another cannot hold."""
    maps = made("ring-allreduce", grid="8x2", planes=4).port_maps()
    maps.write(file := tmp_path / "maps.json")
    assert "must be in a line of the plane's dimension" in refused(*GRID, "--initial", str(file))
    PortMaps.of("a test", maps.devices).write(file)
    said = refused(*GRID, "--grid", "auto", "--planes", "4", "--initial", str(file))
    assert "--grid auto tries several" in said or "devices: must be 4" in said


def test_one_dimension_is_no_grid() -> None:
    flat = plan.plan_collective(job("rabenseifner-allreduce"), plan="swot")
    line = plan.plan_collective(job("rabenseifner-allreduce", grid="16", planes="4"), plan="swot")
    assert line == flat and line.plan is not None and line.plan.version == 1


@pytest.mark.parametrize("name", ["rabenseifner-allreduce", "pairwise-alltoall"])
def test_the_order_of_dimensions_does_not_matter(name: str) -> None:
    for lines, planes in [((2, 8), (1, 2)), ((2, 4, 4), (1, 2, 1)), ((3, 4), (2, 1))]:
        found = set()
        for turn in range(len(lines)):
            grid_of = "x".join(str(n) for n in lines[turn:] + lines[:turn])
            counts = ",".join(str(n) for n in planes[turn:] + planes[:turn])
            size = f"{720 * 8}kB"
            rows = plan.plan_collective(
                job(name, prod(lines), size, grid=grid_of, planes=counts)
            ).rows
            found.add(tuple((row.completion_ps, row.bound_ps) for row in rows))
        assert len(found) == 1, (lines, found)


def test_dimensions_work_at_once() -> None:
    """A ring in each of two dimensions never switches, and keeps all planes busy."""
    outcome = plan.plan_collective(job("ring-allreduce", latency="0 us", grid="4x4", planes=4))
    # 2 x 15/16 of 16 MB at 800 Gbps.
    ends = {row.scheduler: row.completion_ps for row in outcome.rows}
    assert ends == dict.fromkeys(COMPARED, 300_000_000)
    assert all(row.switches == 0 for row in outcome.rows)


def test_every_grid_is_found() -> None:
    for nodes, planes in [(12, 4), (16, 3), (36, 5), (7, 2)]:
        pairs = list(product(range(2, nodes + 1), range(1, planes + 1)))
        all_cuts = {
            cut
            for m in range(2, planes + 1)
            for cut in combinations_with_replacement(pairs, m)
            if prod(n for n, _ in cut) == nodes and sum(k for _, k in cut) == planes
        } if nodes < 30 else None  # fmt: skip
        found = grid.every(nodes, planes)
        assert len(set(found)) == len(found)
        assert all_cuts is None or set(found) == all_cuts


def test_the_best_grid(capsys: pytest.CaptureFixture[str]) -> None:
    base = job("ring-allreduce", size="256 kB", planes=4)
    jobs = candidates(base, "all-reduce", True)
    rows, chosen = best(jobs, scheduler="swot")
    assert chosen is not None and chosen.planes.grid
    for one in jobs:
        for row in plan.plan_collective(one, schedulers=("one-shot", "lockstep", "ideal")).rows:
            least = rows[row.scheduler].completion_ps
            assert row.completion_ps is None or (least or 0) <= row.completion_ps
    flat, _ = best(candidates(base, "all-reduce", False))
    for name in COMPARED:
        assert (rows[name].completion_ps or 0) <= (flat[name].completion_ps or 1 << 62)
    given = candidates(base, None, True)
    assert {one.algorithm for one in given} == {"ring-allreduce"} and len(given) > 3
    trees = candidates(job("double-tree-allreduce", planes=4), None, True)
    assert [one.planes.grid for one in trees] == [()]
    auto = ["plan", "collective", "--algorithm", "best", "--primitive", "all-reduce", "--nodes",
            "16", "--size", "256 kB", "--reconfiguration", "20 us", "--grid", "auto"]  # fmt: skip
    assert run(auto) == 0
    assert f"best: {rows['swot'].algorithm} by SWOT" in capsys.readouterr().out
