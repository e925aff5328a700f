"""Print the tables of docs/overlap.md, each from runs that are made now.

``python docs/overlap.py`` runs all of them, ``python docs/overlap.py fabrics`` one. Progress goes
to stderr. Ignored: everything that `lightloom.simulate` ignores.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from lightloom import Scenario
from lightloom.overlap import alone
from lightloom.simulation import run_all

# An eighth of DeepSeek-V3's pipeline: two stages of four layers, each as in the whole of sixteen.
JOB: dict[str, Any] = {
    "model.layers": 8,
    "model.dense_layers": 0,
    "model.dense_intermediate": 0,
    "parallelism.pp": 2,
    "cluster.gpus": 128,
    "training.micro_batch": 1,
    "training.micro_batches": 8,
    "engine.tolerance": 0.005,
    "fabric.link_bandwidth": "400 Gbps",
}
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
    runs = run_all([job], priced=False)
    if runs.stopped is not None:
        raise runs.stopped
    done = runs.finished[0]
    return {**done.row, "alone_s": alone(done.tables["tasks"])}


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


TABLES = {
    "fabrics": lambda: fabrics(),
    "fp8": lambda: fabrics(**{"training.dispatch_bytes": 1}),
    "large": lambda: fabrics(**{"training.micro_batch": 4}),
}


def main() -> None:
    """Print the tables that are asked for."""
    for name in sys.argv[1:] or TABLES:
        rows = TABLES[name]()
        for at, row in enumerate(rows):
            print("| " + " | ".join(row) + " |", flush=True)
            if not at:
                print("|" + " --- |" * len(row))
        print()


if __name__ == "__main__":
    main()
