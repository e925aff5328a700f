"""Print the tables of docs/serving.md, each from runs that are made now.

``python docs/serving.py`` runs all of them, ``python docs/serving.py prefill`` one. Progress goes
to stderr. Ignored: everything that `lightloom.simulate` ignores.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from lightloom import Scenario
from lightloom.overlap import alone
from lightloom.simulation import run_all

# As DeepSeek serves: FP8 weights and dispatch, BF16 cache and combine; loads are balanced by copies
# of hot experts, which even gates stand for.
BASE: dict[str, Any] = {
    "parallelism.pp": 1,
    "training.weight_bytes": 1,
    "training.dispatch_bytes": 1,
    "gating.trace": "uniform",
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
    runs = run_all([job], priced=False)
    if runs.stopped is not None:
        raise runs.stopped
    done = runs.finished[0]
    rows = done.tables["tasks"].to_pylist()
    first = [row for row in rows if row["replica"] == 0]

    def spent(*kinds: str) -> float:
        return sum(r["end_ps"] - r["start_ps"] for r in first if r["kind"] in kinds) / 1e12

    sent = spent("dispatch", "combine")
    computed = spent("attention", "gate", "expert", "dense_mlp", "embedding", "head")
    each = {"a2a_s": sent, "computed_s": computed, "attention_s": spent("attention")}
    gpus = job.cluster.gpus
    per_gpu = done.row["tokens_per_s"] / gpus
    return {**done.row, **each, "alone_s": alone(done.tables["tasks"]), "per_gpu": per_gpu}


def row(label: tuple[str, ...], found: dict[str, float]) -> tuple[str, ...]:
    """Write figures as a row."""
    ms = [f"{1e3 * found[key]:.1f}" for key in ("iteration_s", "computed_s", "a2a_s", "alone_s")]
    speed = (f"{found['per_gpu']:,.0f}", f"{8 * found['per_gpu']:,.0f}")
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
    yield ("servers", "overlap", *COLUMNS)
    for name, servers in SERVERS.items():
        for overlap in ("none", "two-batches"):
            ep = 64 if "NVL72" in name else 32
            split = {"parallelism.ep": ep, "cluster.gpus": ep, "training.mode": "prefill"}
            found = figures({**servers, **split, **halves(overlap, 4)})
            yield row((f"{name}, EP {ep}", overlap), found)


def decode() -> Iterator[tuple[str, ...]]:
    """One token of each of so many sequences a GPU."""
    yield ("servers", "sequences a GPU", "overlap", *COLUMNS)
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


TABLES = {"prefill": prefill, "decode": decode}


def main() -> None:
    """Print the tables that are asked for."""
    for name in sys.argv[1:] or TABLES:
        for at, cells in enumerate(TABLES[name]()):
            print("| " + " | ".join(cells) + " |", flush=True)
            if not at:
                print("|" + " --- |" * len(cells))
        print()


if __name__ == "__main__":
    main()
