"""Print the table of docs/effects.md: what each way to run DeepSeek-V3 gives, and all of them.

``python docs/effects.py`` runs it. Progress goes to stderr. Ignored: everything that
`lightloom.simulate` ignores.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from lightloom import Scenario, simulate
from lightloom.memory import GIB, held
from tables import V3_RUN, V3_SLICE, show

JOB: dict[str, Any] = {
    **V3_SLICE,
    **V3_RUN,
    "cluster.gpus": 128,
    "training.recompute": "none",
    "memory.oversize": "allow",
}
FABRICS = ("fat-tree", "mixnet")
ONCE = {"training.dispatch_copies": "server", "gating.group_limit": "applied"}
EIGHT = {"training.dispatch_bytes": 1}
MODULES = {
    "training.recompute": "selective",
    "training.recompute_modules": ["norms", "activations", "mla_up_proj"],
}
DUALPIPE = {"training.overlap": "dualpipe"}
# Two sequences go to two GPUs that share attention, so that each GPU has as many tokens.
SHARED = {"parallelism.tp": 2, "training.micro_batch": 2}
WAYS: dict[str, dict[str, Any]] = {
    "none of them": {},
    "two batches": {"training.overlap": "two-batches"},
    "DualPipe": DUALPIPE,
    "one copy a server": {"training.dispatch_copies": "server"},
    "the same, four groups at most": ONCE,
    "FP8 dispatch": EIGHT,
    "modules anew": MODULES,
    "whole layers anew": {"training.recompute": "full"},
    "TP 2, which shares experts, EP 32": {**SHARED, "parallelism.ep": 32},
    "TP 2, ETP 1, EP 64": {**SHARED, "parallelism.etp": 1},
    "as DeepSeek-V3 trains": {**DUALPIPE, **ONCE, **EIGHT, **MODULES},
    "the same without DualPipe": {**ONCE, **EIGHT, **MODULES},
    "the same without the group limit, and a copy an expert": {**DUALPIPE, **EIGHT, **MODULES},
    "the same without FP8 dispatch": {**DUALPIPE, **ONCE, **MODULES},
}


def effects() -> Iterator[tuple[str, ...]]:
    """Yield a row a way of running."""
    names = [f"{name} [s]" for name in FABRICS]
    paces = [f"{name}, pace to none" for name in FABRICS]
    yield "way", *names, *paces, "all-to-all, critical, fat-tree [s]", "MFU, fat-tree", "GiB a GPU"
    first: dict[str, float] = {}
    for way, changes in WAYS.items():
        took, rows = [], []
        for fabric in FABRICS:
            print(f"{way}, {fabric}", file=sys.stderr)
            job = Scenario.preset("deepseek-v3", **{"fabric.preset": fabric, **JOB, **changes})
            rows.append(simulate(job, progress=False).rows[0])
            took.append(float(rows[-1]["iteration_s"]))
            first.setdefault(fabric, took[-1])
        paces = [f"{first[fabric] / one:.3f}" for fabric, one in zip(FABRICS, took, strict=True)]
        yield (
            way, *(f"{one:.3f}" for one in took), *paces, f"{rows[0]['exposed_a2a_s']:.3f}",
            f"{100 * float(rows[0]['mfu']):.1f}%", f"{held(job).fullest.total / GIB:.1f}",
        )  # fmt: skip


if __name__ == "__main__":
    show({"effects": effects}, sys.argv[1:])
