"""Figure 12: iteration time on every fabric, for four models at four rates.

Modelled: 1,024 H100 GPUs (`lightloom.papers.mixnet.jobs`), with both tables of compute times; with
all-to-alls as the papers carry them, and with every fabric at its best.
"""

from __future__ import annotations

from itertools import product

from lightloom.papers.mixnet.jobs import (
    FIELDS,
    MAIN,
    MODELS,
    TABLES,
    WITHOUT,
    by_kind,
    gains,
    matrix,
    mean,
    part,
    some,
    span,
)
from lightloom.papers.part import Line, Part, Picture, Rows

NUMBER = 12
TITLE = "Iteration time in a cluster of 128 servers with 1,024 GPUs"
# Section 7.3: the mean over the rates.
OVER_TOPOOPT = {
    "mixtral-8x22b": "1.5", "mixtral-8x7b": "1.4", "qwen-moe-32": "1.5", "deepseek-r1": "1.3",
}  # fmt: skip


def parts() -> tuple[Part, ...]:
    """Return a piece a model, table of compute times and carrier."""
    return tuple(
        part(
            f"figure 12 {model} {table} {carrier}",
            matrix(model, table, FIELDS[carrier], carrier=carrier),
            model=model,
            table=table,
            carrier=carrier,
        )
        for carrier, table, model in product(FIELDS, TABLES, MODELS)
    )


def lines(rows: Rows) -> list[Line]:
    """Return how many times faster MixNet is than its rivals."""
    made = []
    for carrier, table in product(FIELDS, TABLES):
        each = [some(rows, carrier=carrier, model=model, table=table) for model in MODELS]
        these = dict(zip(MODELS, each, strict=True))
        setting = f"{table}, {carrier}"
        kinds = [kind for kind in MAIN if kind in FIELDS[carrier]]
        for model, mine in these.items():
            means = {kind: f"{mean(gains(mine, 'topoopt', kind)):.2f}" for kind in kinds}
            made.append(
                Line(12, f"{model}, {setting}", "over TopoOpt, mean over rates",
                     OVER_TOPOOPT[model], by_kind(means))
            )  # fmt: skip
        most = {kind: f"{max(_all(each, 'topoopt', kind)):.2f}" for kind in kinds}
        made.append(Line(12, f"all models, {setting}", "over TopoOpt, most", "2.5", by_kind(most)))
        mine = these["mixtral-8x22b"]
        most = {kind: f"{max(gains(mine, 'fat-tree-3to1', kind)):.2f}" for kind in kinds}
        made.append(
            Line(12, f"mixtral-8x22b, {setting}", "over the 3:1 fat-tree, most", "1.6",
                 by_kind(most))
        )  # fmt: skip
        rivals = {"fat-tree": "comparable", "rail-optimized": "comparable"}
        rivals |= dict.fromkeys(WITHOUT, "") if carrier == "auto" else {}
        for rival, paper in rivals.items():
            spans = {kind: span(_all(each, rival, kind)) for kind in kinds}
            made.append(Line(12, f"all models, {setting}", f"over {rival}", paper, by_kind(spans)))
    return made


def _all(models: list[Rows], rival: str, kind: str) -> list[float]:
    return [value for mine in models for value in gains(mine, rival, kind)]


def draw(rows: Rows) -> Picture:
    """Draw a panel a model; a row each for a table of compute times and a carrier."""
    from lightloom.papers.mixnet.plots import legend_below, times
    from lightloom.style.figures import page

    settings = list(product(TABLES, FIELDS))
    with page(14, 13, f"Figure {NUMBER}: {TITLE}") as figure:
        grid = figure.subplots(len(settings), len(MODELS))
        for line, (table, carrier) in zip(grid, settings, strict=True):
            for axes, model in zip(line, MODELS, strict=True):
                mine = some(rows, model=model, table=table, carrier=carrier)
                times(axes, mine, FIELDS[carrier], f"{model}, {table}, {carrier}")
        for axes in grid[-1]:
            axes.set_xlabel("link rate [Gbps]")
        for line in grid:
            line[0].set_ylabel("iteration [s]")
        legend_below(figure, grid[:2, 0])
    return figure
