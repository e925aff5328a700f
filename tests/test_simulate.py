"""Whole runs through the Python API: conservation, bounds, determinism."""

from __future__ import annotations

import hashlib
from pathlib import Path

import lightloom
import pytest
from lightloom import InputError, Scenario, _core
from lightloom.simulation import Finished, run_all

pytestmark = pytest.mark.usefixtures("undrawn")

FABRICS = ("fat-tree", "fat-tree-3to1", "rail-optimized", "leaf-spine", "topoopt", "mixnet")


def small(fabric: str, **changes: object) -> Scenario:
    """Mixtral 8x7B on 128 GPUs, four micro-batches."""
    settings = {"training.micro_batches": 4, **changes}
    return Scenario.preset("mixtral-8x7b", gpus=128, fabric=fabric).with_(**settings)


@pytest.fixture(scope="module")
def runs() -> dict[str, Finished]:
    done = run_all([small(fabric) for fabric in FABRICS])
    assert done.stopped is None
    return {run.scenario.fabric.name: run for run in done.finished}


def test_parts_add_up_to_the_iteration(runs):
    for run in runs.values():
        parts = ("compute", "exposed_a2a", "exposed_other", "reconfiguration")
        assert sum(run.summary[f"{part}_ps"] for part in parts) == run.summary["iteration_ps"]


def test_every_fabric_carries_the_same_all_to_all(runs):
    """Dispatch and combine move the same bytes between GPUs, whatever the fabric."""
    between = {}
    for name, run in runs.items():
        rows = run.tables["demand"].to_pylist()
        between[name] = [(r["layer"], r["source"], r["destination"], r["bytes"]) for r in rows]
    assert len(set(map(tuple, between.values()))) == 1
    assert sum(row[3] for row in between["fat-tree"]) > 0


def test_no_fabric_beats_a_network_25_times_as_fast(runs):
    """Links of 10 Tbps without delay bound every fabric from below; compute is the same on all."""
    ideal = {"fabric.link_bandwidth": "10 Tbps", "fabric.link_delay": "0 ps"}
    fastest = run_all([small("fat-tree", **ideal)], priced=False).finished[0].summary
    for name, run in runs.items():
        assert run.summary["iteration_ps"] > fastest["iteration_ps"], name


def test_less_capacity_is_never_faster(runs):
    time = {name: run.summary["iteration_ps"] for name, run in runs.items()}
    assert time["fat-tree"] <= time["fat-tree-3to1"]
    # The leaf-spine has shorter paths than the three tiers, and as much capacity.
    assert time["leaf-spine"] <= time["fat-tree"]
    slower = run_all([small("mixnet", **{"fabric.link_bandwidth": "100 Gbps"})]).finished
    assert slower[0].summary["iteration_ps"] > time["mixnet"]


def test_tasks_are_in_order(runs):
    tasks = runs["mixnet"].tables["tasks"].to_pylist()
    assert all(0 <= t["start_ps"] <= t["end_ps"] for t in tasks)
    critical = sum(t["critical_ps"] for t in tasks)
    assert 0 < critical <= runs["mixnet"].summary["iteration_ps"]
    layers = {t["layer"] for t in tasks if t["kind"] == "dispatch"}
    assert layers == set(range(32)), "every layer is simulated"
    for kind in ("dispatch", "combine"):
        rows = [t for t in tasks if t["kind"] == kind]
        keys = {(t["layer"], t["micro_batch"], t["pass"], t["replica"]) for t in rows}
        assert len(keys) == len(rows) == 32 * 4 * 2


def test_links_carry_no_more_than_they_can(runs):
    for run in runs.values():
        for row in run.tables["links"].to_pylist():
            assert 0 <= row["mean_utilization"] <= row["max_utilization"] <= 1 + 1e-9


def test_reconfiguration_policies_differ_as_they_should():
    """An adversarial demand: blocking waits the whole delay, hiding less, reusing not at all."""
    waited = {}
    for policy in ("block", "hide", "reuse"):
        job = Scenario.preset("mixtral-8x22b", gpus=512, fabric="mixnet").with_(
            **{
                "training.micro_batches": 8,
                "fabric.decision": "algorithm-1",
                "fabric.hysteresis": False,
                "fabric.reconfigure": {
                    "first_forward": policy,
                    "second_forward": policy,
                    "backward": policy,
                },
            }
        )
        finished = run_all([job]).finished
        summary = finished[0].summary
        waited[policy] = summary["waited_s"]
        assert (summary["reconfigurations"] == 0) == (policy == "reuse")
    assert waited["reuse"] == 0 < waited["hide"] < waited["block"]


