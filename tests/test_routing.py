"""Copies of a token, and limits to groups of experts: what is sent, on every fabric and engine.

Oracles: draws of single tokens by DeepSeek-V3's own rule (arXiv 2412.19437, Section 2.1.2), which
share nothing with the sums over sets in ``crates/workload/src/choice.rs``; closed forms of even
loads.
"""

from __future__ import annotations

import json
import re
from math import comb
from pathlib import Path
from typing import Any

import lightloom
import numpy as np
import numpy.typing as npt
import pytest
from lightloom import Scenario
from lightloom.errors import InputError
from lightloom.huggingface import read_config
from lightloom.trace import GatingTrace

ROOT = Path(__file__).parents[1]
EXPERTS, TOP_K, RANKS, GROUPS, MOST = 256, 8, 64, 8, 4
SERVERS = 8
# One layer of DeepSeek-V3's experts, narrow, on 64 GPUs.
LAYER: dict[str, Any] = {
    "model.layers": 1, "model.dense_layers": 0, "model.dense_intermediate": 0,
    "model.hidden": 512, "model.vocabulary": 1024, "parallelism.pp": 1, "cluster.gpus": RANKS,
    "training.micro_batch": 1, "training.micro_batches": 1, "training.sequence_length": 4096,
    "training.dispatch_copies": "server",
}  # fmt: skip
TOKENS = 4096
Ints = npt.NDArray[np.int64]


def job(fabric: str = "fat-tree", **changes: Any) -> Scenario:
    tables = LAYER | {"fabric.preset": fabric} | changes
    return Scenario.preset("deepseek-v3").with_(tables)


def row(scenario: Scenario) -> dict[str, Any]:
    found: dict[str, Any] = lightloom.simulate(scenario, progress=False).runs.to_pylist()[0]
    return found


def between_servers(scenario: Scenario) -> dict[tuple[int, int], int]:
    """Bytes of the forward dispatch, from server to server."""
    demand = lightloom.simulate(scenario, progress=False).demand.to_pylist()
    return {
        (one["source"], one["destination"]): one["bytes"]
        for one in demand
        if one["source"] != one["destination"]
    }


