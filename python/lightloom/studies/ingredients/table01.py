"""Table 1: an iteration with each ingredient on and off, four models, two rates, three demands.

Modelled: one replica of each model at its parallelism, four micro-batches, links of one rate;
all-to-alls as `fabric.carrier = "auto"` has them where a row does not say. Demands: *even*, every
expert alike; *recorded*, the shipped trace; *skewed*, in each layer servers of a region in a
circle, drawn anew, that send the next one 2.5 times the mean of a pair, with even experts.
Ignored: MixNet without regions, one switch for all servers, which no preset is.
Checked: runs are told apart, in ``tests/test_study.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

from lightloom.papers.mixnet.jobs import PRINTED, some, when
from lightloom.papers.part import Context, Line, Part, Picture, Rows
from lightloom.papers.runs import Run

NUMBER = 1
TITLE = "What each ingredient of MixNet gives"
MICRO_BATCHES = 4
SKEW = 2.5
RATES = (100, 400)


class Job(NamedTuple):
    """A model, and how large a replica of it is."""

    gpus: int
    region_servers: int


JOBS: Mapping[str, Job] = {
    "mixtral-8x7b": Job(128, 4),
    "mixtral-8x22b": Job(512, 8),
    "qwen-moe-32": Job(128, 4),
    "deepseek-r1": Job(1024, 8),
}

ROWS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "eight packet NICs, direct": ("fat-tree", {"fabric.carrier": "direct"}),
    "eight packet NICs, delegated": ("mixnet-all-packet", {}),
    "two packet NICs, delegated": ("mixnet-unplugged", {}),
    "all circuits set once (TopoOpt)": ("topoopt", {}),
    "regional circuits, never changed": ("mixnet", when("reuse", "reuse")),
    "changed by Algorithm 1, as printed": ("mixnet", {**PRINTED, **when("block")}),
    "changed by time, no hysteresis": ("mixnet", {"fabric.hysteresis": False}),
    "changed by time: the preset": ("mixnet", {}),
    "the preset, first demand predicted": ("mixnet", when("predict")),
    "the preset, first demand known": ("mixnet", when("hide")),
}
"""What is on, by row: a preset and what is changed of it."""


def demands(model: str) -> dict[str, dict[str, Any]]:
    """Return what says each demand of a model.

    >>> demands("deepseek-r1")["skewed"]["gating.knobs.servers"]
    8
    """
    skewed = {
        "gating.trace": "pair-skew",
        "gating.knobs.servers": JOBS[model].region_servers,
        "gating.knobs.skew": SKEW,
    }
    return {"even": {"gating.trace": "uniform"}, "recorded": {}, "skewed": skewed}


def run(model: str, gbps: int, demand: str, row: str) -> Run:
    """Return the run of a cell.

    >>> run("mixtral-8x7b", 400, "even", "changed by time: the preset").gpus
    128
    """
    fabric, changes = ROWS[row]
    values: dict[str, Any] = {
        "fabric.carrier": "auto",
        "fabric.link_bandwidth": f"{gbps} Gbps",
        "training.micro_batches": MICRO_BATCHES,
        **demands(model)[demand],
        **changes,
    }
    return Run(model, fabric, JOBS[model].gpus, tuple(values.items()))


def parts() -> tuple[Part, ...]:
    """Return a piece a model and rate."""
    return tuple(
        Part(
            f"table 1 {model} {gbps} Gbps",
            partial(_rows, model=model, gbps=gbps),
            runs=tuple(run(model, gbps, demand, row) for demand in demands(model) for row in ROWS),
        )
        for model in JOBS
        for gbps in RATES
    )


def _rows(context: Context, *, model: str, gbps: int) -> Rows:
    made = []
    for demand in demands(model):
        for row in ROWS:
            one = context.outcomes[run(model, gbps, demand, row)]
            made.append({
                "model": model, "gbps": gbps, "demand": demand, "row": row, **one.split,
                "reconfigurations": one.reconfigurations, "cost_usd": one.cost_usd,
            })  # fmt: skip
    return made


def lines(rows: Rows) -> list[Line]:
    """Return each row's iterations, those of the three demands beside each other."""
    made = []
    for model in JOBS:
        for gbps in RATES:
            mine = some(rows, model=model, gbps=gbps)
            for row in ROWS:
                found = [some(mine, demand=demand, row=row)[0] for demand in demands(model)]
                times = " / ".join(f"{one['iteration_s']:.2f}" for one in found)
                made.append(
                    Line(NUMBER, f"{model}, {gbps} Gbps", "/".join(demands(model)), row, times)
                )
    return made


def draw(rows: Rows) -> Picture:
    """Tables are not drawn."""
    raise NotImplementedError
