"""Put a table into docs/models.md: published files on the fewest GPUs that hold them.

``python reproduce/models.py DIR`` reads every ``config.json`` of a directory. Of 256, 512, ... H100
the first number counts on which a layout fits with one sequence of 4,096 tokens in a micro-batch;
the layout is the fastest one by the flow engine (``lightloom parallelism``).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from lightloom import simulate
from lightloom.errors import InputError
from lightloom.memory import GIB, held
from lightloom.resolve import load_scenario
from lightloom.scenario import Scenario
from tables import put

GPUS = (256, 512, 1024, 2048)


def families(directory: Path) -> Iterator[tuple[str, ...]]:
    """Yield a row a file."""
    yield (
        *("config.json", "parameters, 10^9", "GPUs", "tp", "cp", "ep", "etp", "pp", "GiB a GPU"),
        *("recomputed", "iteration [s]", "MFU", "tokens/s a GPU", "all-to-all, critical"),
    )
    for path in sorted(directory.glob("*.json")):
        job = _least(path)
        split, found = job.parallelism, held(job)
        timed = job.with_({"training.recompute": found.recompute})
        row = simulate(timed, progress=False).rows[0]
        yield (
            path.stem, f"{job.model.parameters().total / 1e9:.2f}", str(job.cluster.gpus),
            *(str(split.tp), str(split.cp), str(split.ep), str(split.etp or split.tp)),
            *(str(split.pp), f"{found.fullest.total / GIB:.1f}", found.recompute),
            *(f"{row['iteration_s']:.3f}", f"{row['mfu']:.1%}"),
            f"{row['tokens_per_s_per_gpu']:.0f}",
            f"{row['exposed_a2a_s'] / row['iteration_s']:.0%}",
        )  # fmt: skip


def _least(path: Path) -> Scenario:
    """Return the job on the fewest GPUs that hold it."""
    for gpus in GPUS:
        print(f"{path.stem}, {gpus} GPUs", file=sys.stderr)
        tables = {
            "model": {"huggingface": str(path)}, "cluster": {"gpus": gpus},
            "compute": {"gpu": "h100"}, "training": {"micro_batch": 1, "micro_batches": 16},
        }  # fmt: skip
        try:
            return load_scenario(tables).scenario
        except InputError as error:
            print(f"  {error}", file=sys.stderr)
    raise SystemExit(f"{path}: fits on none of {GPUS}")


if __name__ == "__main__":
    put("models", "families", families(Path(sys.argv[1])))
