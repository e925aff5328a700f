"""Any small job on any fabric: what holds for one run must hold for all of them."""

from __future__ import annotations

import os
from collections import defaultdict
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st
from lightloom import InputError, Scenario
from lightloom.resolve import load_scenario
from lightloom.simulation import Finished, run_all

pytestmark = pytest.mark.soak

EXAMPLES = settings(
    max_examples=int(os.environ.get("SOAK_EXAMPLES", "600")),
    suppress_health_check=list(HealthCheck),
)
COMPUTE = {"embedding", "attention", "gate", "expert", "dense_mlp", "head", "optimizer"}
# Rows of the demand, but for the circuits, are a workload's: they differ in order alone.
DEMAND = ("replica", "stage", "layer", "source", "destination", "bytes")
RATES = ("100 Gbps", "200 Gbps", "400 Gbps", "800 Gbps")
DEVICES = ("polatis", "polatis-measured", "calient", "palomar", "lightmatter", "telescent")
POLICY = st.sampled_from(["block", "reuse", "hide"])


def pick(draw: st.DrawFn, *values: Any) -> Any:
    return draw(st.sampled_from(values))


@st.composite
def jobs(draw: st.DrawFn) -> dict[str, Any]:
    """Everything but the fabric, with dimensions that mostly fit each other."""
    experts, top_k = pick(draw, (8, 2), (16, 4))
    ep = draw(st.sampled_from([n for n in (1, 2, 4, 8, 16) if experts % n == 0]))
    tp, cp, pp, dp = pick(draw, 1, 2, 4), pick(draw, 1, 1, 2), pick(draw, 1, 2, 4), pick(draw, 1, 2)
    stages = draw(st.integers(1, 2)) if pp > 1 else 1
    layers = pp * stages * draw(st.integers(1, 2))
    gpus = tp * cp * ep * pp * dp
    assume(gpus <= 128)
    per_server = draw(st.sampled_from([n for n in (1, 2, 4, 8) if gpus % n == 0]))
    dense, shared = draw(st.integers(0, layers - 1)), draw(st.integers(0, 2))
    step = draw(st.integers(1, min(2, layers)))
    plain = layers - len(range(dense, layers, step))
    hidden = pick(draw, 512, 1024, 4096)
    return {
        "seed": draw(st.integers(1, 1000)),
        "model": {
            "name": "random",
            "layers": layers,
            "dense_layers": dense,
            "moe_layer_step": step,
            "dense_intermediate": 4 * hidden if plain else 0,
            "hidden": hidden,
            "vocabulary": 32000,
            "attention": {"kind": "gqa", "heads": 8, "kv_heads": 4, "head_dim": hidden // 8},
            "experts": experts,
            "top_k": top_k,
            "expert_intermediate": pick(draw, 64, 1024, 14336),
            "shared_experts": shared,
            "shared_intermediate": 256 if shared else 0,
            "tied_embeddings": draw(st.booleans()),
        },
        "parallelism": {"tp": tp, "cp": cp, "ep": ep, "pp": pp},
        "training": {
            "sequence_length": pick(draw, 64, 1024, 4096),
            "micro_batch": draw(st.integers(1, 4)),
            "micro_batches": pp * draw(st.integers(1, 2))
            if stages > 1
            else draw(st.integers(1, 6)),
            "schedule": "interleaved" if stages > 1 else "1f1b",
            "virtual_stages": stages,
            "dispatch_bytes": pick(draw, 1, 2),
            "overlap_gradients": draw(st.booleans()),
        },
        "cluster": {
            "gpus": gpus,
            "gpus_per_server": per_server,
            "nics_per_server": per_server,
            "numa_nodes": pick(draw, 1, 2) if per_server > 1 else 1,
        },
        "record": {"replicas": dp},
        "engine": {"tolerance": pick(draw, 0.0, 0.0, 0.01)},
    }


@st.composite
def fabrics(draw: st.DrawFn, cluster: dict[str, Any]) -> dict[str, Any]:
    """A fabric of any kind for a cluster."""
    per_server = cluster["gpus_per_server"]
    kinds = ["fat-tree", "leaf-spine", "rail-optimized", "topoopt", "graph"]
    kind = pick(draw, *kinds, *(["mixnet"] * 3 if per_server > 1 else []))
    fabric: dict[str, Any] = {"kind": kind, "link_bandwidth": pick(draw, *RATES)}
    switched: dict[str, Any] = {
        "oversubscription": pick(draw, 1.0, 1.5, 3.0),
        "splitting": pick(draw, "ideal", "ecmp"),
    }
    if kind == "graph":
        servers = cluster["gpus"] // per_server
        nodes = [{"name": f"s{n}", "role": "gpu-server"} for n in range(servers)]
        switches = pick(draw, 1, 2, 3)
        nodes += [{"name": f"w{n}", "role": "switch"} for n in range(switches)]
        rate, delay = pick(draw, *RATES), pick(draw, "0 ns", "1 us")
        links = [
            {"a": f"s{n}", "b": f"w{n % switches}", "lanes": per_server} for n in range(servers)
        ]
        links += [{"a": f"w{n}", "b": f"w{n + 1}"} for n in range(switches - 1)]
        both = {"rate": rate, "delay": delay}
        return {"kind": kind, "nodes": nodes, "links": [link | both for link in links]}
    if kind == "topoopt":
        return fabric | {
            "degree": draw(st.integers(1, per_server)),
            "panel": pick(draw, "flat", "multi-tier"),
        }
    if kind == "mixnet":
        return fabric | {
            "optical_nics": draw(st.integers(1, per_server - 1)),
            "eps": switched | {"link_bandwidth": pick(draw, *RATES), "tiers": pick(draw, 2, 3)},
            "ocs": {"device": pick(draw, *DEVICES)},
            "reconfigure": {
                "first_forward": draw(POLICY),
                "second_forward": draw(POLICY),
                "backward": draw(POLICY),
            },
            "greedy_continue": draw(st.booleans()),
            "share_eps": draw(st.booleans()),
        }
    if kind != "leaf-spine":
        switched["tiers"] = pick(draw, 2, 3)
    return fabric | switched


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario | None:
    """A scenario, or None where what was drawn does not fit; then the message is a good one."""
    job = draw(jobs())
    job["fabric"] = draw(fabrics(job["cluster"]))
    try:
        return load_scenario(job).scenario
    except InputError as error:
        assert "\n" not in str(error) and str(error).startswith("spec: ")
        event(f"does not fit: {str(error).split(' ')[1].rstrip(':')}")
        return None


def finished(scenario: Scenario) -> Finished | None:
    """Run; None where the core refuses the shape, in one line that names a key."""
    try:
        done = run_all([scenario])
        if done.stopped is not None:
            raise done.stopped
    except InputError as error:
        assert "\n" not in str(error)
        key = str(error).partition(": ")[2].partition(" ")[0]
        assert key.split(".")[0] in type(scenario).model_fields, error
        event(f"refused by the core: {key}")
        return None
    return done.finished[0]


@EXAMPLES
@given(scenarios())
def test_what_always_holds(scenario: Scenario | None) -> None:
    if scenario is None:
        return
    one = finished(scenario)
    if one is None:
        return
    event(f"ran on {scenario.fabric.kind}")
    summary = one.summary
    iteration = summary["iteration_ps"]
    parts = ("compute", "exposed_a2a", "exposed_other", "reconfiguration")
    assert sum(summary[f"{part}_ps"] for part in parts) == iteration
    assert all(summary[f"{part}_ps"] >= 0 for part in parts)
    tasks = one.tables["tasks"].to_pylist()
    assert all(0 <= task["start_ps"] <= task["end_ps"] <= iteration for task in tasks)
    never_faster_than_compute_alone(tasks, iteration)
    all_layers_and_micro_batches(tasks, scenario)
    for row in one.tables["links"].to_pylist():
        most = row["max_utilization"]
        assert 0 <= row["mean_utilization"] <= most * (1 + 1e-9) and most <= 1 + 1e-9
        assert row["bytes"] * 8e12 <= row["capacity_bps"] * iteration * (1 + 1e-9)
    if scenario.fabric.kind != "mixnet":
        assert summary["reconfigurations"] == 0 == summary["reconfiguration_ps"]
    assert one.cost.total_usd > 0

    again = finished(scenario)
    assert again is not None and again.summary == summary
    for name, table in one.tables.items():
        assert again.tables[name].equals(table), name


def never_faster_than_compute_alone(tasks: list[dict[str, Any]], iteration: int) -> None:
    """A block computes one task at a time, so that all of them fit in the iteration."""
    blocks = defaultdict(list)
    for task in tasks:
        if task["kind"] in COMPUTE:
            blocks[task["replica"], task["stage"]].append((task["start_ps"], task["end_ps"]))
    for spans in blocks.values():
        assert sum(end - start for start, end in spans) <= iteration
        assert all(a[1] <= b[0] for a, b in pairwise(sorted(spans)))


def all_layers_and_micro_batches(tasks: list[dict[str, Any]], scenario: Scenario) -> None:
    """Every MoE layer dispatches once a micro-batch, pass and replica: nothing is scaled up."""
    model, training = scenario.model, scenario.training
    keys = [
        (task["layer"], task["micro_batch"], task["pass"], task["replica"])
        for task in tasks
        if task["kind"] == "dispatch"
    ]
    moe = model.moe_layers if scenario.parallelism.ep > 1 else 0
    assert len(set(keys)) == len(keys) == moe * training.micro_batches * 2 * scenario.dp


@EXAMPLES
@given(scenarios(), st.data())
def test_the_demand_does_not_depend_on_the_fabric(
    scenario: Scenario | None, data: st.DataObject
) -> None:
    if scenario is None:
        return
    other = data.draw(st.sampled_from(["fat-tree", "rail-optimized", "leaf-spine"]))
    runs = [finished(scenario), finished(scenario.with_(**{"fabric.preset": other}))]
    demands = [
        sorted(tuple(row[key] for key in DEMAND) for row in table.to_pylist())
        for table in (one.tables["demand"] for one in runs if one is not None)
    ]
    assert all(demand == demands[0] for demand in demands)


@EXAMPLES
@given(scenarios())
def test_a_faster_gpu_never_makes_compute_longer(scenario: Scenario | None) -> None:
    if scenario is None:
        return
    slow, fast = (finished(scenario.with_(**{"compute.gpu": gpu})) for gpu in ("a100", "b200"))
    if slow is None or fast is None:
        return
    times = []
    for one in (slow, fast):
        spans = one.tables["tasks"].to_pylist()
        times.append([t["end_ps"] - t["start_ps"] for t in spans if t["kind"] in COMPUTE])
    assert all(a >= b for a, b in zip(*times, strict=True))
