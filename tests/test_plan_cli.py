"""``lightloom plan``: schedulers side by side, plans written, checked, shown and carried out."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lightloom import plan
from lightloom.cli import run
from lightloom.maps import Device, PortMaps

WORKED = [
    "plan", "collective", "--algorithm", "rabenseifner-allreduce", "--nodes", "8", "--size",
    "40MB", "--planes", "2", "--node-bandwidth", "800 Gbps", "--reconfiguration", "200 us",
    "--latency", "0 us",
]  # fmt: skip


def rows_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, dict[str, Any]]:
    assert run([*arguments, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    return {row["scheduler"]: row for row in answer["rows"]}


def us(row: dict[str, Any]) -> float:
    return float(row["completion_ps"]) / 1e6


def test_the_worked_example(capsys: pytest.CaptureFixture[str]) -> None:
    rows = rows_of(capsys, *WORKED)
    assert rows["one-shot"]["completion_ps"] is None
    assert "needs 3 planes" in rows["one-shot"]["infeasible"]
    assert (us(rows["lockstep"]), us(rows["ideal"]), us(rows["swot"])) == (1500, 700, 1200)
    assert rows["swot"]["gap"] == 0 and rows["lockstep"]["exposed"] == 1.0
    assert run(WORKED) == 0
    out = capsys.readouterr().out
    assert "1,500" in out and "1,200" in out and "needs 3 planes" in out


def test_every_output_of_a_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {name: tmp_path / f"plan.{name}" for name in ("json", "perfetto", "png", "xml")}
    outputs = ["--out", str(files["json"]), "--perfetto", str(files["perfetto"]),
               "--gantt", str(files["png"]), "--msccl", str(files["xml"])]  # fmt: skip
    assert run([*WORKED, *outputs]) == 0
    assert capsys.readouterr().err.count("wrote ") == 4
    assert files["png"].read_bytes().startswith(b"\x89PNG")
    assert files["xml"].read_text().startswith("<algo ")
    events = json.loads(files["perfetto"].read_text())["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    dark = [event for event in slices if event["name"] == "dark"]
    assert len(dark) == 4 and all(event["dur"] == 200 for event in dark)
    assert max(event["ts"] + event["dur"] for event in slices) == 1200
    assert run(["plan", "check", str(files["json"])]) == 0
    assert "valid" in capsys.readouterr().out
    assert run(["plan", "show", str(files["json"])]) == 0
    assert "0>2" in capsys.readouterr().out
    assert run(["plan", "show", str(files["json"]), "--node", "3"]) == 0
    assert "15,000,000" in capsys.readouterr().out
    assert run(["plan", "run", str(files["json"])]) == 0
    assert "as planned, to the picosecond" in capsys.readouterr().out
    assert run(["plan", "run", str(files["json"]), "--json"]) == 0
    ran = json.loads(capsys.readouterr().out)
    assert ran["completion_ps"] == ran["planned_ps"] == 1_200_000_000
    assert sum(plane["bytes"] for plane in ran["planes"]) == 8 * 70_000_000


def test_what_msccl_cannot_say_is_refused_after_the_rest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, xml = tmp_path / "plan.json", tmp_path / "plan.xml"
    job = ["--algorithm", "pairwise-alltoall", "--nodes", "65", "--size", "1 MB"]
    outputs = ["--out", str(out), "--msccl", str(xml)]
    assert run(["plan", "collective", *job, *outputs]) == 2
    captured = capsys.readouterr()
    wrote, refused = captured.err.splitlines()
    assert wrote == f"wrote {out}" and "thread blocks of GPU 0; MSCCL has 128 at most" in refused
    assert "lockstep" in captured.out and not xml.exists()
    assert run(["plan", "show", str(out), "--msccl", str(xml)]) == 2
    assert "dark" in capsys.readouterr().out and not xml.exists()


def test_a_double_tree_saturates_planes_that_never_switch(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tree = ["plan", "collective", "--nodes", "16", "--size", "512 MB", "--algorithm"]
    at_once = rows_of(capsys, *tree, "double-tree-allreduce")
    assert us(at_once["one-shot"]) < 1.1 * us(at_once["ideal"])
    assert us(at_once["swot"]) == us(at_once["one-shot"]) + 200
    phased = rows_of(capsys, *tree, "phased-double-tree-allreduce", "--planes", "2")
    assert us(phased["swot"]) < 1.1 * us(phased["ideal"])
    # Two planes cannot hold four configurations: SWOT takes the order that needs two at a time.
    plan = tmp_path / "plan.json"
    two = rows_of(capsys, *tree, "double-tree-allreduce", "--planes", "2", "--out", str(plan))
    assert us(two["swot"]) == us(phased["swot"]) < us(two["lockstep"]) == us(phased["lockstep"])
    assert two["swot"]["algorithm"] == phased["swot"]["algorithm"]
    assert two["ideal"]["algorithm"] == "double-tree-allreduce"
    assert run(["plan", "check", str(plan)]) == 0
    assert "phased-double-tree-allreduce" in capsys.readouterr().out
    asked = [*tree, "double-tree-allreduce", "--scheduler", "milp", "--out", "plan.json"]
    assert run(asked) == 2
    assert "one configuration a step" in capsys.readouterr().err


def test_a_dominant_pair_is_carried_by_all_planes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    demand = np.full((12, 12), 150_000)
    demand[0, 1] = 41_200_000
    np.savetxt(tmp_path / "d.csv", demand, fmt="%d", delimiter=",")
    asked = ["--demand", str(tmp_path / "d.csv"), "--planes", "3", "--reconfiguration", "20 us"]
    rows = rows_of(capsys, "plan", "alltoall", *asked)
    whole, single = rows["matchings"], rows["ports"]
    assert whole["completion_ps"] <= 1.15 * whole["bound_ps"]
    assert whole["bound_ps"] >= single["bound_ps"]


@pytest.mark.parametrize("scheduler", ["swot", "lockstep", "one-shot", "milp"])
@pytest.mark.parametrize("initial", ["first-step", "free", "dark"])
def test_plans_of_every_scheduler_run_as_planned(scheduler: str, initial: str) -> None:
    job = plan.Job.of("ring-allreduce", nodes=5, size="5 MB", planes=3, reconfiguration="20 us",
                      initial=initial)  # fmt: skip
    outcome = plan.plan_collective(job, plan=scheduler, seconds=10)
    made = outcome.plan
    assert made is not None and made.made.scheduler == scheduler
    assert made.check() == made.completion_ps == outcome.row(scheduler).completion_ps
    assert made.run()["completion_ps"] == made.completion_ps


def test_a_plan_begins_where_another_ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = tmp_path / "first.json"
    assert run([*WORKED, "--out", str(first)]) == 0
    capsys.readouterr()
    # All planes hold the last step's configuration, which is the first step's.
    again = rows_of(capsys, *WORKED, "--initial", str(first))
    assert again["swot"] == rows_of(capsys, *WORKED)["swot"]
    maps = tmp_path / "maps.json"
    assert run(["plan", "show", str(first), "--maps", str(maps)]) == 0
    capsys.readouterr()
    assert rows_of(capsys, *WORKED, "--initial", str(maps)) == again
    ends = [[(node, node, plane) for node in range(8)] for plane in range(2)]
    unlit = (Device.of(f"plane {p}", (0, 7), attached=ends[p], initial=[]) for p in range(2))
    PortMaps.of("a test", unlit).write(maps)
    dark = rows_of(capsys, *WORKED, "--initial", str(maps))
    assert us(dark["swot"]) == us(rows_of(capsys, *WORKED, "--initial", "dark")["swot"]) == 1400
    assert us(dark["lockstep"]) == 1700


def test_the_best_algorithm(capsys: pytest.CaptureFixture[str]) -> None:
    best = ["plan", "collective", "--algorithm", "best", "--nodes", "16", "--planes", "4"]
    small = rows_of(capsys, *best, "--primitive", "alltoall", "--size", "16 kB")
    large = rows_of(capsys, *best, "--primitive", "all-to-all", "--size", "4 GB")
    assert small["swot"]["algorithm"].startswith("bruck-alltoall")
    assert large["swot"]["algorithm"] != small["swot"]["algorithm"]
    for size, rows in (("16 kB", small), ("4 GB", large)):
        for name in plan.algorithms("all-to-all", 16):
            job = plan.Job.of(name, nodes=16, size=size, effort="quick")
            for row in plan.plan_collective(job).rows:
                found = rows[row.scheduler]["completion_ps"]
                assert row.completion_ps is None or found <= row.completion_ps, (name, row)
    assert run([*best, "--primitive", "broadcast", "--size", "1 MB"]) == 0
    assert "best: " in capsys.readouterr().out


def test_alltoall_of_a_matrix_and_of_a_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    matrix = np.random.default_rng(3).integers(0, 2_000_000, (6, 6))
    text, array, out = tmp_path / "d.csv", tmp_path / "d.npy", tmp_path / "p.json"
    np.savetxt(text, matrix, fmt="%d", delimiter=",")
    np.save(array, matrix)
    common = ["plan", "alltoall", "--reconfiguration", "20 us", "--planes", "3"]
    of_text = rows_of(capsys, *common, "--demand", str(text), "--out", str(out))
    assert of_text == rows_of(capsys, *common, "--demand", str(array))
    assert "ports" in of_text and "matchings" in of_text
    assert run(["plan", "check", str(out)]) == 0
    assert run(["plan", "run", str(out)]) == 0
    assert "to the picosecond" in capsys.readouterr().out
    # One byte of the demand more than is sent.
    tree = json.loads(out.read_text())
    tree["task"]["demand"][0][1] += 1
    out.write_text(json.dumps(tree))
    assert run(["plan", "check", str(out)]) == 2
    assert "are wanted" in capsys.readouterr().err
    trace = rows_of(capsys, *common, "--demand", "e16k4", "--layer", "3", "--iteration", "9",
                    "--ranks", "8", "--bytes-per-rank", "1 MB", "--circuits", "ports",
                    "--gantt", str(tmp_path / "a.png"))  # fmt: skip
    assert "matchings" not in trace and us(trace["ports"]) < us(trace["lockstep"])
    assert (tmp_path / "a.png").stat().st_size > 1000


@pytest.mark.parametrize("name", ["e32k4", "zipf", "log-normal", "sparse"])
def test_moe_alltoalls_are_near_the_bound(name: str) -> None:
    from lightloom.plan.demand import read

    rng = np.random.default_rng(1)
    if name == "e32k4":
        demand = read(name)
    else:
        weights = {
            "zipf": rng.permuted(np.tile(np.arange(1, 33.0) ** -1.0, (32, 1)), axis=1),
            "log-normal": rng.lognormal(0, 1, (32, 32)),
            "sparse": rng.random((32, 32)) * (rng.random((32, 32)) > 0.25),
        }[name]
        np.fill_diagonal(weights, 0)
        demand = (weights / weights.sum() * 32 * 64e6).astype(np.uint64)
    for dark in ("1 us", "20 us"):
        planes = plan.Planes.of(nodes=32, planes=4, node_bandwidth="800 Gbps",
                                reconfiguration=dark, latency="5 us")  # fmt: skip
        made = plan.plan_alltoall(demand, planes).plan
        assert made.completion_ps <= 1.10 * made.bound_ps


BAD = [
    (["--planes", "0"], "planes = 0: must be 1 to 64"),
    (["--planes", "-1"], "planes = -1: must be 1 to 64"),
    (["--planes", "65"], "planes = 65: must be 1 to 64"),
    (["--nodes", "1"], "nodes = 1: must be 2 to 4096"),
    (["--nodes", "5000"], "nodes = 5000: must be 2 to 4096"),
    (["--size", "0 B"], "size is 0 B"),
    (["--size", "16 EiB"], "size"),
    (["--size", "1000000 TB"], "size is"),
    (["--size", "much"], "size: "),
    (["--size", "40 Gbps"], "size: "),
    (["--node-bandwidth", "1 bps"], "node-bandwidth"),
    (["--node-bandwidth", "fast"], "node-bandwidth: "),
    (["--reconfiguration", "1 MB"], "reconfiguration: "),
    (["--reconfiguration", "9000000 s"], "2^62 ps"),
    (["--latency", "soon"], "latency: "),
    (["--algorithm", "rabenseifner"], "no such algorithm (did you mean"),
    (["--algorithm", "bruck-alltoall:1"], "radix is 1"),
    (["--algorithm", "bruck-alltoall:9"], "radix is 9"),
    (["--algorithm", "bruck-alltoall:x"], "bruck-alltoall:x"),
    (["--algorithm", "ring-allreduce:3"], "no such algorithm"),
    (["--algorithm", "recursive-halving-reduce-scatter", "--nodes", "6"], "powers of two"),
    (["--algorithm", "best"], "needs --primitive"),
    (["--algorithm", "best", "--primitive", "gossip"], 'primitive "gossip"'),
    (["--primitive", "all-reduce"], "read only with --algorithm best"),
    (["--initial", "warm"], "initial warm"),
    (["--scheduler", "magic"], '--scheduler "magic": no such scheduler'),
    (["--scheduler", "one-shot", "--out", "x.json"], "needs 3 planes"),
    (["--effort", "some"], 'effort "some"'),
    (["--seconds", "0"], "--seconds 0"),
    (["--out", "nowhere/x.json"], "there is no directory nowhere"),
    (["--out", "."], "is a directory"),
    (["--nodes", "eight"], "'--nodes'"),
]


@pytest.mark.parametrize(("arguments", "named"), BAD)
def test_bad_input_is_one_message(
    arguments: list[str], named: str, refused: Callable[..., str]
) -> None:
    assert named in refused(*WORKED, *arguments)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "is empty"),
        ("0,1\n2", "row 2: 1 entries of 2 rows: must be square"),
        ("0,1,2\n2,0,1", "must be square"),
        ("0,nan\n1,0", "row 1, column 2: 'nan'"),
        ("0,-1\n1,0", "row 1, column 2: '-1'"),
        ("0,1.5\n1,0", "'1.5'"),
        ("0,\n1,0", "row 1, column 2: ''"),
        ("7", "1 nodes: must be 2"),
        ("9,0\n0,9", "0 bytes between nodes"),
        ("0,9999999999999999999\n1,0", "must be 1 to"),
        ("a,b\n1,2", "must include"),
    ],
)
def test_bad_demands(text: str, named: str, refused: Callable[..., str]) -> None:
    Path("d.csv").write_text(text)
    said = refused("plan", "alltoall", "--demand", "d.csv")
    assert named in said and "d.csv" in said


@pytest.mark.parametrize(
    ("array", "named"),
    [
        (np.array([[0, np.nan], [1, 0]]), "[0][1] = nan"),
        (np.array([[0, np.inf], [1, 0]]), "[0][1] = inf"),
        (np.array([[0, -2], [1, 0]]), "[0][1] = -2"),
        (np.array([[0, 0.5], [1, 0]]), "[0][1] = 0.5"),
        (np.zeros((2, 3)), "must be square"),
        (np.zeros(4), "must be square"),
        (np.zeros((0, 0)), "0 nodes"),
        (np.zeros((3, 3)), "0 bytes between nodes"),
        (np.zeros((600, 600)), "at most 512"),
        (np.array([["a", "b"], ["c", "d"]]), "must be numbers"),
        (np.array([[0, 2**63], [1, 0]], np.uint64), "must be 1 to"),
    ],
)
def test_bad_arrays(array: Any, named: str, refused: Callable[..., str]) -> None:
    np.save("d.npy", array)
    said = refused("plan", "alltoall", "--demand", "d.npy")
    assert named in said and "d.npy" in said


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--demand", "nowhere.csv"], "nowhere.csv: cannot be read"),
        (["--demand", "e9k9"], "no trace is shipped"),
        (["--demand", "demand.txt"], "ending .txt"),
        (["--demand", "e32k4", "--layer", "8"], "--layer 8: must be 0 to 7"),
        (["--demand", "e32k4", "--iteration", "-1"], "--iteration -1"),
        (["--demand", "e32k4", "--ranks", "5"], "--ranks 5: must divide"),
        (["--demand", "e32k4", "--ranks", "1"], "--ranks 1"),
        (["--demand", "e32k4", "--bytes-per-rank", "1000 TB"], "--bytes-per-rank"),
        (["--demand", "e32k4", "--bytes-per-rank", "0 B"], "--bytes-per-rank"),
        (["--demand", "e32k4", "--circuits", "some"], 'circuits "some"'),
        (["--demand", "e32k4", "--planes", "0"], "planes = 0"),
        (["--demand", "e32k4", "--reconfiguration", "9000000 s"], "2^62 ps"),
    ],
)
def test_bad_options_of_an_alltoall(
    arguments: list[str], named: str, refused: Callable[..., str]
) -> None:
    assert named in refused("plan", "alltoall", *arguments)


def test_a_matrix_has_no_layers(refused: Callable[..., str]) -> None:
    Path("d.csv").write_text("0,1\n1,0")
    said = refused("plan", "alltoall", "--demand", "d.csv", "--layer", "1")
    assert "--layer: is of gating traces" in said
