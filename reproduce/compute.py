"""Put tables into docs/compute.md: times by shape, and whole trainings, beside what was published.

``python reproduce/compute.py products`` puts the curve beside DeepGEMM's table, ``benchmarks``
times beside measured trainings (``benchmarks.py``), ``trainings`` the utilisation of four trainings
beside what their publications say, with and without communication. No constant was chosen on
any. ``measure FILE`` runs the shapes of all these trainings on a CUDA device, and writes a
compute table.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import COLLECTIVES, FREE, TRAINING, benchmarks, job, measured
from lightloom import Scenario, _core, kernel_times, presets, simulate
from lightloom.compute_table import read_table
from lightloom.runs.scenario import speed
from tables import DOCS, put


@dataclass(frozen=True)
class Training:
    """A published training, as far as it can be run.

    Parameters
    ----------
    published
        Model FLOPs utilisation.
    replicas, micro_batches
        That are run. Where two numbers of micro-batches are, time grows by as much for each one up
        to `wanted`, the job's.
    """

    name: str
    preset: str
    values: dict[str, Any]
    published: float
    replicas: int
    micro_batches: tuple[int, ...]
    wanted: int
    split: dict[str, int] = field(default_factory=dict)


LLAMA = {
    "training.sequence_length": 8192,
    "training.micro_batch": 1,
    "training.schedule": "interleaved",
}


def _llama(gpus: str, chunks: int, micro_batches: int, published: float) -> Training:
    """Return the 405B with so many chunks a stage, of which the report says nothing."""
    # 126 layers do not fill 128 chunks: the report leaves the first and the last one empty.
    layers = {"model.layers": 128, "model.dense_layers": 128} if chunks == 8 else {}
    return Training(
        f"Llama 3 405B, {gpus} H100, {chunks} chunks a stage{' of 128 layers' if layers else ''}",
        "llama-3-405b", {**LLAMA, **layers, "training.virtual_stages": chunks},
        published, 4, (micro_batches,), micro_batches,
    )  # fmt: skip


MOE = {
    "gating.trace": "uniform",
    "training.sequence_length": 4096,
    "training.micro_batch": 1,
    "training.schedule": "interleaved",
    "training.virtual_stages": 7,
}
DEEPSEEK = {
    "gating.trace": "uniform",
    "training.sequence_length": 4096,
    "training.micro_batch": 1,
    "training.dispatch_bytes": 1,
    "compute.gpu": "h800",
    "compute.products": "fp8",
}
# Times by shape go with these.
SHARES = (
    "compute.matmul_ceiling", "compute.matmul_ceiling_fp8", "compute.matmul_sustained",
    "compute.matmul_sustained_fp8", "compute.scores_efficiency",
)  # fmt: skip


def shares(job: Scenario, of: float) -> dict[str, float]:
    """Return so much of what products and attention of a job reach at most."""
    return {key: of * getattr(job.compute, key.partition(".")[2]) for key in SHARES}


# Communication takes 20 of 132 multiprocessors (arXiv 2412.19437, Section 3.2.2).
LEFT = 112 / 132
FEWER_SMS = {
    "compute.sms": 112, **shares(Scenario.preset("deepseek-v3", compute={"gpu": "h800"}), LEFT),
}  # fmt: skip
# arXiv 2412.19437, Sections 3.2.1 to 3.2.3.
AS_TRAINED = {
    "training.overlap": "dualpipe",
    "training.dispatch_copies": "server",
    "gating.group_limit": "applied",
    "training.recompute": "selective",
    "training.recompute_modules": ["norms", "activations", "mla_up_proj"],
    # SwiGLU's inputs are kept at 8 bits there (Section 3.3.3), which is not counted.
    "memory.oversize": "allow",
}
# A layer that predicts one more token.
PREDICTION = {"model.layers": 62}
SPLIT_V3 = {"tp": 1, "ep": 64, "pp": 16}
# arXiv 2407.21783, Table 4; 2504.14960, Table 1; 2412.19437, Table 1 and 2505.09343, Table 4.
TRAININGS = (
    *(_llama("8,192", chunks, 32, 0.43) for chunks in (2, 4, 8)),
    *(_llama("16,384", chunks, 16, 0.41) for chunks in (4, 8)),
    Training("Mixtral 8x22B, 128 H100, experts cut by TP 2", "mixtral-8x22b", MOE,
             0.493, 1, (32,), 32, {"tp": 2, "ep": 8, "pp": 8}),
    Training("Mixtral 8x22B, 128 H100, ETP 1", "mixtral-8x22b", MOE, 0.493, 2, (32,), 32,
             {"tp": 2, "ep": 8, "pp": 8, "etp": 1}),
    *(
        Training(f"Qwen2-57B-A14B, 64 H100, TP {tp}, EP {ep}, PP {pp}", "qwen2-57b-a14b", MOE,
                 0.390, 64 // (tp * ep * pp), (count,), count, {"tp": tp, "ep": ep, "pp": pp})
        for tp, ep, pp, count in ((1, 8, 4, 16), (2, 4, 4, 32), (2, 8, 4, 32), (4, 4, 4, 64))
    ),
    *(
        Training(f"Qwen2-57B-A14B, 64 H100, TP {tp}, EP {ep}, ETP 1, PP 4", "qwen2-57b-a14b", MOE,
                 0.390, 16 // max(tp, ep), (count,), count, {"tp": tp, "ep": ep, "pp": 4, "etp": 1})
        for tp, ep, count in ((2, 4, 32), (2, 8, 32), (4, 4, 64))
    ),
    Training("DeepSeek-V3, 2,048 H800, nothing overlapped", "deepseek-v3", DEEPSEEK,
             0.389, 1, (16, 32), 120, SPLIT_V3),
    Training("DeepSeek-V3, DualPipe, a copy a server, four groups, modules anew", "deepseek-v3",
             {**DEEPSEEK, **AS_TRAINED}, 0.389, 1, (32, 48), 120, SPLIT_V3),
    Training("DeepSeek-V3, all communication hidden, on 112 of 132 multiprocessors", "deepseek-v3",
             {**DEEPSEEK, **FEWER_SMS, **FREE}, 0.389, 1, (16, 32), 120, SPLIT_V3),
    Training("the same with a layer more, for prediction", "deepseek-v3",
             {**DEEPSEEK, **FEWER_SMS, **PREDICTION, **FREE}, 0.389, 1, (16, 32), 120, SPLIT_V3),
)  # fmt: skip


def products() -> Iterator[tuple[str, ...]]:
    """Yield a row a shape: the published rate, the curve's, and their ratio."""
    yield "groups", "m", "n", "k", "published", "curve", "error"
    by_shape = {"gpu": "h800", "efficiency": "shape", "products": "fp8"}
    job = Scenario.preset("deepseek-v3", compute=by_shape)
    compute = json.dumps(job.to_core()["compute"])
    # DeepGEMM's README of February 2025 (github.com/deepseek-ai/DeepGEMM), FP8 on H800 [Tflop/s]:
    # dense, grouped as a training's experts are, grouped as in decoding.
    table = csv.reader((DOCS / "data" / "deepgemm-h800-fp8.csv").open(encoding="utf-8"))
    there = [tuple(map(int, row)) for row in list(table)[1:]]
    asked = [(m, n, k, groups, True) for groups, m, n, k, _ in there]
    errors = []
    for (groups, m, n, k, published), (seconds, _) in zip(
        there, _core.product_times(compute, asked), strict=True
    ):
        found = 2 * groups * m * n * k / seconds / 1e12
        errors.append(abs(found / published - 1))
        cells = (groups, m, n, k, published, f"{found:.0f}", f"{found / published - 1:+.0%}")
        yield tuple(map(str, cells))
    worst = max(errors)
    print(f"mean {sum(errors) / len(errors):.3f}, worst {worst:.3f}", file=sys.stderr)


