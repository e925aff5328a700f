"""Figure 17: a layer's forward pass of LLaMA-MoE and Qwen-MoE over micro-batch sizes.

Table 1's configurations: 16 and 64 experts on 16 expert-parallel ranks, no TP.
"""

from __future__ import annotations

from functools import partial

from lightloom.papers.mixnet.jobs import TABLES, some
from lightloom.papers.mixnet.timelines import draw_steps, layer_steps
from lightloom.papers.part import Line, Part, Picture, Rows

NUMBER = 17
TITLE = "Timeline of MoE models"
MICRO_BATCHES = (4, 8, 16, 32)
PAPER = {"llama-moe": "42 to 58 % of an iteration", "qwen-moe": "up to 68 %"}


def parts() -> tuple[Part, ...]:
    """Return a piece a model and table of compute times."""
    return tuple(
        Part(f"figure 17 {model} {table}", partial(layer_steps, model, MICRO_BATCHES, table),
             settings={"micro_batches": MICRO_BATCHES})
        for model in PAPER
        for table in TABLES
    )  # fmt: skip


def lines(rows: Rows) -> list[Line]:
    """Return the all-to-alls' shares."""
    made = []
    for model, paper in PAPER.items():
        for table in TABLES:
            shares = [row["a2a_share"] for row in some(rows, model=model, table=table)]
            setting = f"{model}, micro-batch {MICRO_BATCHES[0]} to {MICRO_BATCHES[-1]}, {table}"
            made.append(
                Line(17, setting, "all-to-alls' share of a forward layer", paper,
                     f"{min(shares):.0%} to {max(shares):.0%}")
            )  # fmt: skip
    return made


def draw(rows: Rows) -> Picture:
    """Draw a panel a model and table."""
    from lightloom.papers.mixnet.plots import legend_below
    from lightloom.style.figures import page

    with page(10, 6.8, f"Figure {NUMBER}: {TITLE}, 128 H800 GPUs, 400 Gbps") as figure:
        grid = figure.subplots(len(PAPER), len(TABLES), squeeze=False)
        for panels, model in zip(grid, PAPER, strict=True):
            for axes, table in zip(panels, TABLES, strict=True):
                draw_steps(axes, some(rows, model=model, table=table))
        legend_below(figure, grid[0][0])
    return figure
