"""Print the tables of docs/routing.md.

``python docs/routing.py effect`` runs DeepSeek-R1 on three fabrics, some minutes. ``python
docs/routing.py draws`` compares what a token visits with tokens drawn one by one; ``gates`` does so
with the choices of gates that are trained for it (PyTorch: ``pip install 'torch>=2.4'``).
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lightloom
import numpy as np
import numpy.typing as npt
from lightloom import Scenario
from lightloom.trace import GatingTrace
from tables import show

Ints = npt.NDArray[np.int64]

FABRICS = ("fat-tree", "rail-optimized", "mixnet")
FREE = {"gating.group_limit": "off"}
LIMIT = {"gating.group_limit": "applied"}
ONCE = {"training.dispatch_copies": "server"}
RUNS = (
    ("a copy an expert, any experts", FREE),
    ("a copy an expert, of at most four groups", LIMIT),
    ("a copy a server, any experts", FREE | ONCE),
    ("a copy a server, of at most four groups", LIMIT | ONCE),
    ("the same, dispatched in FP8", LIMIT | ONCE | {"training.dispatch_bytes": 1}),
)


def effect() -> Iterator[tuple[str, ...]]:
    """Yield what copies and limits do to an iteration of DeepSeek-R1 on 1,024 H100."""
    yield "DeepSeek-R1, 400 Gbps", "servers a token", *(f"{name} s" for name in FABRICS)
    for called, settings in RUNS:
        cells, visits = [], "8 copies"
        for fabric in FABRICS:
            job = Scenario.preset("deepseek-r1", gpus=1024, fabric=fabric, bandwidth=400)
            job = job.with_({"engine.tolerance": 0.005, **settings})
            result = lightloom.simulate(job, progress=False)
            (row,) = result.runs.to_pylist()
            cells.append(f"{row['iteration_s']:.2f} ({row['exposed_a2a_s']:.2f})")
            if "servers_per_token" in row:
                visits = f"{row['servers_per_token']:.2f} ({row['other_servers_per_token']:.2f})"
            print(called, fabric, cells[-1], visits, file=sys.stderr)
        yield called, visits, *cells


def visited(ids: Ints, experts: int, parts: int) -> float:
    """Distinct parts of the experts that a token visits, on average; ids are [token, k]."""
    found = np.zeros((len(ids), parts), dtype=bool)
    np.put_along_axis(found, ids * parts // experts, True, axis=1)
    return float(found.sum(axis=1).mean())


def estimated(ids: Ints, experts: int, ranks: int, **changes: Any) -> dict[str, float]:
    """Return what is made of the counts of these choices alone, [source, token, k]."""
    top_k = ids.shape[2]
    counts = np.stack([np.bincount(of.ravel(), minlength=experts) for of in ids])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.parquet"
        GatingTrace(counts[None, None].astype(np.uint32), top_k).save(path)
        groups = {"model.expert_groups": 8, "model.groups_per_token": 4} if changes else {
            "model.expert_groups": 1, "model.groups_per_token": 1}  # fmt: skip
        job = Scenario.preset("deepseek-v3").with_({
            "model.layers": 1, "model.dense_layers": 0, "model.dense_intermediate": 0,
            "model.experts": experts, "model.top_k": top_k, "model.hidden": 512, **groups,
            "parallelism.ep": ranks, "parallelism.pp": 1, "cluster.gpus": ranks,
            "training.micro_batch": 1, "training.micro_batches": 1,
            "training.sequence_length": 1 << 16, "gating.trace": str(path), **ONCE, **changes,
        })  # fmt: skip
        (row,) = lightloom.simulate(job, progress=False).runs.to_pylist()
    return {key: row[key] for key in ("servers_per_token", "gpus_per_token")}


def draws() -> Iterator[tuple[str, ...]]:
    """Yield drawn tokens beside estimates, by how uneven experts are."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from test_routing import affinities, by_groups, highest

    yield "popularity", "choice", "servers drawn", "estimated", "GPUs drawn", "estimated"
    for heat in (0.0, 0.3, 0.8):
        scores = affinities(40_000, heat, np.random.default_rng(7))
        for called, ids, limit in (
            ("any experts", highest(scores, 8), {}),
            ("four groups first", by_groups(scores), {"gating.group_limit": "recorded"}),
        ):
            found = estimated(np.broadcast_to(ids, (64, *ids.shape)), 256, 64, **limit)
            yield (
                f"sd {heat}", called, f"{visited(ids, 256, 8):.3f}",
                f"{found['servers_per_token']:.3f}", f"{visited(ids, 256, 64):.3f}",
                f"{found['gpus_per_token']:.3f}",
            )  # fmt: skip


def gates() -> Iterator[tuple[str, ...]]:
    """Yield what tokens of trained gates visit, and the estimate from their counts alone."""
    import torch
    from lightloom.trace.corpus import standard_library, tokenize
    from lightloom.trace.record import Batches, Recording
    from lightloom.trace.tiny_moe import TinyMoe

    yield "gates", "layer", "servers visited", "estimated", "GPUs visited", "estimated"
    for experts, top_k in ((64, 4), (256, 8)):
        recording = Recording(experts=experts, top_k=top_k, sources=8, layers=3, sequences=4)
        batches = Batches(tokenize(*standard_library(), recording.vocabulary), recording)
        torch.manual_seed(1)
        model = TinyMoe(recording)
        optimizer = torch.optim.Adam(model.parameters(), lr=recording.learning_rate)
        for step in range(150):
            nats, balance, chosen = model(torch.from_numpy(batches.at(step)))
            optimizer.zero_grad()
            (nats + recording.balance * balance).backward()
            optimizer.step()
        for layer, choice in enumerate(chosen):
            ids = choice.numpy().reshape(-1, top_k)
            by_source = ids.reshape(8, -1, top_k)
            found = estimated(np.repeat(by_source, 8, axis=0), experts, 64)
            yield (
                f"{experts}, top-{top_k}", str(layer), f"{visited(ids, experts, 8):.3f}",
                f"{found['servers_per_token']:.3f}", f"{visited(ids, experts, 64):.3f}",
                f"{found['gpus_per_token']:.3f}",
            )  # fmt: skip


if __name__ == "__main__":
    show({"effect": effect, "draws": draws, "gates": gates}, sys.argv[1:])
