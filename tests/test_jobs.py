"""Several jobs on one fabric, as users ask for them: files, rows, directories, both engines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import lightloom
import pytest
from lightloom import InputError, JobsResult
from lightloom.cli import run
from lightloom.jobs import JobsSpec

EXAMPLE = Path(__file__).parents[1] / "examples" / "jobs.toml"
# Two servers, all-to-alls between them.
SMALL: dict[str, Any] = {
    "gpus": 16,
    "model": {"preset": "mixtral-8x7b", "layers": 2},
    "parallelism": {"tp": 2, "pp": 1},
    "training": {"sequence_length": 256, "micro_batch": 1, "micro_batches": 1},
}
# Two leaves of two servers, whose uplinks carry a third.
NARROW = {
    "preset": "leaf-spine",
    "link_bandwidth": "100 Gbps",
    "oversubscription": 3.0,
    "radix": 32,
}


def two(fabric: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    job = SMALL | {"servers": "spread"} | more
    return {"cluster": {"gpus": 32}, "fabric": fabric or NARROW, "jobs": [job, job]}


@pytest.fixture(scope="module")
def result() -> JobsResult:
    return lightloom.run_jobs(two(), progress=False)


def test_rows_say_alone_together_and_apart(result: JobsResult):
    assert [row["job"] for row in result.rows] == ["mixtral-8x7b 1", "mixtral-8x7b 2"]
    assert [row["servers"] for row in result.rows] == ["0,2", "1,3"]
    assert [row["apart_servers"] for row in result.rows] == ["0..2", "2..4"]
    for row in result.rows:
        assert row["slowdown"] == pytest.approx(row["together_s"] / row["alone_s"])
        # Alone a job has half of its leaves' NICs, and the uplinks have a third of all.
        assert 1.05 < row["slowdown"] < 2
        assert row["apart_s"] <= row["alone_s"]
        assert row["shared_bytes"] > 0 and 0 < row["between_servers_bytes"] < row["bytes"]
        assert row["together_s"] - row["alone_s"] == pytest.approx(
            row["a2a_together_s"] + row["other_together_s"] - row["a2a_alone_s"]
            - row["other_alone_s"], rel=0.05
        )  # fmt: skip


def test_bytes_of_a_job_do_not_depend_on_others(result: JobsResult):
    runs = result.tables["runs"].to_pylist()
    of_job = {name: [r["bytes"] for r in runs if r["job"] == name] for name in result.info["jobs"]}
    for sent in of_job.values():
        assert len(sent) == 3 and len(set(sent)) == 1
    alone = [row for row in result.tables["links"].to_pylist() if row["run"].startswith("alone")]
    assert not any(row["shared_bytes"] for row in alone)
    together = [row for row in result.tables["shared"].to_pylist() if row["run"] == "together"]
    assert {row["class"] for row in together} == {"uplink-1"}


def test_one_job_alone_is_a_simulation():
    job = {key: value for key, value in SMALL.items() if key != "gpus"}
    one = {"cluster": {"gpus": 16}, "fabric": NARROW, "jobs": [{**job, "servers": "0..2"}]}
    row = lightloom.run_jobs(one, progress=False).rows[0]
    itself = lightloom.Scenario.preset(
        "mixtral-8x7b", gpus=16, **{
            "model.layers": 2, "parallelism.tp": 2, "parallelism.pp": 1,
            **{f"training.{key}": value for key, value in job["training"].items()},
            **{f"fabric.{key}": value for key, value in NARROW.items()},
        }
    )  # fmt: skip
    took = lightloom.simulate(itself, progress=False).rows[0]
    assert row["together_s"] == row["alone_s"] == took["iteration_s"]
    assert row["mfu"] == took["mfu"] and row["a2a_together_s"] == took["exposed_a2a_s"]


def test_engines_agree(result: JobsResult):
    packets = lightloom.run_jobs(two(), settings={"engine.kind": "packet"}, progress=False)
    for ours, theirs in zip(packets.rows, result.rows, strict=True):
        for kind in ("alone_s", "together_s", "apart_s"):
            assert 0.99 < ours[kind] / theirs[kind] < 1.06, kind
        assert ours["bytes"] == theirs["bytes"]


def test_out_of_phase_nobody_waits():
    jobs = two(iterations=2)
    alone = lightloom.run_jobs(jobs, progress=False).rows[0]["alone_s"]
    start = f"{round(2.1 * alone * 1e9)} ns"
    jobs["jobs"] = [jobs["jobs"][0], jobs["jobs"][1] | {"start": start}]
    later = lightloom.run_jobs(jobs, progress=False)
    assert [row["slowdown"] for row in later.rows] == pytest.approx([1.0, 1.0], abs=1e-9)
    ends = [r for r in later.tables["iterations"].to_pylist() if r["run"] == "together"]
    assert [row["iteration"] for row in ends] == [0, 1, 0, 1]
    assert ends[0]["end_ps"] == ends[1]["begin_ps"] < ends[1]["end_ps"] < ends[2]["begin_ps"]


def test_regions_of_mixnet_belong_to_one_job():
    fabric = {"preset": "mixnet", "link_bandwidth": "100 Gbps"}
    job = SMALL | {"gpus": 32, "parallelism": {"tp": 4, "pp": 1}, "servers": "packed"}
    jobs = {"cluster": {"gpus": 64}, "fabric": fabric, "jobs": [job, job]}
    found = lightloom.run_jobs(jobs, progress=False)
    assert [row["servers"] for row in found.rows] == ["0..4", "4..8"]
    assert [row["slowdown"] for row in found.rows] == pytest.approx([1.0, 1.0], abs=1e-6)
    assert all(row["shared_bytes"] == 0 for row in found.rows)


def test_a_file_resolves_and_loads_again(tmp_path: Path):
    spec = JobsSpec.load(EXAMPLE)
    again = tmp_path / "again.toml"
    again.write_text(spec.to_toml(), encoding="utf-8")
    assert JobsSpec.load(again).to_core() == spec.to_core()
    assert [job.scenario.cluster.gpus for job in spec.jobs] == [32, 32] and spec.gpus == 64
    changed = JobsSpec.load(EXAMPLE, {"cluster.gpus": 128, "training.micro_batches": 3})
    assert changed.gpus == 128
    assert {job.scenario.training.micro_batches for job in changed.jobs} == {3}


def test_of_another_specification_the_job_is_read_and_the_rest_is_noted(tmp_path: Path):
    (tmp_path / "other.toml").write_text(
        '[model]\npreset = "mixtral-8x7b"\n[parallelism]\npp = 1\n[cluster]\ngpus = 64\n'
        '[fabric]\npreset = "mixnet"\n', encoding="utf-8",
    )  # fmt: skip
    file = tmp_path / "jobs.toml"
    file.write_text(
        '[cluster]\ngpus = 128\n[[jobs]]\nspec = "other.toml"\n'
        '[[jobs]]\nspec = "other.toml"\nservers = "8..12"\ntraining = { micro_batches = 2 }\n',
        encoding="utf-8",
    )
    spec = JobsSpec.load(file)
    assert [job.scenario.cluster.gpus for job in spec.jobs] == [64, 32]
    assert {job.scenario.fabric.kind for job in spec.jobs} == {"fat-tree"}
    assert spec.jobs[1].scenario.training.micro_batches == 2
    assert [note.endswith("(not read: cluster, fabric)") for note in spec.notes] == [True, True]
    assert spec.place().together == (tuple(range(8)), (8, 9, 10, 11))


def test_the_command_prints_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "result"
    assert run(["jobs", str(EXAMPLE), "--json", "--out", str(out)]) == 0
    said = json.loads(capsys.readouterr().out)
    found = JobsResult.open(out)
    assert found.rows == said["rows"] and found.info["jobs"] == ["left", "right"]
    names = {"runs", "iterations", "links", "shared", "jobs"}
    assert {path.stem for path in out.glob("*.parquet")} == names
    assert (out / "jobs.png").stat().st_size > 1000
    assert run(["jobs", str(EXAMPLE), "--out", str(out)]) == 2
    assert "holds a Result" in capsys.readouterr().err
    assert run(["jobs", str(EXAMPLE), "--set", "training.micro_batches=1"]) == 0
    shown = capsys.readouterr().out
    assert "two jobs under four leaves" in shown and "slowdown" in shown


def test_the_example_says_how_to_run_it():
    head = EXAMPLE.read_text(encoding="utf-8").partition("\n\n")[0]
    assert all(line.startswith("#") for line in head.splitlines())
    assert f"examples/{EXAMPLE.name}" in head


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"fabric.kind": "graph"}, "fabric.kind"),
        ({"engine.kind": "warp"}, "engine.kind"),
        ({"prices.preset": "x"}, "prices"),
        ({"cluster.gpus": 20}, "cluster.gpus"),
    ],
)
def test_what_is_said_on_top_is_checked(changes: dict[str, Any], says: str):
    with pytest.raises(InputError, match=says) as caught:
        lightloom.run_jobs(two(), settings=changes, progress=False)
    assert "\n" not in str(caught.value)
