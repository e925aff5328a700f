"""Figure 12: iteration time on every fabric, for four models at four rates.

Modelled: 1,024 H100 GPUs (`lightloom.papers.mixnet.jobs`), with both tables of compute times.
"""

from __future__ import annotations

from lightloom.papers.mixnet.jobs import (
    KINDS,
    MAIN,
    MODELS,
    STATIC,
    TABLES,
    by_kind,
    gains,
    matrix,
    mean,
    part,
    some,
)
from lightloom.papers.part import Line, Part, Picture, Rows

NUMBER = 12
TITLE = "Iteration time in a cluster of 128 servers with 1,024 GPUs"
# Section 7.3: the mean over the rates.
OVER_TOPOOPT = {
    "mixtral-8x22b": "1.5", "mixtral-8x7b": "1.4", "qwen-moe-32": "1.5", "deepseek-r1": "1.3",
}  # fmt: skip


def parts() -> tuple[Part, ...]:
    """Return a piece a model and table of compute times."""
    return tuple(
        part(f"figure 12 {model} {table}", matrix(model, table), model=model, table=table)
        for table in TABLES
        for model in MODELS
    )


def lines(rows: Rows) -> list[Line]:
    """Return how many times faster MixNet is than its rivals."""
    made = []
    for table in TABLES:
        for model in MODELS:
            mine, setting = some(rows, model=model, table=table), f"{model}, {table}"
            means = {kind: f"{mean(gains(mine, 'topoopt', kind)):.2f}" for kind in MAIN}
            made.append(
                Line(12, setting, "over TopoOpt, mean over rates", OVER_TOPOOPT[model],
                     by_kind(means))
            )  # fmt: skip
        most = {kind: f"{max(_all(rows, table, 'topoopt', kind)):.2f}" for kind in MAIN}
        made.append(Line(12, f"all models, {table}", "over TopoOpt, most", "2.5", by_kind(most)))
        mine = some(rows, model="mixtral-8x22b", table=table)
        most = {kind: f"{max(gains(mine, 'fat-tree-3to1', kind)):.2f}" for kind in MAIN}
        made.append(
            Line(12, f"mixtral-8x22b, {table}", "over the 3:1 fat-tree, most", "1.6",
                 by_kind(most))
        )  # fmt: skip
        span = {kind: _span(_all(rows, table, "fat-tree", kind)) for kind in MAIN}
        made.append(
            Line(12, f"all models, {table}", "over the fat-tree", "comparable", by_kind(span))
        )
    return made


def _all(rows: Rows, table: str, rival: str, kind: str) -> list[float]:
    every = (gains(some(rows, model=model, table=table), rival, kind) for model in MODELS)
    return [value for values in every for value in values]


def _span(values: list[float]) -> str:
    return f"{min(values):.2f} to {max(values):.2f}"


def draw(rows: Rows) -> Picture:
    """Draw a panel a model, with the roofline's compute times above and the paper's below."""
    from lightloom.papers.mixnet.plots import legend_below, page, times

    with page(14, 7.6, f"Figure {NUMBER}: {TITLE}") as figure:
        grid = figure.subplots(len(TABLES), len(MODELS), sharex=True)
        for line, table in zip(grid, TABLES, strict=True):
            for axes, model in zip(line, MODELS, strict=True):
                mine = some(rows, model=model, table=table)
                times(axes, mine, (*STATIC, *KINDS), f"{model}, {table}")
        for axes in grid[-1]:
            axes.set_xlabel("link rate [Gbps]")
        for line in grid:
            line[0].set_ylabel("iteration [s]")
        legend_below(figure, grid[0][0], 9)
    return figure