def affinities(tokens: int, heat: float, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Affinities of tokens to experts, some more popular than others."""
    popularity = heat * rng.standard_normal(EXPERTS)
    logits = popularity + rng.gumbel(size=(tokens, EXPERTS))
    found: npt.NDArray[np.float64] = 1 / (1 + np.exp(-logits))
    return found


def highest(scores: npt.NDArray[np.float64], count: int) -> Ints:
    found: Ints = np.argpartition(-scores, count - 1, axis=1)[:, :count]
    return found


def by_groups(scores: npt.NDArray[np.float64]) -> Ints:
    """DeepSeek-V3's rule: the groups of the highest sums of top_k / M affinities, then experts."""
    tokens = len(scores)
    grouped = scores.reshape(tokens, GROUPS, -1)
    best = -np.sort(-grouped, axis=2)[:, :, : TOP_K // MOST].sum(axis=2)
    allowed = np.zeros((tokens, GROUPS), dtype=bool)
    np.put_along_axis(allowed, highest(best, MOST), True, axis=1)
    masked: npt.NDArray[np.float64] = np.where(allowed[:, :, None], grouped, -1.0)
    return highest(masked.reshape(tokens, EXPERTS), TOP_K)


def visited(ids: Ints, width: int) -> float:
    """Distinct stretches of `width` experts that a token visits, on average."""
    found = np.zeros((len(ids), EXPERTS // width), dtype=bool)
    np.put_along_axis(found, ids // width, True, axis=1)
    return float(found.sum(axis=1).mean())


def traced(ids: Ints, path: Path) -> str:
    """A trace of these choices, the same for every source."""
    counts = np.bincount(ids.ravel(), minlength=EXPERTS)
    full = np.broadcast_to(counts, (1, 1, RANKS, EXPERTS))
    GatingTrace(full.astype(np.uint32), TOP_K).save(path)
    return str(path)


@pytest.mark.parametrize("heat", [0.0, 0.3, 0.8])
def test_visits_are_those_of_tokens_drawn_one_by_one(heat: float, tmp_path: Path) -> None:
    """Of independent affinities: within 0.5 % without a limit, and 2 % under one."""
    scores = affinities(40_000, heat, np.random.default_rng(7))
    free, limited = highest(scores, TOP_K), by_groups(scores)
    for ids, limit, off in ((free, "off", 0.005), (limited, "recorded", 0.02)):
        trace = traced(ids, tmp_path / f"{limit}.parquet")
        found = row(job(**{"gating.trace": trace, "gating.group_limit": limit}))
        assert found["servers_per_token"] == pytest.approx(visited(ids, 32), rel=off)
        assert found["gpus_per_token"] == pytest.approx(visited(ids, 4), rel=off)
        assert found["servers_per_token"] <= (MOST if limit == "recorded" else SERVERS)


@pytest.mark.parametrize("heat", [0.3, 0.8])
def test_what_a_limit_leaves_of_loads_is_what_the_rule_leaves(heat: float, tmp_path: Path) -> None:
    """By groups: a limit gives popular groups more, about as much as DeepSeek-V3's rule does."""
    scores = affinities(40_000, heat, np.random.default_rng(11))
    free, limited = highest(scores, TOP_K), by_groups(scores)
    trace = traced(free, tmp_path / "free.parquet")
    told = {"gating.trace": trace, "gating.group_limit": "applied"}
    result = lightloom.simulate(job(**told), progress=False)
    assert any("at most 4 of 8 groups" in note for note in result.info["notes"])
    # Received assignments of each rank, from the plain matrix of the same loads.
    plain = lightloom.simulate(
        job(**told, **{"training.dispatch_copies": "expert"}), progress=False
    ).demand
    into = np.zeros(SERVERS)
    for one in plain.to_pylist():
        into[one["destination"]] += one["bytes"]
    into /= into.sum()
    groups = [
        np.bincount(ids.ravel() // 32, minlength=GROUPS) / ids.size for ids in (free, limited)
    ]
    moved = np.abs(groups[1] - groups[0]).sum() / 2
    # What is left between ours and the rule's is a part of what the limit moved, or chance.
    assert np.abs(into - groups[1]).sum() / 2 < max(0.5 * moved, 0.01)


def test_even_loads_visit_what_sets_of_experts_do() -> None:
    uniform = {"gating.trace": "uniform", "gating.group_limit": "off"}
    without = comb(EXPERTS - 32, TOP_K) / comb(EXPERTS, TOP_K)
    found = row(job(**uniform))
    assert found["servers_per_token"] == pytest.approx(SERVERS * (1 - without), rel=1e-3)
    assert found["other_servers_per_token"] == pytest.approx(
        (SERVERS - 1) * (1 - without), rel=1e-3
    )
    bytes_each = round(TOKENS * (1 - without)) * 512 * 2 * 8  # GPUs of a server
    for moved in between_servers(job(**uniform)).values():
        assert moved == pytest.approx(bytes_each, rel=1e-3)


@pytest.mark.parametrize("copies", ["expert", "server"])
def test_one_expert_a_token_is_sent_once_either_way(copies: str) -> None:
    one = {"model.top_k": 1, "model.groups_per_token": 1, "gating.trace": "zipf-receiver"}
    sent = between_servers(job(**one, **{"training.dispatch_copies": copies}))
    plain = between_servers(job(**one, **{"training.dispatch_copies": "expert"}))
    assert sent == plain


def test_all_experts_on_one_server_are_a_kth(tmp_path: Path) -> None:
    counts = np.zeros((1, 1, RANKS, EXPERTS), dtype=np.uint32)
    counts[..., 96:128] = 5
    GatingTrace(counts, TOP_K).save(tmp_path / "one.parquet")
    told = {"gating.trace": str(tmp_path / "one.parquet")}
    sent = between_servers(job(**told))
    plain = between_servers(job(**told, **{"training.dispatch_copies": "expert"}))
    assert set(sent) == {(a, 3) for a in range(SERVERS) if a != 3}
    assert sent == {pair: moved // TOP_K for pair, moved in plain.items()}


FABRICS = (
    "fat-tree", "fat-tree-3to1", "leaf-spine", "rail-optimized", "rail-only", "dragonfly", "torus",
    "topoopt", "mixnet", "planes", "nvl72", "railx", "torus-ocs", "hamming-mesh", "few-nics",
)  # fmt: skip


def on_fabric(fabric: str) -> Scenario:
    """The layer on a fabric, with the servers that it is built of."""
    own = {
        "railx": {"cluster.gpus_per_server": 16, "cluster.nics_per_server": 16},
        "nvl72": {"cluster.gpus_per_server": 16, "cluster.nics_per_server": 16},
    }
    return job(fabric, **own.get(fabric, {}))


@pytest.mark.parametrize("fabric", FABRICS)
def test_every_fabric_carries_copies_and_no_more(fabric: str) -> None:
    """Dispatch and combine carry all messages of GPUs, whatever the fabric; and end sooner."""
    scenario = on_fabric(fabric)
    result = lightloom.simulate(scenario, progress=False)
    plain = lightloom.simulate(
        scenario.with_({"training.dispatch_copies": "expert"}), progress=False
    )
    (merged,), (each,) = result.runs.to_pylist(), plain.runs.to_pylist()
    assert 1 < merged["servers_per_token"] <= MOST
    assert merged["exposed_a2a_s"] < each["exposed_a2a_s"]
    assert merged["compute_s"] == pytest.approx(each["compute_s"], rel=1e-6)
    per_server = scenario.cluster.gpus_per_server
    demand = result.demand.to_pylist()
    crossing = sum(one["bytes"] for one in demand if one["source"] != one["destination"])
    tokens = merged["other_servers_per_token"] * TOKENS * RANKS
    assert crossing == pytest.approx(tokens * 512 * 2, rel=1e-6)
    # What is handed over inside: every GPU that a token visits, but where it is or crosses to.
    inside = sum(one["bytes"] for one in demand) - crossing
    visits = merged["gpus_per_token"] * TOKENS * RANKS * 512 * 2
    assert visits - (merged["servers_per_token"] * TOKENS * RANKS * 512 * 2) <= inside <= visits
    assert any("tokens are copied once a server" in note for note in result.info["notes"])
    whole = per_server == 8
    said = "each whole servers: it visits at most 4 of 8" if whole else "not whole servers"
    assert any(said in note for note in result.info["notes"])


@pytest.mark.parametrize("carrier", ["direct", "relay", "delegate", "rails"])
def test_every_carrier_carries_them(carrier: str) -> None:
    """On one rail of a rail-optimized fabric, or over all NICs: the same bytes cross."""
    sent = between_servers(job("rail-optimized", **{"fabric.carrier": carrier}))
    assert sent == between_servers(job("rail-optimized"))
    times = [
        row(job("rail-optimized", **{"fabric.carrier": carrier, "training.dispatch_copies": of}))
        for of in ("server", "expert")
    ]
    assert times[0]["exposed_a2a_s"] < times[1]["exposed_a2a_s"]


@pytest.mark.parametrize("fabric", ["fat-tree", "rail-optimized", "mixnet"])
def test_packets_take_about_as_long_as_flows(fabric: str) -> None:
    small = {"training.sequence_length": 512, "model.hidden": 1024}
    flow, packet = (
        row(job(fabric, **small, **{"engine.kind": engine})) for engine in ("flow", "packet")
    )
    assert packet["servers_per_token"] == flow["servers_per_token"]
    assert packet["iteration_s"] == pytest.approx(flow["iteration_s"], rel=0.06)


@pytest.mark.parametrize(
    ("split", "gpus", "per_server"),
    [
        ({"tp": 2, "ep": 32}, 64, 8),  # two GPUs of each rank
        ({"tp": 16, "ep": 8}, 128, 8),  # a rank on two servers
        ({"tp": 1, "ep": 4}, 8, 8),  # two blocks on a server: nothing crosses
        ({"tp": 1, "ep": 16}, 48, 4),  # groups of two ranks, servers of four
        ({"tp": 3, "ep": 8}, 24, 8),  # ranks of three GPUs on servers of eight
    ],
)
def test_odd_splits(split: dict[str, int], gpus: int, per_server: int) -> None:
    changes = {f"parallelism.{key}": value for key, value in split.items()}
    heads = {"model.attention.heads": 48, "model.hidden": 528, "training.sequence_length": 4080}
    if split["tp"] == 16:
        heads = {}
    servers = {"cluster.gpus": gpus, "cluster.gpus_per_server": per_server,
               "cluster.nics_per_server": per_server}  # fmt: skip
    scenario = job(**changes, **servers, **heads)
    found, each = row(scenario), row(scenario.with_({"training.dispatch_copies": "expert"}))
    block = scenario.parallelism.block // per_server
    assert 1 <= found["servers_per_token"] <= max(1, min(MOST, block)) + 1e-9 or block > SERVERS
    if block <= 1:
        assert found["other_servers_per_token"] == 0
        assert found["exposed_a2a_s"] <= each["exposed_a2a_s"]
    else:
        assert found["exposed_a2a_s"] < each["exposed_a2a_s"]


def test_predicted_demands_are_merged_too() -> None:
    """A prediction that is right of every layer sets the circuits that the demand itself does."""
    even = {"gating.trace": "uniform", "model.layers": 3, "training.micro_batches": 2}
    ahead = {"fabric.reconfigure.first_forward": "predict", **even}
    predicted, known = (
        lightloom.simulate(job("mixnet", **changes), progress=False)
        for changes in (ahead, {"fabric.reconfigure.first_forward": "hide", **even})
    )
    circuits = [
        [(one["source"], one["destination"], one["bytes"], one["circuits"]) for one in each]
        for each in (predicted.demand.to_pylist(), known.demand.to_pylist())
    ]
    assert circuits[0] == circuits[1] and any(one[3] for one in circuits[0])


def test_ranks_move_and_their_copies_with_them() -> None:
    failing = {"failures": [{"kind": "server", "target": "server3", "at": "0 s"}]}
    found, whole = row(job(**failing)), row(job())
    assert found["servers_per_token"] == pytest.approx(whole["servers_per_token"], rel=0.2)


def test_same_specification_same_bytes() -> None:
    rows = [row(job("mixnet")) for _ in range(2)]
    assert rows[0]["iteration_s"] == rows[1]["iteration_s"]
    assert rows[0]["bytes"] == rows[1]["bytes"]


def test_groups_come_from_a_config(tmp_path: Path) -> None:
    kimi = read_config(ROOT / "tests/data/models/kimi-k2.json")
    assert (kimi["expert_groups"], kimi["groups_per_token"]) == (1, 1)
    assert "expert_groups" not in read_config(ROOT / "tests/data/models/olmoe-1b-7b.json")
    for name in ("deepseek-v3", "deepseek-r1"):
        model = Scenario.preset(name).model
        assert (model.expert_groups, model.groups_per_token) == (8, 4)


def test_nothing_changes_unless_asked() -> None:
    """Limits are in the loads that a trace has, and copies are one an assignment."""
    plain = job(**{"training.dispatch_copies": "expert"})
    no_groups = plain.with_({"model.expert_groups": 1, "model.groups_per_token": 1})
    assert row(plain)["iteration_s"] == row(no_groups)["iteration_s"]
    assert "servers_per_token" not in row(plain)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"n_group": 7}, "n_group = 7: must divide the number of experts, 384"),
        ({"n_group": 8, "topk_group": 9}, "topk_group = 9: must be at most n_group = 8"),
        ({"n_group": 128, "topk_group": 2}, "topk_group = 2: its groups hold 6 experts"),
        ({"n_group": 8, "topk_group": None}, "topk_group: missing"),
        ({"n_group": "8"}, 'n_group = "8": must be a whole number'),
    ],
)
def test_a_config_whose_groups_do_not_fit(said: dict[str, Any], why: str, tmp_path: Path) -> None:
    config = json.loads((ROOT / "tests/data/models/kimi-k2.json").read_text(encoding="utf-8"))
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config | said), encoding="utf-8")
    with pytest.raises(InputError, match=re.escape(why)):
        read_config(path)


def test_defaults_of_the_family_stand_in(tmp_path: Path) -> None:
    """DeepseekV3Config has 8 groups and 4; topk_method "greedy" of DeepSeek-V2 has none."""
    config = json.loads((ROOT / "tests/data/models/kimi-k2.json").read_text(encoding="utf-8"))
    del config["n_group"], config["topk_group"]
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    assert read_config(path)["expert_groups"] == 8
    path.write_text(json.dumps(config | {"topk_method": "greedy"}), encoding="utf-8")
    assert "expert_groups" not in read_config(path)
