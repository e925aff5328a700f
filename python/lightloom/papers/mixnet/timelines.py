"""A layer's forward pass, step by step: what Figures 3 and 17 show.

Modelled: the production cluster of Section 3, 128 H800 GPUs on a rail-optimized network at 400
Gbps, two micro-batches a replica; each step's time is the mean over blocks, layers and batches.
A step of TP is in line, before and after attention and the experts. Ignored: the dense first
layers that some models have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lightloom.papers.part import Context, Rows
from lightloom.papers.runs import CARRIER
from lightloom.scenario import Scenario
from lightloom.simulation import run_all
from lightloom.style.palette import GROUPS, TEAL, group_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STEPS = ("attention", "tp", "gate", "dispatch", "expert", "combine")
COLORS = {
    **{step: GROUPS[group_of(step)].light for step in STEPS},
    "combine": TEAL[0],  # an all-to-all as dispatch is, and beside it
}
GPUS = 128


def layer_steps(
    model: str,
    micro_batches: Sequence[int],
    table: str,
    context: Context,
    changes: Mapping[str, Any] | None = None,
) -> Rows:
    """Return a row a micro-batch size: milliseconds of each step, and the all-to-alls' share.

    >>> row, = layer_steps("mixtral-8x7b", [8], "paper-profile", Context())
    >>> round(row["expert_ms"] / 10) * 10
    120
    """
    rows: Rows = []
    for at, size in enumerate(micro_batches):
        job = Scenario.preset(
            model,
            gpus=GPUS,
            fabric="rail-optimized",
            **{
                **CARRIER,
                "fabric.link_bandwidth": "400 Gbps",
                "compute.gpu": "h800",
                "compute.table": table,
                "training.micro_batch": size,
                "training.micro_batches": 2,
                **(changes or {}),
            },
        )
        runs = run_all([job], priced=False)
        if runs.stopped is not None:
            raise runs.stopped
        tasks = runs.finished[0].tables["tasks"].to_pylist()
        spent: Counter[str] = Counter()
        for task in tasks:
            if task["pass"] == "forward" and job.model.has_experts(task["layer"]):
                kind = "expert" if task["kind"] == "shared_expert" else task["kind"]
                spent[kind] += task["end_ps"] - task["start_ps"]
        passes = sum(task["kind"] == "gate" and task["pass"] == "forward" for task in tasks)
        steps = {f"{step}_ms": round(spent[step] / passes / 1e9, 4) for step in STEPS}
        share = (steps["dispatch_ms"] + steps["combine_ms"]) / sum(steps.values())
        rows.append(
            {
                "model": model,
                "table": table,
                "micro_batch": size,
                **steps,
                "a2a_share": round(share, 4),
            }
        )
        context.progress((at + 1) / len(micro_batches))
    return rows


def draw_steps(axes: Axes, rows: Rows) -> None:
    """Draw a bar a micro-batch size of one model and table, and the all-to-alls' share."""
    from lightloom.papers.mixnet.plots import stacked

    names = [f"micro-batch {row['micro_batch']}" for row in rows]
    stacked(axes, names, {step: [row[f"{step}_ms"] for row in rows] for step in STEPS}, COLORS)
    for at, row in enumerate(rows):
        whole = sum(row[f"{step}_ms"] for step in STEPS)
        axes.text(whole, at, f" all-to-all {row['a2a_share']:.0%}", va="center", fontsize=8)
    axes.set_xlim(right=axes.get_xlim()[1] * 1.2)
    axes.set_title(f"{rows[0]['model']}, {rows[0]['table']}")
    axes.set_xlabel("time [ms]")
