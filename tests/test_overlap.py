"""All-to-alls beside computation, split backward passes, forward passes alone: whole runs.

Closed forms of the task graph are in ``crates/workload/tests/all/overlap.rs``; here engines and
fabrics carry it out.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import Any

import pytest
from fixtures.two_servers import finished, two_servers
from lightloom import Scenario
from lightloom.cli import run
from lightloom.overlap import alone
from lightloom.simulation import Finished

A2A = ("dispatch", "combine")
# What computes in turn; rings of tensor parallelism are none here.
COMPUTES = ("attention", "gate", "expert", "dense_mlp", "embedding", "head")


def job(fabric: str = "fat-tree", **changes: Any) -> Scenario:
    """A replica of two servers a stage, even gates."""
    own: dict[str, Any] = {
        "parallelism.tp": 1,
        "parallelism.ep": 8,
        "training.micro_batches": 4,
        "training.communication_share": 0.0,
        "model.layers": 3,
    }
    return two_servers(fabric, **own | changes)


def parts(done: Finished) -> dict[str, int]:
    names = ("iteration", "compute", "exposed_a2a", "exposed_other", "reconfiguration")
    return {name: int(done.summary[f"{name}_ps"]) for name in names}


def rows_by_block(done: Finished) -> dict[tuple[int, int], list[dict[str, Any]]]:
    blocks: dict[tuple[int, int], list[dict[str, Any]]] = defaultdict(list)
    for row in done.tables["tasks"].to_pylist():
        blocks[row["replica"], row["stage"]].append(row)
    return blocks


def one_at_a_time(rows: list[dict[str, Any]], kinds: tuple[str, ...]) -> None:
    spans = sorted((row["start_ps"], row["end_ps"]) for row in rows if row["kind"] in kinds)
    assert all(before[1] <= after[0] for before, after in pairwise(spans))


SCHEDULES: dict[str, dict[str, Any]] = {
    "two-batches": {"training.overlap": "two-batches"},
    "stages": {"training.overlap": "two-batches", "parallelism.pp": 2, "cluster.gpus": 16},
    "dualpipe": {"training.overlap": "dualpipe", "parallelism.pp": 2, "cluster.gpus": 32},
    "zero-bubble": {"training.schedule": "zero-bubble", "parallelism.pp": 2, "cluster.gpus": 16},
    "prefill": {"training.overlap": "two-batches", "training.mode": "prefill"},
    "decode": {"training.overlap": "two-batches", "training.mode": "decode"},
}


@pytest.mark.parametrize("fabric", ["fat-tree", "rail-optimized", "mixnet", "planes", "topoopt"])
@pytest.mark.parametrize("name", SCHEDULES)
def test_a_block_does_one_thing_of_a_kind_at_a_time(name: str, fabric: str) -> None:
    changes = SCHEDULES[name]
    plain = {key: value for key, value in changes.items() if "overlap" not in key}
    both = [finished(job(fabric, **values)) for values in (changes, plain)]
    for done in both:
        split = parts(done)
        assert split["iteration"] == sum(split.values()) - split["iteration"]
        for rows in rows_by_block(done).values():
            one_at_a_time(rows, A2A)
            one_at_a_time(rows, COMPUTES)
            for kinds in (A2A, COMPUTES):
                spent = sum(r["end_ps"] - r["start_ps"] for r in rows if r["kind"] in kinds)
                assert spent <= split["iteration"]
    if fabric != "fat-tree":
        return  # delegates hand on bytes inside servers, as many as their circuits ask for
    tokens = [
        sum(row["bytes"] for row in done.tables["tasks"].to_pylist() if row["kind"] in A2A)
        for done in both
    ]
    assert tokens[0] == tokens[1] > 0


def test_all_to_alls_hide_on_a_real_fabric_as_in_closed_form() -> None:
    """Six computations and four all-to-alls a layer and micro-batch, each no longer than a run."""
    fast = {
        "fabric.link_bandwidth": "800 Gbps",
        "training.sequence_length": 8192,
        "training.overlap_gradients": False,  # nothing else is on the links meanwhile
    }
    plain, beside = (
        finished(job(**fast, **{"training.overlap": o})) for o in ("none", "two-batches")
    )
    rows = plain.tables["tasks"].to_pylist()
    sent = sum(row["end_ps"] - row["start_ps"] for row in rows if row["kind"] in A2A)
    before, after = parts(plain)["iteration"], parts(beside)["iteration"]
    # All but a micro-batch's all-to-alls are hidden: those of the first forward and last backward.
    assert before - after == pytest.approx(sent * 3 / 4, rel=1e-3)
    assert alone(beside.tables["tasks"]) * 1e12 == pytest.approx(sent / 4, rel=1e-3)
    assert alone(plain.tables["tasks"]) * 1e12 == pytest.approx(sent, rel=1e-3)


@pytest.mark.parametrize("policy", ["block", "hide", "reuse", "predict", "inside"])
def test_every_policy_of_mixnet_serves_two_micro_batches(policy: str) -> None:
    changes: dict[str, Any] = {
        "training.overlap": "two-batches",
        "fabric.reconfigure.first_forward": policy,
        "fabric.hysteresis": False,
        "cluster.gpus_per_server": 2,
        "cluster.nics_per_server": 2,
        "cluster.numa_nodes": 1,
        "fabric.optical_nics": 1,
        "gating.trace": "builtin",
    }
    if policy == "predict":
        changes["fabric.reconfigure.predictor"] = "previous-layer"
    done = finished(job("mixnet", **changes))
    split = parts(done)
    assert split["iteration"] == sum(split.values()) - split["iteration"]
    for rows in rows_by_block(done).values():
        one_at_a_time(rows, A2A)
    if policy in ("block", "hide"):
        # Backward, too, circuits change for the demand of the next all-to-all, whosever it is.
        assert len(done.tables["reconfigurations"]) > 3 * 4


def test_overlap_pays_less_than_it_hides_if_communication_takes_sms() -> None:
    free, shared = (
        parts(
            finished(job(**{"training.overlap": "two-batches", "training.communication_share": s}))
        )
        for s in (0.0, 0.15)
    )
    assert shared["iteration"] > free["iteration"]


def test_packets_agree_with_flows() -> None:
    changes = {
        "training.overlap": "two-batches",
        "training.sequence_length": 512,
        "training.micro_batches": 2,
        "model.hidden": 1024,
        "model.layers": 1,
    }
    flow, packet = (
        parts(finished(job(**changes, **{"engine.kind": kind}))) for kind in ("flow", "packet")
    )
    assert flow["iteration"] < packet["iteration"] < 1.1 * flow["iteration"]


def test_forward_only_is_told_in_tokens() -> None:
    prefill, decode = (finished(job(**{"training.mode": mode})) for mode in ("prefill", "decode"))
    # Four micro-batches of one sequence on eight ranks.
    for done, each in ((prefill, 4096), (decode, 1)):
        seconds = done.row["iteration_s"]
        assert done.row["tokens_per_s"] == pytest.approx(4 * 8 * each / seconds)
        kinds = {row["kind"] for row in done.tables["tasks"].to_pylist()}
        assert not kinds & {"dp_dense", "dp_expert", "optimizer"}
        passes = {row["pass"] for row in done.tables["tasks"].to_pylist()}
        assert passes == {"forward"}


@pytest.mark.parametrize("mode", ["train", "prefill", "decode"])
def test_utilisation_is_below_what_products_reach(mode: str) -> None:
    """Of a forward pass once, of training three times: what is counted takes its time."""
    row = finished(job(**{"training.mode": mode, "training.overlap": "none"})).row
    assert 0 < row["mfu"] <= row["mfu_full_attention"]
    assert row["mfu"] < Scenario.preset("mixtral-8x7b").compute.matmul_efficiency
    if mode == "prefill":
        trained = finished(job(**{"training.overlap": "none"})).row
        assert trained["mfu"] == pytest.approx(row["mfu"], rel=0.1)


def test_decoding_attends_to_its_context() -> None:
    """Bound by memory: the cache of keys and values, 2 * 1024 elements of two bytes a token."""
    short, long = (
        finished(
            job(**{"training.mode": "decode", "training.sequence_length": n, "model.layers": 1})
        )
        for n in (1024, 1024 * 101)
    )
    spent = [
        next(
            r["end_ps"] - r["start_ps"]
            for r in d.tables["tasks"].to_pylist()
            if r["kind"] == "attention"
        )
        for d in (short, long)
    ]
    cache_bytes = 1024 * 100 * 2 * 1024 * 2
    assert spent[1] - spent[0] == pytest.approx(cache_bytes / (3.35e12 * 0.8) * 1e12, rel=1e-6)


def test_the_command_line_runs_it(capsys: pytest.CaptureFixture[str]) -> None:
    line = ["simulate", "mixtral-8x7b", "--set", "cluster.gpus=128", "--micro-batches", "4"]
    assert run([*line, "--set", "training.overlap=two-batches"]) == 2
    assert "training.micro_batches = 4: must be at least 2 * pp = 8" in capsys.readouterr().err
