"""The outline of an iteration: its bound is below every run, its ranks are the engine's."""

import numpy as np
import pytest
from lightloom import Scenario, _core
from lightloom.gating import load_trace

GBPS = (100, 400)
# Each fabric in a form that fits 128 GPUs, with keys that change what binds.
FABRICS = {
    "fat-tree": [{}, {"oversubscription": 2.5}],
    "leaf-spine": [{}, {"oversubscription": 6.0}],
    "rail-optimized": [{}, {"oversubscription": 3.0}],
    "rail-only": [{}],
    "topoopt": [{}, {"degree": 5}],
    "mixnet": [{}, {"optical_nics": 3}, {"decision": "algorithm-1", "hysteresis": False}],
    "few-nics": [{}, {"nics": 4}],
    "torus": [{}],
    "hamming-mesh": [{}],
    "dragonfly": [{}],
    "planes": [{}],
}


def workload(job: Scenario) -> _core.Workload:
    """Return a job's workload."""
    counts = np.ascontiguousarray(load_trace(job).counts, dtype=np.uint32)
    return _core.Workload(job.to_core_json(), counts.reshape(-1), counts.shape)


def jobs() -> dict[str, Scenario]:
    """Return jobs of odd sizes and of several kinds."""

    def job(model: str, gpus: int, **values: object) -> Scenario:
        base = {"training.micro_batches": 3, "memory.oversize": "allow"}
        return Scenario.preset(model, gpus=gpus).with_({**base, **values})

    return {
        "one replica": job("mixtral-8x7b", 128),
        "three replicas": job("mixtral-8x7b", 384),
        "qwen": job("qwen-moe", 128),
        "pairs of micro-batches": job(
            "mixtral-8x7b", 128,
            **{"training.overlap": "two-batches", "training.micro_batches": 8},
        ),
        "prefill": job("mixtral-8x7b", 128, **{"training.mode": "prefill"}),
    }  # fmt: skip


@pytest.mark.parametrize("name", jobs())
def test_nothing_is_faster_than_the_bound_and_ranks_agree(name: str) -> None:
    job = jobs()[name]
    built = workload(job)
    about, ran = [], []
    for fabric, forms in FABRICS.items():
        for more in forms:
            for gbps in GBPS:
                change = {"preset": fabric, "link_bandwidth": f"{gbps} Gbps", **more}
                core = job.with_(fabric=change).to_core_json()
                found = built.outline(core)
                whole = built.run(core)["summary"]["iteration_ps"]
                assert found["compute_ps"] <= found["least_ps"] <= found["about_ps"]
                # An engine rounds each flow to picoseconds.
                assert found["least_ps"] <= whole * (1 + 1e-9), (fabric, more, gbps)
                about.append(found["about_ps"])
                ran.append(whole)
    ranks = [np.argsort(np.argsort(times)) for times in (about, ran)]
    assert np.corrcoef(*ranks)[0, 1] > 0.9
    off = np.abs(np.array(about) / np.array(ran) - 1)
    assert np.median(off) < 0.05, off


def test_a_dense_job_sends_no_all_to_all() -> None:
    job = Scenario.preset("llama-3-70b", gpus=128).with_(
        {"training.micro_batches": 2, "memory.oversize": "allow"}
    )
    found = workload(job).outline(job.to_core_json())
    assert found["all_to_all_ps"] == 0
    assert found["compute_ps"] < found["about_ps"]


def test_the_outline_of_another_job_is_refused() -> None:
    job = Scenario.preset("mixtral-8x7b", gpus=128)
    with pytest.raises(ValueError, match="another workload"):
        workload(job).outline(job.with_(seed=7).to_core_json())


def test_what_is_kept_is_of_the_same_servers() -> None:
    job = Scenario.preset("mixtral-8x7b", gpus=128).with_({"training.micro_batches": 2})
    others = [
        job.with_(fabric={"preset": "torus"}),
        job.with_({"cluster.scale_up_bandwidth": "90 GB/s"}),
        job.with_({"cluster.gpus_per_server": 16, "cluster.nics_per_server": 16}),
        job.with_(fabric={"preset": "few-nics", "nics": 4}),
    ]
    shared = workload(job)
    shared.outline(job.to_core_json())
    for other in others:
        core = other.to_core_json()
        assert shared.outline(core) == workload(other).outline(core)
        assert shared.outline(core)["least_ps"] <= shared.run(core)["summary"]["iteration_ps"]


def test_a_bound_that_is_too_much_ends_it() -> None:
    job = Scenario.preset("mixtral-8x7b", gpus=128).with_({"training.micro_batches": 2})
    core, built = job.to_core_json(), workload(job)
    whole = built.outline(core)
    assert built.outline(core, whole["least_ps"]) == whole
    short = built.outline(core, whole["least_ps"] - 1)
    assert short["about_ps"] is None
    assert short["least_ps"] == whole["least_ps"]
