"""Put measured trainings that nothing was fitted to beside what is computed: docs/compute.md.

``python reproduce/compute.py benchmarks``. ``docs/data/trainings-measured.csv`` has them, with what
they ran and where it is published. None of the trainings of ``reproduce/compute.py trainings`` is
among them. Networks of two matrices are run as gated ones of two thirds of their width, which have
as many weights and FLOPs.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from typing import Any

from lightloom import Scenario, simulate
from tables import DOCS

TRAINING = {"compute.efficiency": "training"}
# What collectives reach. NCCL on NVLink of 450 GB/s, but for all-reduces in the switch: NVIDIA
# (github.com/NVIDIA/nccl-tests, issues 212 and 326); of 200 GB/s: DeepSeek-V3 (arXiv 2412.19437,
# Section 3.2.2). A NIC of 400 Gbps: 46 to 48 GB/s (nccl-tests, issue 290).
COLLECTIVES = {
    "h100": {"cluster.scale_up_bandwidth": "370 GB/s", "fabric.link_bandwidth": "376 Gbps"},
    "h800": {"cluster.scale_up_bandwidth": "160 GB/s", "fabric.link_bandwidth": "376 Gbps"},
}
# A training without one of its terms.
WITHOUT = {
    "rates that last": {
        "compute.matmul_sustained": 0.803,
        "compute.matmul_sustained_fp8": 0.709,
    },
    "sums in fp32": {"memory.gradient_bytes": 2},
    "loss": {"compute.loss_bytes": 0},
}
# A network without a time of its own.
FREE = {
    "fabric.link_bandwidth": "10 Tbps",
    "fabric.link_delay": "0 s",
    "cluster.scale_up_bandwidth": "12.5 TB/s",
    "cluster.scale_up_delay": "0 s",
}
# More micro-batches than so many are not run: each takes what one of the second half of `FEW` does.
MOST, FEW = 64, (16, 32)


def _dense(layers: int, hidden: int, words: int, heads: tuple[int, int, int], width: int) -> Any:
    attention = dict(zip(("heads", "kv_heads", "head_dim"), heads, strict=True))
    return {
        "model.layers": layers, "model.dense_layers": layers, "model.hidden": hidden,
        "model.vocabulary": words, "model.attention": {"kind": "gqa", **attention},
        "model.dense_intermediate": width,
    }  # fmt: skip


def _grok(layers: int) -> Any:
    return {
        **_dense(layers, 6144, 131072, (48, 8, 128), 0), "model.dense_layers": 0,
        "model.experts": 8, "model.top_k": 2, "model.expert_intermediate": 32768,
    }  # fmt: skip


# Shapes without a preset. config.json of meta-llama/Llama-3.1-8B and -70B; Nemotron-4: arXiv
# 2402.16819, Table 1 (15B), and 2406.11704, Table 1 (340B); GPT-3: arXiv 2005.14165, Table 2.1;
# github.com/xai-org/grok-1, run.py; MPT: mosaicml/llm-foundry, scripts/train/yamls/pretrain.
SHAPES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama-3.1-8b": ("llama-3-70b", _dense(32, 4096, 128256, (32, 8, 128), 14336)),
    "llama-3.1-70b": ("llama-3-70b", _dense(80, 8192, 128256, (64, 8, 128), 28672)),
    "nemotron-4-15b": ("llama-3-70b", _dense(32, 6144, 256000, (48, 8, 128), 24576 * 2 // 3)),
    "nemotron-4-340b": ("llama-3-70b", _dense(96, 18432, 256000, (96, 8, 192), 73728 * 2 // 3)),
    "gpt-3-175b": ("llama-3-70b", _dense(96, 12288, 51200, (96, 96, 128), 49152 * 2 // 3)),
    "mpt-7b": ("llama-3-70b", _dense(32, 4096, 50432, (32, 32, 128), 16384 * 2 // 3)),
    "mpt-13b": ("llama-3-70b", _dense(40, 5120, 50432, (40, 40, 128), 20480 * 2 // 3)),
    **{f"grok-1-{layers}": ("mixtral-8x7b", _grok(layers)) for layers in (2, 4, 8)},
}


def measured() -> list[dict[str, str]]:
    """Return the trainings that were measured, a row each."""
    path = DOCS / "data" / "trainings-measured.csv"
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def job(row: dict[str, str], more: dict[str, Any]) -> tuple[Scenario, int]:
    """Return a training's job with few micro-batches, and how many it has.

    Examples
    --------
    >>> one, count = job(measured()[0], TRAINING)
    >>> one.cluster.gpus, one.dp, count
    (8, 4, 32)
    """
    preset, shape = SHAPES.get(row["model"], (row["model"], {}))
    # Experts that have a split of their own are not cut by attention's.
    split = {key: int(row[key]) for key in ("tp", "cp", "pp", "ep", "etp") if row[key]}
    chunks = int(row["chunks"])
    replicas = int(row["gpus"]) // (split["tp"] * split["cp"] * split["pp"])
    count = int(row["batch"]) // (int(row["micro_batch"]) * replicas)
    values = {
        **shape,
        **{f"parallelism.{key}": value for key, value in split.items()},
        "cluster.gpus": int(row["gpus"]),
        "training.sequence_length": int(row["sequence"]),
        "training.micro_batch": int(row["micro_batch"]),
        "training.micro_batches": count if count <= MOST else max(FEW),
        "compute.products": row["products"],
        # What they compute anew is not said: nothing, and nothing is refused.
        "training.recompute": "none",
        "memory.oversize": "allow",
        **({"training.schedule": "interleaved", "training.virtual_stages": chunks}
           if chunks > 1 else {}),
        **({"gating.trace": "uniform"} if split["ep"] > 1 else {}),
    }  # fmt: skip
    return Scenario.preset(preset, **{**values, **more}), count


def step_s(row: dict[str, str], more: dict[str, Any]) -> float:
    """Return how long an iteration of a training takes [s]."""
    base, count = job(row, more)

    def took(batches: int) -> float:
        once = base.with_({"training.micro_batches": batches})
        return float(simulate(once, progress=False).rows[0]["iteration_s"])

    if count <= MOST:
        return took(count)
    few, many = map(took, FEW)
    return many + (many - few) / (FEW[1] - FEW[0]) * (count - FEW[1])


def benchmarks() -> Iterator[tuple[str, ...]]:
    """Yield a row a training: its step as measured and as found, and what terms take of it."""
    yield (
        "training", "kind", "products", "GPUs", "measured [s]", "by shape", "`training`",
        "collectives as measured", "without communication", *WITHOUT,
    )  # fmt: skip
    for row in measured():
        step = float(row["step_s"])
        shape = step_s(row, {"compute.efficiency": "shape"})
        training = step_s(row, TRAINING)
        collectives = step_s(row, {**TRAINING, **COLLECTIVES["h100"]})
        free = step_s(row, {**TRAINING, **FREE})
        ways = (shape, training, collectives, free)
        terms = [1 - step_s(row, {**TRAINING, **less}) / training for less in WITHOUT.values()]
        cells = (
            row["training"], row["kind"], row["products"], row["gpus"], row["step_s"],
            *(f"{took:.2f} ({step / took - 1:+.0%})" for took in ways),
            *(f"{term:.1%}" for term in terms),
        )  # fmt: skip
        print(*cells, sep="; ", file=sys.stderr)
        yield cells