def digests(directory: Path) -> dict[str, str]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.glob("*.parquet"))
    }


def test_same_spec_same_bytes_other_seed_other_bytes(tmp_path):
    job = small("mixnet")
    for name in ("a", "b"):
        lightloom.simulate(job, out=tmp_path / name)
    lightloom.simulate(job.with_(seed=2), out=tmp_path / "c")
    a, b, c = (digests(tmp_path / name) for name in "abc")
    assert a == b
    assert len(a) >= 7
    assert a["tasks.parquet"] != c["tasks.parquet"]
    # From the Result alone the run can be repeated.
    lightloom.simulate(tmp_path / "a" / "spec.toml", out=tmp_path / "again")
    assert digests(tmp_path / "again") == a


def test_any_number_of_processes_gives_the_same(runs):
    one = run_all([small("fat-tree"), small("mixnet")], jobs=1).finished
    for run in one:
        assert run.summary == runs[run.scenario.fabric.name].summary
        assert run.tables["tasks"].equals(runs[run.scenario.fabric.name].tables["tasks"])


def test_any_number_of_threads_gives_the_same(runs):
    for name in ("fat-tree", "mixnet"):
        for threads in (2, 3):
            run = lightloom.simulate(small(name), threads=threads)
            assert run.tasks.equals(runs[name].tables["tasks"])
            assert run.links.equals(runs[name].tables["links"])


def test_tolerance_is_never_early_and_close():
    exact = run_all([small("fat-tree")]).finished
    loose = run_all([small("fat-tree", **{"engine.tolerance": 0.01})]).finished
    ratio = loose[0].summary["iteration_ps"] / exact[0].summary["iteration_ps"]
    assert 1 <= ratio < 1.01
    assert loose[0].summary["solves"] < exact[0].summary["solves"]


def test_a_trace_of_another_shape_says_how_to_get_one(tmp_path):
    job = small("fat-tree", **{"model.experts": 64, "parallelism.ep": 8})
    trace = lightloom.GatingTrace.builtin(8, 2)
    trace.save(tmp_path / "eight.parquet")
    with pytest.raises(InputError, match=r"lightloom trace (record|generate)"):
        lightloom.simulate(
            job.with_(**{"gating.trace": str(tmp_path / "eight.parquet")}), out=tmp_path / "result"
        )
    assert not (tmp_path / "result").exists()


def test_an_interrupt_keeps_what_was_finished(tmp_path):
    def stop_after_the_first(name: str, share: float) -> None:
        if share == 1.0:
            ended.append(name.partition("@")[0])
            raise KeyboardInterrupt

    ended: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        lightloom.compare(
            small("fat-tree"),
            fabrics=["fat-tree", "mixnet"],
            bandwidths=["400 Gbps"],
            out=tmp_path / "result",
            on_progress=stop_after_the_first,
        )
    kept = lightloom.Result.open(tmp_path / "result")
    assert [row["fabric"] for row in kept.rows] == ended
    assert kept.info["complete"] is False
    assert "stopped after" in kept.info["warnings"][0]


def test_the_stub_names_what_the_module_has():
    stub = (Path(_core.__file__).parent / "_core.pyi").read_text()
    names = {name for name in dir(_core) if not name.startswith("_")} | {"__version__"}
    for name in names:
        assert f"def {name}(" in stub or f"class {name}" in stub or f"{name}:" in stub
    for name in ("run", "tasks", "compute_origins"):
        assert hasattr(_core.Workload, name)


def test_a_graph_of_ones_own(tmp_path):
    """Sixteen servers on one switch, given link by link: a leaf-spine of one switch."""
    nodes = [{"name": f"s{i}", "role": "gpu-server"} for i in range(16)]
    nodes.append({"name": "switch", "role": "switch"})
    links = [
        {"a": f"s{i}", "b": "switch", "rate": "400 Gbps", "delay": "1 us", "lanes": 8}
        for i in range(16)
    ]
    graph = small("fat-tree").with_(fabric={"kind": "graph", "nodes": nodes, "links": links})
    done = run_all([graph])
    assert done.stopped is None
    finished = done.finished
    like = run_all([small("fat-tree", **{"fabric.carrier": "paper"})]).finished
    ratio = finished[0].summary["iteration_ps"] / like[0].summary["iteration_ps"]
    assert 0.9 < ratio <= 1.0, "shorter paths, the same NICs"