def kernels() -> Iterator[tuple[str, ...]]:
    """Yield a row a preset: its products as an H100 took them, and by the curve."""
    table = read_table(DOCS / "data" / "h100-kernels.toml")
    took = {
        tuple(row[key] for key in ("m", "n", "k", "groups", "dtype")):
            _core.parse_time(row["time"]) / 1e12 for row in table["matmul"]
    }  # fmt: skip
    ways = ("shape", "training")
    yield "model", "products of 1 ms and more", "measured [ms]", "by shape", "`training`"
    everything: dict[tuple[Any, ...], tuple[float, ...]] = {}
    for name in presets.names("models"):
        jobs = [
            Scenario.preset(name, compute={"gpu": "h100", "products": products},
                            memory={"oversize": "allow"})
            for products in ("bf16", "fp8")
        ]  # fmt: skip
        shapes = {
            tuple(kernel.sizes.values())
            for kernel in kernel_times.kernels(*jobs, loads=(0.5, 1.0, 2.0))
            if kernel.kind == "matmul"
        }
        of = [shape for shape in took if shape in shapes]
        if of:
            rows = _beside(of, took, ways)
            everything.update(zip(of, rows, strict=True))
            yield _summed(name, rows)
    of = [shape for shape in took if shape not in everything]
    rest = _beside(of, took, ways)
    yield _summed("published trainings, what else they have", rest)
    found = [*everything.values(), *rest]
    yield _summed("each once", found)
    for number, way in enumerate(ways, 1):
        errors = [row[number] / row[0] - 1 for row in found]
        inside = sum(abs(error) < 0.15 for error in errors) / len(errors)
        print(f"{way}: {len(errors)} products, mean {sum(errors) / len(errors):+.3f}, absolute "
              f"{sum(map(abs, errors)) / len(errors):.3f}, {inside:.0%} within 15 %, "
              f"{min(errors):+.2f} to {max(errors):+.2f}", file=sys.stderr)  # fmt: skip


