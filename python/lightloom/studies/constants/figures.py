"""The figures that constants are judged by: times [s] of iterations, all-to-alls and plans.

They were chosen before any constant was swept: each job is one that another page shows, at a size
that takes a second or two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from lightloom.papers.runs import Run
from lightloom.studies.reconfiguration.points import DELAYS, At, changing

Changes = Mapping[str, Any]


class Figure(NamedTuple):
    """A time that a user reads."""

    about: str
    seconds: Callable[[Changes], float]
    """With keys of its specification changed."""
    tree: Callable[[], Any]
    """Its resolved specification; None if it has none."""


def _iteration(about: str, run: Run) -> Figure:
    from lightloom import simulate

    def seconds(changes: Changes) -> float:
        job = run.scenario().with_(dict(changes))
        return float(simulate(job, progress=False).rows[0]["iteration_s"])

    return Figure(about, seconds, lambda: run.scenario().to_tree())


def _training(about: str, model: str, gpus: int, micro_batches: int, **changes: Any) -> Figure:
    values = {
        "fabric.carrier": "auto",
        "fabric.link_bandwidth": "400 Gbps",
        "training.micro_batches": micro_batches,
    }
    fabric = changes.pop("fabric", "mixnet")
    return _iteration(about, Run(model, fabric, gpus, tuple((values | changes).items())))


def _all_to_all(about: str, **given: str) -> Figure:
    asked = {
        "fabric.preset": "fat-tree",
        "fabric.link_bandwidth": "400 Gbps",
        "engine.kind": "packet",
        "collective.matrix": "e64k4",
        "collective.size": "16 MB",
        **given,
    }

    def seconds(changes: Changes) -> float:
        from lightloom import collective

        found = collective("all-to-all", settings={**asked, **changes}, progress=False)
        return float(found.rows[0]["time_s"])

    def tree() -> Any:
        from lightloom.collectives import CollectiveSpec

        source = {"cluster": {"gpus": 64}}
        return CollectiveSpec.of("all-to-all", asked, source=source, label="asked").to_tree()

    return Figure(about, seconds, tree)


def _plan(algorithm: str, _changes: Changes) -> float:
    from lightloom import plan

    job = plan.Job.of(algorithm, nodes=32, size="40 MB", planes=4)
    completion = plan.plan_collective(job, plan="swot").row("swot").completion_ps
    assert completion is not None
    return completion / 1e12


def _uneven_plan(_changes: Changes) -> float:
    import numpy as np

    from lightloom import plan

    drawn = np.random.default_rng(1).lognormal(0.0, 1.0, (16, 16))
    np.fill_diagonal(drawn, 0)
    demand = (drawn * 1e6).astype(np.uint64)
    planes = plan.Planes.of(
        nodes=16, planes=4, node_bandwidth="800 Gbps", reconfiguration="20 us", latency="5 us"
    )
    return int(plan.plan_alltoall(demand, planes, "ports").plan.completion) / 1e12


def _slow_nic(_changes: Changes) -> float:
    from lightloom import rails

    done = rails.run(
        domains=8, size="8 MiB", collectives=5, workload="sparse:0.6", schemes="rails",
        nics={"domain3.rail2": 0.5},
    )  # fmt: skip
    return float(sum(one["completion_ps"] for one in done.schemes[0].collectives[2:]) / 3e12)


_SKEWED = changing("timed", At("in twos", 3.0, 1.0), DELAYS[5])
_TRANSPORTS = {"NDP": "ndp", "DCQCN": "dcqcn", "RoCE": "roce", "DCTCP": "dctcp"}
_INSIDE = {"fabric.ocs.device": "rotornet", "fabric.reconfigure.first_forward": "inside"}
_PROTOTYPE = {
    "model.layers": 16,
    "parallelism.pp": 1,
    "compute.gpu": "a100",
    "cluster.host.preset": "mixnet-prototype",
    "fabric.link_bandwidth": "100 Gbps",
    "fabric.optical_nics": 3,
    "fabric.ocs.device": "polatis-measured",
}
_WIDE = {"gating.knobs.servers": 16, "parallelism.ep": 128}

FIGURES: Mapping[str, Figure] = {
    "Mixtral 8x22B": _training("an iteration on 512 GPUs, MixNet", "mixtral-8x22b", 512, 4),
    "DeepSeek-R1": _training("an iteration on 1,024 GPUs, MixNet", "deepseek-r1", 1024, 2),
    "skewed": _iteration(
        "a point of the study of reconfiguring: in twos, skew 3, 25 ms",
        _SKEWED,
    ),
    "skewed, wide": _iteration(
        "the same with a region of 16 servers",
        _SKEWED._replace(gpus=128, changes=tuple((dict(_SKEWED.changes) | _WIDE).items())),
    ),
    "inside": _training(
        "DeepSeek-R1 with circuits that change inside all-to-alls, RotorNet's 10 us",
        "deepseek-r1",
        1024,
        2,
        **_INSIDE,
    ),
    "predicted": _training(
        "DeepSeek-R1, first demand of a layer predicted",
        "deepseek-r1",
        1024,
        2,
        **{"fabric.reconfigure.first_forward": "predict"},
    ),
    "prototype": _training(
        "LLaMA-MoE of 16 layers on the 32 GPUs of MixNet's prototype, MixNet",
        "llama-moe",
        32,
        4,
        **_PROTOTYPE,
    ),
    "TopoOpt": _training("Mixtral 8x22B on 512 GPUs", "mixtral-8x22b", 512, 4, fabric="topoopt"),
    "planes": _training("the same on planes", "mixtral-8x22b", 512, 4, fabric="planes"),
    "spray": _all_to_all("an all-to-all of 64 ranks, 16 MB of e64k4, fat-tree, packets"),
    "spray, direct": _all_to_all(
        "the same, a flow for each pair of ranks", **{"fabric.carrier": "direct"}
    ),
    **{
        name: _all_to_all(f"the all-to-all with {name}", **{"engine.transport.kind": kind})
        for name, kind in _TRANSPORTS.items()
    },
    "REPS": _all_to_all("spray with REPS", **{"engine.balancer.kind": "reps"}),
    "RailS": _all_to_all(
        "spray with RailS, rail-optimized",
        **{"fabric.preset": "rail-optimized", "engine.balancer.kind": "rails"},
    ),
    "RailS, slow NIC": Figure(
        "RailS with a NIC at half its rate, sparse:0.6, 8 domains, 8 MiB, the last three of five",
        _slow_nic,
        lambda: None,
    ),
    "flowlets": _all_to_all(
        "DCTCP with flowlets",
        **{"engine.transport.kind": "dctcp", "engine.balancer.kind": "flowlets"},
    ),
    "delegated, NDP": _all_to_all(
        "the all-to-all with NDP, delegated",
        **{"engine.transport.kind": "ndp", "fabric.carrier": "delegate"},
    ),
    "SWOT": Figure(
        "a plan of Rabenseifner's all-reduce, 32 nodes, 4 planes",
        partial(_plan, "rabenseifner-allreduce"),
        lambda: None,
    ),
    "SWOT, uneven": Figure(
        "a plan of an uneven all-to-all of 16 nodes", _uneven_plan, lambda: None
    ),
}
