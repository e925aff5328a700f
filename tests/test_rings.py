"""Circuits as rings for sums of gradients: rates, bytes; nothing changes where none would pay."""

from __future__ import annotations

from typing import Any

import lightloom
import pytest
from lightloom import Result, Scenario

# A stage of eight servers, a replica each; sums follow the backward pass, one after the other.
DENSE: dict[str, Any] = {
    "model.layers": 2,
    "model.dense_layers": 2,
    "parallelism.pp": 1,
    "training.sequence_length": 512,
    "training.micro_batch": 1,
    "training.micro_batches": 1,
    "training.overlap_gradients": False,
    "fabric.link_bandwidth": "400 Gbps",
}


def run(model: str, fabric: str, gpus: int, changes: dict[str, Any]) -> Result:
    given = {"fabric.preset": fabric, **changes}
    return lightloom.simulate(Scenario.preset(model, gpus=gpus, **given), progress=False)


def sums_s(result: Result, kinds: tuple[str, ...] = ("dp_dense", "dp_expert")) -> float:
    """How long sums took, all together [s]."""
    rows = result.tasks.to_pylist()
    return sum(row["end_ps"] - row["start_ps"] for row in rows if row["kind"] in kinds) / 1e12


def sent(result: Result) -> dict[str, int]:
    rows = result.tasks.to_pylist()
    kinds = {row["kind"] for row in rows}
    return {kind: sum(row["bytes"] for row in rows if row["kind"] == kind) for kind in kinds}


@pytest.fixture(scope="module")
def dense() -> dict[str, Result]:
    off = run("llama-3-70b", "mixnet", 64, DENSE)
    rings = run("llama-3-70b", "mixnet", 64, DENSE | {"fabric.reconfigure.gradients": "rings"})
    return {"off": off, "rings": rings, "rails": run("llama-3-70b", "rail-optimized", 64, DENSE)}


def test_a_dense_jobs_sums_take_the_rate_of_its_circuits(dense: dict[str, Result]):
    """Over 2 packet NICs, over 3 circuits each way, over 8 NICs: 4, 4 / 3 and 1 parts of a rate."""
    off, rings, rails = (sums_s(dense[name]) for name in ("off", "rings", "rails"))
    assert off / rings == pytest.approx(3, rel=0.02)
    assert rings / rails == pytest.approx(4 / 3, rel=0.02)
    assert dense["rings"].rows[0]["iteration_s"] < dense["off"].rows[0]["iteration_s"]
    # Set before training: nothing waits, nothing changes.
    assert dense["rings"].rows[0]["reconfigurations"] == 0
    assert dense["rings"].rows[0]["reconfiguration_s"] == 0


def test_circuits_carry_what_packets_did(dense: dict[str, Result]):
    packets, circuits = sent(dense["off"]), sent(dense["rings"])
    # Delegates hand over what enters and leaves by other GPUs' NICs.
    assert circuits["dp_dense"] >= packets["dp_dense"]
    (note,) = [line for line in dense["rings"].info["notes"] if "sums of gradients" in line]
    assert "in 1 of 1 regions" in note
    said = float(note.partition(": ")[2].partition(" GB")[0]) * 1e9
    job = Scenario.preset("llama-3-70b", gpus=64, **DENSE)
    # 2 (s - 1) buffers of every tensor-parallel rank, on 8 servers.
    head = job.model.vocabulary * job.model.hidden
    assert said > 2 * 7 * 2 * head
    links = {row["class"]: row["bytes"] for row in dense["rings"].links.to_pylist()}
    assert links["circuit"] == pytest.approx(2 * said, rel=1e-3)


def test_circuits_of_a_dense_job_serve_context_parallel_rings():
    changes = DENSE | {"parallelism.cp": 2, "training.sequence_length": 4096}
    off = run("llama-3-70b", "mixnet", 64, changes)
    rings = run("llama-3-70b", "mixnet", 64, changes | {"fabric.reconfigure.gradients": "rings"})
    assert sums_s(rings, ("cp",)) < sums_s(off, ("cp",))
    assert rings.rows[0]["iteration_s"] < off.rows[0]["iteration_s"]


MOE: dict[str, Any] = {
    "model.layers": 8,
    "parallelism.pp": 2,
    "training.micro_batches": 2,
    "fabric.link_bandwidth": "100 Gbps",
}


@pytest.mark.parametrize("delay", ["10 us", "25 ms"])
@pytest.mark.parametrize("overlap_gradients", [True, False])
def test_with_experts_circuits_change_only_where_it_pays(delay: str, overlap_gradients: bool):
    changes = MOE | {"fabric.ocs.delay": delay, "training.overlap_gradients": overlap_gradients}
    took = {
        asked: run("mixtral-8x7b", "mixnet", 64, changes | {"fabric.reconfigure.gradients": asked})
        for asked in ("off", "rings", "always")
    }
    off, rings, always = (one.rows[0]["iteration_s"] for one in took.values())
    assert rings <= min(off, always) * (1 + 1e-6)
    (note,) = [line for line in took["rings"].info["notes"] if "of gradients" in line]
    if delay == "10 us":
        assert rings < off and rings == always
        assert "in 2 of 2 regions" in note
    elif overlap_gradients:
        assert "would not pay" in note and rings == off < always
    else:
        # The last stage is done early, and waits for the others anyway.
        assert "in 1 of 2 regions" in note
    counted = [one.rows[0]["reconfigurations"] for one in took.values()]
    assert counted[2] > counted[0]


def test_several_iterations_change_to_rings_and_back():
    job = {
        "gpus": 64,
        "model": {"preset": "mixtral-8x7b", "layers": 8},
        "parallelism": {"pp": 2},
        "training": {"micro_batches": 2, "overlap_gradients": False},
        "iterations": 3,
    }
    rows = {}
    for asked in ("off", "rings"):
        fabric = {
            "preset": "mixnet", "link_bandwidth": "100 Gbps", "ocs": {"delay": "10 us"},
            "reconfigure": {"gradients": asked},
        }  # fmt: skip
        jobs = {"cluster": {"gpus": 64}, "fabric": fabric, "jobs": [job]}
        found = lightloom.run_jobs(jobs, progress=False)
        rows[asked] = found.rows[0], found.tables["iterations"].to_pylist()
    assert rows["rings"][0]["alone_s"] < rows["off"][0]["alone_s"]
    took = [row["end_ps"] - row["begin_ps"] for row in rows["rings"][1]]
    assert max(took) < 1.05 * min(took)


TINY: dict[str, Any] = {
    "model.layers": 1,
    "model.dense_layers": 1,
    "model.hidden": 512,
    "model.vocabulary": 2048,
    "model.dense_intermediate": 1024,
    "model.attention.heads": 8,
    "model.attention.kv_heads": 8,
    "model.attention.head_dim": 64,
    "training.sequence_length": 64,
}


@pytest.mark.parametrize("asked", ["off", "rings"])
def test_engines_agree(asked: str):
    changes = DENSE | TINY | {"fabric.reconfigure.gradients": asked}
    flows, packets = (
        sums_s(run("llama-3-70b", "mixnet", 64, changes | {"engine.kind": engine}))
        for engine in ("flow", "packet")
    )
    assert 1 < packets / flows < 1.06