def _beside(
    shapes: Sequence[tuple[Any, ...]], took: Mapping[tuple[Any, ...], float], ways: Sequence[str]
) -> list[tuple[float, ...]]:
    """Return of each product the time measured, and that by each way [s]."""
    asked = [(*shape[:4], shape[4] == "fp8") for shape in shapes]
    columns = [[took[shape] for shape in shapes]]
    for way in ways:
        job = Scenario.preset("deepseek-v3", compute={"gpu": "h100", "efficiency": way})
        compute = json.dumps(job.to_core()["compute"])
        columns.append([seconds for seconds, _ in _core.product_times(compute, asked)])
    return list(zip(*columns, strict=True))


def _summed(name: str, rows: Sequence[tuple[float, ...]]) -> tuple[str, ...]:
    took, *ways = (sum(column) for column in zip(*rows, strict=True))
    return name, str(len(rows)), f"{took * 1e3:.0f}", *(f"{way / took - 1:+.0%}" for way in ways)


def trainings() -> Iterator[tuple[str, ...]]:
    """Yield a row a training: its utilisation as published, and as found in five ways."""
    yield (
        "training", "published", "by shape", "`training`", "collectives as measured",
        "without communication", "half of the peak for all", "tokens/s a GPU",
    )  # fmt: skip
    for one in TRAININGS:
        free = all(one.values.get(key) == value for key, value in FREE.items())
        collectives = {} if free else COLLECTIVES[_job(one).compute.gpu]
        shape = _speed(one, {"compute.efficiency": "shape"})
        training = _speed(one, TRAINING)
        found = _speed(one, {**TRAINING, **collectives})
        bare = _speed(one, {**TRAINING, **FREE})

        def beside(mfu: float, published: float = one.published) -> str:
            return f"{mfu:.1%} ({mfu / published - 1:+.0%})"

        cells = (
            one.name, f"{one.published:.1%}",
            *(beside(way["mfu"]) for way in (shape, training, found)),
            f"{bare['mfu']:.1%}", f"{_speed(one, {})['mfu']:.1%}",
            f"{found['tokens_per_s_per_gpu']:.0f}",
        )  # fmt: skip
        print(*cells, f"full {found['mfu_full_attention']:.3f}", sep="; ", file=sys.stderr)
        yield cells


def _speed(one: Training, more: dict[str, Any]) -> dict[str, float]:
    """Return the figures of speed of a training's own number of micro-batches."""
    base = _job(one).with_(more)
    times = []
    for count in one.micro_batches:
        job = base.with_({"training.micro_batches": count})
        row = simulate(job, progress=False).rows[0]
        times.append((count, row["iteration_s"]))
        parts = {k: round(row[k], 3) for k in ("iteration_s", "compute_s", "exposed_a2a_s",
                                               "exposed_other_s")}  # fmt: skip
        print(f"  {one.name} {sorted(more)[:2]} {count}: {parts}", file=sys.stderr)
    (count, took), *rest = times
    if rest:
        each = (rest[0][1] - took) / (rest[0][0] - count)
        took += each * (one.wanted - count)
    return speed(base.with_({"training.micro_batches": one.wanted}), took)


def _job(one: Training) -> Scenario:
    """Return a training as far as it is run."""
    split = {f"parallelism.{key}": value for key, value in one.split.items()}
    return Scenario.preset(one.preset, **{**split, **one.values, **_filled(one, split)})


def _filled(one: Training, split: dict[str, int]) -> dict[str, Any]:
    """Return the GPUs of as many replicas as are run, and any number of micro-batches that fits."""
    own = Scenario.preset(one.preset, **split).parallelism if split else None
    parallelism = own or Scenario.preset(one.preset, gpus=1024).parallelism
    gpus = parallelism.block * parallelism.pp * one.replicas
    return {"cluster.gpus": gpus, "training.micro_batches": one.micro_batches[0]}


def measure(out: Path) -> None:
    """Measure the kernels of every training on a GPU that is there."""
    jobs = [_job(one) for one in TRAININGS] + [job(row, {})[0] for row in measured()]
    kernel_times.measure(
        *jobs, out=out, loads=(1.0,), repeats=10,
        command="python reproduce/compute.py measure FILE",
        on_kernel=lambda done, of, kernel, said: print(
            f"{done}/{of} {kernel.text}: {said}", file=sys.stderr, flush=True
        ),
    )  # fmt: skip


if __name__ == "__main__":
    table = sys.argv[1]
    if table == "measure":
        sys.exit(measure(Path(sys.argv[2])))
    tables = {"products": products, "benchmarks": benchmarks, "trainings": trainings,
              "kernels": kernels}  # fmt: skip
    put("compute", table, tables[table]())
