"""Print the tables of docs/rings.md, each from runs that are made now.

``python docs/rings.py`` runs all of them, ``python docs/rings.py dense`` one. Progress goes to
stderr. Ignored: everything that `lightloom.simulate` ignores.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from lightloom import Result, Scenario, cost, simulate
from tables import show

RINGS = {"fabric.reconfigure.gradients": "rings"}
FABRICS: dict[str, dict[str, Any]] = {
    "fat-tree": {"fabric.preset": "fat-tree"},
    "rail-optimized": {"fabric.preset": "rail-optimized"},
    "fat-tree 3:1": {"fabric.preset": "fat-tree-3to1"},
    "topoopt": {"fabric.preset": "topoopt"},
    "MixNet": {"fabric.preset": "mixnet"},
    "MixNet, rings": {"fabric.preset": "mixnet", **RINGS},
}


def run(model: str, gpus: int, changes: dict[str, Any]) -> Result:
    """Run one iteration."""
    print(f"{model}, {gpus} GPUs: {changes}", file=sys.stderr)
    job = Scenario.preset(model, gpus=gpus, **{"engine.tolerance": 0.005, **changes})
    return simulate(job, progress=False)


def sums_s(result: Result) -> float:
    """Return how long sums of gradients of a stage take, one after the other [s]."""
    rows = result.tasks.to_pylist()
    kinds = ("dp_dense", "dp_expert")
    by_stage: dict[int, int] = {}
    for row in rows:
        if row["kind"] in kinds:
            took = row["end_ps"] - row["start_ps"]
            by_stage[row["stage"]] = by_stage.get(row["stage"], 0) + took
    return max(by_stage.values(), default=0) / 1e12


def noted(result: Result) -> str:
    """Return what the result notes of circuits for sums."""
    notes = [line for line in result.info["notes"] if "of gradients" in line]
    return notes[0].partition(": ")[2].partition(" between")[0] if notes else "-"


def dense() -> Iterator[tuple[str, ...]]:
    """Yield Llama 3 by fabric."""
    yield (
        *("model", "fabric", "iteration [s]", "sums of a stage [s]", "exposed, other [s]"),
        *("over circuits", "network [M$]", "pace to fat-tree", "per dollar"),
    )
    for model, gpus, more in (
        ("llama-3-70b", 256, {}),
        ("llama-3-70b", 256, {"parallelism.cp": 4, "training.sequence_length": 32768}),
        ("llama-3-405b", 1024, {}),
    ):
        first: tuple[float, float] | None = None
        for name, fabric in FABRICS.items():
            rate = {"fabric.link_bandwidth": "400 Gbps", "training.micro_batches": 8}
            changes = {**fabric, **rate, "training.micro_batch": 1, **more}
            result = run(model, gpus, changes)
            job = Scenario.preset(model, gpus=gpus, **changes)
            dollars = cost.cost_of(cost.bill_of(job), job.prices).total_usd
            row = result.rows[0]
            first = first or (row["iteration_s"], dollars)
            pace = first[0] / row["iteration_s"]
            yield (
                model + (f", CP {more['parallelism.cp']}" if more else ""),
                *(name, f"{row['iteration_s']:.3f}", f"{sums_s(result):.3f}"),
                *(f"{row['exposed_other_s']:.3f}", noted(result), f"{dollars / 1e6:.2f}"),
                *(f"{pace:.3f}", f"{pace * first[1] / dollars:.2f}"),
            )


def ingredients() -> Iterator[tuple[str, ...]]:
    """Yield Llama 3 70B by which NICs, at which rate, carry the same sums."""
    yield "fabric", "NICs that carry sums", "rate of them [Gbps]", "sums of a stage [ms]"
    many = "rail-optimized"
    for name, fabric, nics, rate in (
        ("MixNet, off", FABRICS["MixNet"], 2, 400),
        (many, FABRICS[many], 8, 100),
        ("MixNet, rings", FABRICS["MixNet, rings"], 6, 400),
        (many, FABRICS[many], 8, 300),
        (many, FABRICS[many], 8, 400),
    ):
        changes = {
            **fabric, "fabric.link_bandwidth": f"{rate} Gbps", "training.micro_batches": 8,
            "training.micro_batch": 1, "training.overlap_gradients": False,
        }  # fmt: skip
        took = sums_s(run("llama-3-70b", 256, changes))
        yield name, str(nics), str(nics * rate), f"{1e3 * took:.1f}"


def experts() -> Iterator[tuple[str, ...]]:
    """Yield jobs with experts by how long circuits are dark."""
    yield (
        *("job", "dark", "off [s]", "rings [s]", "always [s]", "over circuits, always"),
        *("sums of a stage, off [s]", "always [s]"),
    )
    for model, gpus, more in (
        ("mixtral-8x7b", 128, {"training.micro_batches": 8}),
        ("mixtral-8x7b", 128, {"training.micro_batches": 8, "training.overlap_gradients": False}),
        ("deepseek-r1", 1024, {"training.micro_batches": 4}),
    ):
        for dark in ("25 ms", "1 ms", "10 us"):
            base = {
                "fabric.preset": "mixnet", "fabric.link_bandwidth": "400 Gbps",
                "fabric.ocs.delay": dark, **more,
            }  # fmt: skip
            took = {
                asked: run(model, gpus, {**base, "fabric.reconfigure.gradients": asked})
                for asked in ("off", "rings", "always")
            }
            late = ", sums after" if more.get("training.overlap_gradients") is False else ""
            yield (
                *(f"{model}, {gpus} GPUs{late}", dark),
                *(f"{one.rows[0]['iteration_s']:.4f}" for one in took.values()),
                noted(took["always"]),
                *(f"{sums_s(took[asked]):.4f}" for asked in ("off", "always")),
            )


TABLES = {"dense": dense, "ingredients": ingredients, "experts": experts}

if __name__ == "__main__":
    show(TABLES, sys.argv[1:])
