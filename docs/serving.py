"""Print the tables of docs/serving.md, each from runs that are made now.

``python docs/serving.py`` runs all of them, ``python docs/serving.py prefill`` one. Progress goes
to stderr. Ignored: everything that `lightloom.simulate` ignores.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from lightloom import Scenario, simulate
from lightloom.overlap import alone
from tables import show

# As DeepSeek serves: FP8 weights and dispatch, BF16 cache and combine; loads are balanced by copies
# of hot experts, which even gates stand for.
BASE: dict[str, Any] = {
    "parallelism.pp": 1,
    "training.weight_bytes": 1,
    "training.dispatch_bytes": 1,
    "gating.trace": "uniform",
    "memory.oversize": "allow",  # 256 sequences on H800, which the page says
}
SERVERS: dict[str, dict[str, Any]] = {
    "8 x H800, 400G": {
        **{"fabric.preset": "fat-tree", "fabric.link_bandwidth": "400 Gbps"},
        "compute.gpu": "h800",
    },
    "8 x B200, 400G": {
        **{"fabric.preset": "fat-tree", "fabric.link_bandwidth": "400 Gbps"},
        "compute.gpu": "b200",
    },
    "NVL72 of B200": {"fabric.preset": "nvl72", "compute.gpu": "b200"},
}
# Average context of an output token, in the overview of DeepSeek's inference system.
CONTEXT = 4989


def figures(changes: dict[str, Any]) -> dict[str, float]:
    """Run one forward pass; its figures, times in seconds."""
    print(changes, file=sys.stderr)
    job = Scenario.preset("deepseek-v3", **{**BASE, **changes})
    result = simulate(job, progress=False)
    first = [row for row in result.tasks.to_pylist() if row["replica"] == 0]

    def spent(*kinds: str) -> float:
        return sum(r["end_ps"] - r["start_ps"] for r in first if r["kind"] in kinds) / 1e12

    sent = spent("dispatch", "combine")
    computed = spent("attention", "gate", "expert", "dense_mlp", "embedding", "head")
    each = {"a2a_s": sent, "computed_s": computed, "attention_s": spent("attention")}
    return {**result.rows[0], **each, "alone_s": alone(result.tasks)}


def row(label: tuple[str, ...], found: dict[str, float]) -> tuple[str, ...]:
    """Write figures as a row."""
    ms = [f"{1e3 * found[key]:.1f}" for key in ("iteration_s", "computed_s", "a2a_s", "alone_s")]
    per_gpu = found["tokens_per_s_per_gpu"]
    speed = (f"{per_gpu:,.0f}", f"{8 * per_gpu:,.0f}")
    return (*label, *ms, f"{found['alone_s'] / found['iteration_s']:.0%}", *speed)


COLUMNS = (
    *("pass [ms]", "computation [ms]", "all-to-alls [ms]", "alone [ms]", "alone"),
    *("tokens/s a GPU", "of 8 GPUs"),
)


def halves(overlap: str, batch: int) -> dict[str, Any]:
    """Return a GPU's batch as one micro-batch, or as two that overlap."""
    count = 1 if overlap == "none" else 2
    of = {"training.micro_batch": max(1, batch // count), "training.micro_batches": count}
    return {"training.overlap": overlap, **of}


def prefill() -> Iterator[tuple[str, ...]]:
    """Prompts of 4,096 tokens, four a GPU, on 32 GPUs."""
    yield ("servers", "a GPU", "overlap", *COLUMNS)
    for name, servers in SERVERS.items():
        for overlap in ("none", "two-batches"):
            ep = 64 if "NVL72" in name else 32
            split = {"parallelism.ep": ep, "cluster.gpus": ep, "training.mode": "prefill"}
            found = figures({**servers, **split, **halves(overlap, 4)})
            yield row((f"{name}, EP {ep}", "4", overlap), found)


def decode() -> Iterator[tuple[str, ...]]:
    """One token of each of so many sequences a GPU."""
    yield ("servers", "a GPU", "overlap", *COLUMNS)
    for name, servers in SERVERS.items():
        ep = 64 if "NVL72" in name else 128
        for batch in (16, 32, 64, 128, 256):
            for overlap in ("none", "two-batches"):
                changes = {
                    **{"parallelism.ep": ep, "cluster.gpus": ep, "training.mode": "decode"},
                    "training.sequence_length": CONTEXT,
                    # DeepEP's kernels for decoding need none while tokens travel.
                    "training.communication_share": 0.0,
                }
                found = figures({**servers, **changes, **halves(overlap, batch)})
                yield row((f"{name}, EP {ep}", str(batch), overlap), found)


def once() -> Iterator[tuple[str, ...]]:
    """Prompts as above on H800, with a copy of a token an expert, and a server."""
    yield ("copies", "a GPU", "overlap", *COLUMNS)
    split = {"parallelism.ep": 32, "cluster.gpus": 32, "training.mode": "prefill"}
    for copies in ("expert", "server"):
        for overlap in ("none", "two-batches"):
            changes = {**split, "training.dispatch_copies": copies, **halves(overlap, 4)}
            found = figures({**SERVERS["8 x H800, 400G"], **changes})
            yield row((copies, "4", overlap), found)


TABLES = {"prefill": prefill, "decode": decode, "once": once}

if __name__ == "__main__":
    show(TABLES, sys.argv[1:])
