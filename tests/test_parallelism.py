"""Experts with tensor parallelism of their own: whole runs on every fabric.

Closed forms of what GPUs send are in ``crates/workload/tests/all/folding.rs``; here fabrics carry
it, regions hold it, and what is derived from a job follows.
"""

from __future__ import annotations

from typing import Any

import pytest
from fixtures.two_servers import finished, two_servers
from lightloom import InputError, Scenario
from lightloom.memory import held
from lightloom.runs.scenario import tokens

FABRICS = ("fat-tree", "rail-optimized", "leaf-spine", "mixnet", "topoopt", "rail-only")


def job(fabric: str = "fat-tree", **changes: Any) -> Scenario:
    """Two servers of four GPUs, attention shared by two, even gates."""
    own: dict[str, Any] = {
        "parallelism.tp": 2,
        "parallelism.ep": 4,
        "training.micro_batches": 2,
        "model.layers": 2,
        "memory.oversize": "allow",
    }
    return two_servers(fabric, **own | changes)


@pytest.mark.parametrize("fabric", FABRICS)
def test_as_many_as_share_attention_change_nothing(fabric: str) -> None:
    plain, folded = job(fabric), job(fabric, **{"parallelism.etp": 2})
    assert plain.dp == folded.dp and plain.region_servers == folded.region_servers
    assert finished(plain).summary == finished(folded).summary
    assert held(plain) == held(folded)


@pytest.mark.parametrize("fabric", FABRICS)
def test_an_expert_a_gpu_keeps_all_to_alls_inside_servers(fabric: str) -> None:
    plain, folded = job(fabric), job(fabric, **{"parallelism.etp": 1})
    assert (plain.dp, folded.dp, folded.region_servers) == (1, 2, 1)
    assert tokens(plain) == tokens(folded)
    wide, near = finished(plain).summary, finished(folded).summary
    assert near["exposed_a2a_ps"] < wide["exposed_a2a_ps"] / 4
    assert near["reconfigurations"] == 0


def test_a_region_holds_the_ranks_of_experts() -> None:
    """Eight ranks of one expert over both servers: half of what a GPU dispatches leaves its own."""
    folded = job("mixnet", **{"parallelism.etp": 1, "parallelism.ep": 8})
    assert (folded.dp, folded.region_servers) == (1, 2)
    demand = finished(folded).tables["demand"].to_pylist()
    first = [row for row in demand if row["layer"] == 0]
    own, assignments, width = 4096 // 2, 2, 4096 * 2
    between = 4 * own * assignments * width // 2
    assert [row["bytes"] for row in first if row["source"] != row["destination"]] == [between] * 2


@pytest.mark.parametrize(
    "changes",
    [
        {"training.overlap": "two-batches"},
        {"training.overlap": "dualpipe", "parallelism.pp": 2},
        {"training.schedule": "zero-bubble", "parallelism.pp": 2},
        {"training.dispatch_copies": "server"},
        {"training.recompute": "full"},
        {"training.mode": "prefill"},
        {"training.mode": "decode", "training.micro_batch": 4},
        {"engine.kind": "packet", "training.mode": "prefill", "training.sequence_length": 64},
    ],
)
def test_goes_with_all_else(changes: dict[str, Any]) -> None:
    values = {"cluster.gpus": 16, "training.micro_batches": 4, "parallelism.etp": 1, **changes}
    assert finished(job(**{**values, "parallelism.ep": 8})).summary["iteration_ps"] > 0


def test_railx_lays_blocks_on_nodes() -> None:
    node = {"cluster.gpus_per_server": 16, "cluster.nics_per_server": 16}
    changes = {**node, "cluster.gpus": 64, "parallelism.ep": 8, "parallelism.tp": 4}
    near, wide = (
        finished(job("railx", **changes, **{"parallelism.etp": etp})).summary["exposed_a2a_ps"]
        for etp in (1, 4)
    )
    assert near < wide, "eight GPUs of one node, or two nodes"


@pytest.mark.parametrize("ep", [4, 8])
def test_circuits_may_carry_sums(ep: int) -> None:
    """Whether a block's circuits serve all-to-alls, or EP groups stay in servers."""
    changes = {"parallelism.etp": 1, "parallelism.tp": 8, "parallelism.ep": ep}
    rings = {"fabric.reconfigure.gradients": "rings"}
    assert finished(job("mixnet", **changes, **rings)).summary["iteration_ps"] > 0


def test_memory_follows_the_experts_layout() -> None:
    """Ranks of two experts each hold as many weights whole as ranks of four that two share."""
    whole = job(**{"parallelism.etp": 1})
    shared = job(**{"parallelism.etp": 2, "parallelism.ep": 2})
    weights = [held(one, "none").fullest.parts["weights"] for one in (whole, shared)]
    assert weights[0] == weights[1]
    # What came to one GPU of an EP group, or, gathered, to two.
    experts = [held(one, "none").fullest.parts["experts"] for one in (whole, shared)]
    inputs = 2 * 2 * (4096 // 2) * 2 * 4096
    assert experts[1] - experts[0] == inputs


def test_a_stage_that_experts_do_not_fill_is_refused() -> None:
    with pytest.raises(InputError, match="allowed with ep = 4: 1, 2"):
        job(**{"parallelism.etp": 4})
