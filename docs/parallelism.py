"""Print the tables of docs/parallelism.md, each from runs that are made now.

``python docs/parallelism.py`` runs all of them, ``python docs/parallelism.py etp`` one. Progress
goes to stderr. Ignored: everything that `lightloom.simulate` ignores.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from lightloom import Scenario, simulate
from lightloom.memory import GIB, held
from tables import V3_RUN, V3_SLICE, show

# Two stages of seven and of four layers, as in the whole of eight and of sixteen; one sequence at a
# time. With ETP the same GPUs and stages carry the same tokens.
JOBS: dict[str, dict[str, Any]] = {
    "mixtral-8x22b": {
        "model.layers": 14,
        "parallelism.pp": 2,
        "parallelism.tp": 4,
        "cluster.gpus": 128,
    },
    "deepseek-v3": {**V3_SLICE, "parallelism.tp": 2, "cluster.gpus": 256},
}
SAME: dict[str, Any] = {**V3_RUN, "training.recompute": "none", "memory.oversize": "allow"}
FABRICS = ("fat-tree", "mixnet")
# By model: what ETP is; None: experts are shared by TP.
ETP = {"mixtral-8x22b": (None, 4, 2, 1), "deepseek-v3": (None, 2, 1)}


def etp() -> Iterator[tuple[str, ...]]:
    """Yield a row a model, fabric and ETP."""
    yield (
        *("model", "fabric", "tp", "ep", "etp", "GPUs of an EP group", "iteration [s]"),
        *("all-to-all, critical [s]", "other, critical [s]", "MFU", "GiB a GPU", "pace"),
    )
    for model, changes in JOBS.items():
        for fabric in FABRICS:
            first = 0.0
            for shards in ETP[model]:
                print(f"{model}, {fabric}, etp {shards}", file=sys.stderr)
                given = {} if shards is None else {"parallelism.etp": shards}
                values = {"fabric.preset": fabric, **SAME, **changes, **given}
                job = Scenario.preset(model, **values)
                row = simulate(job, progress=False).rows[0]
                first = first or row["iteration_s"]
                split = job.parallelism
                wide = split.ep * (split.etp or split.tp)
                yield (
                    *(model, fabric, str(split.tp), str(split.ep), str(shards or "-"), str(wide)),
                    *(f"{row['iteration_s']:.3f}", f"{row['exposed_a2a_s']:.3f}"),
                    *(f"{row['exposed_other_s']:.3f}", f"{row['mfu']:.3f}"),
                    f"{held(job).fullest.total / GIB:.1f}",
                    f"{first / row['iteration_s']:.3f}",
                )


def batches() -> Iterator[tuple[str, ...]]:
    """Yield a row a fabric and number of micro-batches: Mixtral 8x22B's time by ETP."""
    shards = (None, 2, 1)
    yield "fabric", "micro-batches", *(f"etp {each or '-'} [s]" for each in shards), "pace of etp 1"
    for fabric in FABRICS:
        for count in (8, 32):
            took = []
            for each in shards:
                print(f"{fabric}, {count}, etp {each}", file=sys.stderr)
                given = {} if each is None else {"parallelism.etp": each}
                values = {**SAME, **JOBS["mixtral-8x22b"], "training.micro_batches": count, **given}
                job = Scenario.preset("mixtral-8x22b", **{"fabric.preset": fabric, **values})
                took.append(simulate(job, progress=False).rows[0]["iteration_s"])
            times = (f"{each:.3f}" for each in took)
            yield fabric, str(count), *times, f"{took[0] / took[-1]:.3f}"


TABLES = {"etp": etp, "batches": batches}

if __name__ == "__main__":
    show(TABLES, sys.argv[1:])
