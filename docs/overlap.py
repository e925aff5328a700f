"""Print the tables of docs/overlap.md, each from runs that are made now.

``python docs/overlap.py`` runs all of them, ``python docs/overlap.py fabrics`` one. Progress goes
to stderr. Ignored: everything that `lightloom.simulate` ignores.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from lightloom import Scenario, simulate
from lightloom.overlap import alone
from tables import V3_RUN, V3_SLICE, show

JOB: dict[str, Any] = {**V3_SLICE, **V3_RUN, "cluster.gpus": 128}
FABRICS = ("fat-tree", "rail-optimized", "mixnet")
WAYS: dict[str, dict[str, Any]] = {
    "none": {},
    "zero bubble": {"training.schedule": "zero-bubble"},
    "two batches": {"training.overlap": "two-batches"},
    "DualPipe": {"training.overlap": "dualpipe"},
    "DualPipe, no SMs": {"training.overlap": "dualpipe", "training.communication_share": 0.0},
}


def figures(fabric: str, changes: dict[str, Any]) -> dict[str, float]:
    """Run one iteration; its figures in seconds."""
    print(f"{fabric}: {changes}", file=sys.stderr)
    job = Scenario.preset("deepseek-v3", **{"fabric.preset": fabric, **JOB, **changes})
    result = simulate(job, progress=False)
    return {**result.rows[0], "alone_s": alone(result.tasks)}


def fabrics(**more: Any) -> Iterator[tuple[str, ...]]:
    """Yield a row a way of overlapping and fabric."""
    yield (
        *("overlap", "fabric", "iteration [s]", "all-to-all, critical [s]"),
        *("all-to-all alone [s]", "dark [s]", "changes", "pace to fat-tree", "to none"),
    )
    first: dict[str, float] = {}
    for way, changes in WAYS.items():
        pace = 0.0
        for fabric in FABRICS:
            row = figures(fabric, {**changes, **more})
            pace = pace or row["iteration_s"]
            first.setdefault(fabric, row["iteration_s"])
            yield (
                *(way, fabric, f"{row['iteration_s']:.3f}", f"{row['exposed_a2a_s']:.3f}"),
                *(f"{row['alone_s']:.3f}", f"{row['reconfiguration_s']:.3f}"),
                *(f"{row['reconfigurations']:.0f}", f"{pace / row['iteration_s']:.3f}"),
                f"{first[fabric] / row['iteration_s']:.3f}",
            )


# As DeepSeek-V3 sends: each token once a server, to four groups at most, in FP8.
ONCE = {
    "training.dispatch_copies": "server",
    "gating.group_limit": "applied",
    "training.dispatch_bytes": 1,
}


def gradients() -> Iterator[tuple[str, ...]]:
    """Yield DualPipe's pace on MixNet by how many bytes gradients have."""
    yield "bytes of a gradient", *(f"{fabric} [s]" for fabric in FABRICS), "MixNet's pace"
    for size in (1, 2, 4):
        changes = WAYS["DualPipe"] | {"training.gradient_bytes": size}
        took = [figures(fabric, changes)["iteration_s"] for fabric in FABRICS]
        yield str(size), *(f"{each:.3f}" for each in took), f"{took[0] / took[-1]:.3f}"


TABLES = {
    "fabrics": lambda: fabrics(),
    "once": lambda: fabrics(**ONCE),
    "gradients": gradients,
}

if __name__ == "__main__":
    show(TABLES, sys.argv[1:])
