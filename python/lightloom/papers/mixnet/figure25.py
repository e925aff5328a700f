"""Figure 25: larger batches, Mixtral 8x7B and 8x22B with micro-batches of 32 and 64 sequences.

Modelled: Figure 12's cluster with the roofline's compute times.
"""

from __future__ import annotations

from lightloom.papers.mixnet.jobs import (
    MAIN,
    RATES,
    STATIC,
    Runs,
    by_kind,
    gains,
    matrix,
    mean,
    part,
    some,
)
from lightloom.papers.part import Line, Part, Picture, Rows

NUMBER = 25
TITLE = "Large batches"
MODELS = ("mixtral-8x7b", "mixtral-8x22b")
BATCHES = (32, 64)
FABRICS = (*STATIC, *MAIN)
PAPER = {("mixtral-8x7b", 32): "1.8", ("mixtral-8x7b", 64): "2.0"}


def _runs(model: str, batch: int) -> Runs:
    return matrix(model, "roofline", FABRICS, changes={"training.micro_batch": batch})


def parts() -> tuple[Part, ...]:
    """Return a piece a model and batch."""
    return tuple(
        part(f"figure 25 {model} {batch}", _runs(model, batch), model=model, micro_batch=batch)
        for model in MODELS
        for batch in BATCHES
    )


def lines(rows: Rows) -> list[Line]:
    """Return MixNet's speed over TopoOpt's and the fat-tree's."""
    made = []
    for model in MODELS:
        for batch in BATCHES:
            mine, setting = some(rows, model=model, micro_batch=batch), f"{model}, batch {batch}"
            over = {kind: f"{mean(gains(mine, 'topoopt', kind)):.2f}" for kind in MAIN}
            paper = PAPER.get((model, batch), "above 1")
            made.append(Line(25, setting, "over TopoOpt, mean over rates", paper, by_kind(over)))
            near = {
                kind: "{:.2f} at 100 Gbps, {:.2f} at 800".format(
                    *gains(mine, "fat-tree", kind, rates=(RATES[0], RATES[-1]))
                )
                for kind in MAIN[:1]
            }
            made.append(
                Line(25, setting, "over the fat-tree", "nears 1 as rates grow", by_kind(near))
            )
    return made


def draw(rows: Rows) -> Picture:
    """Draw a panel a model and batch."""
    from lightloom.papers.mixnet.plots import legend_below, times
    from lightloom.style.figures import page

    with page(14, 4.4, f"Figure {NUMBER}: {TITLE}, 1,024 GPUs, roofline") as figure:
        grid = figure.subplots(1, len(MODELS) * len(BATCHES))
        panels = [(model, batch) for model in MODELS for batch in BATCHES]
        for axes, (model, batch) in zip(grid, panels, strict=True):
            mine = some(rows, model=model, micro_batch=batch)
            times(axes, mine, FABRICS, f"{model}, micro-batch {batch}")
            axes.set_xlabel("link rate [Gbps]")
        grid[0].set_ylabel("iteration [s]")
        legend_below(figure, grid[0])
    return figure
