"""Figure 13: cost and performance of every fabric, and the Pareto front.

Modelled: Figure 12's runs, and Table 4's prices. Performance per dollar is 1 / (iteration time *
cost). The front is over all fabrics and rates of a model; those that the paper sets aside as too
slow (TopoOpt, the over-subscribed fat-tree) belong to it here.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from lightloom.papers.mixnet.jobs import (
    MAIN,
    MODELS,
    RATES,
    STATIC,
    TABLES,
    by_kind,
    gains,
    matrix,
    measured,
    some,
)
from lightloom.papers.part import Context, Line, Part, Picture, Rows

NUMBER = 13
TITLE = "Performance and cost"
FABRICS = (*STATIC, *MAIN)
# Section 7.4, over the fat-tree and over the rail-optimized network.
PAPER = {
    100: ("1.2 to 1.5", "1.4 to 1.5"),
    200: ("1.4 to 1.8", "1.7 to 1.9"),
    400: ("2.1 to 2.3", "2.3 to 2.4"),
    800: ("2.0 to 2.4", "2.2 to 2.6"),
}
NAMED = {"mixtral-8x7b": "2.3", "mixtral-8x22b": "2.2", "deepseek-r1": "2.1"}


def parts() -> tuple[Part, ...]:
    """Return a piece a model and table of compute times."""
    return tuple(
        Part(
            f"figure 13 {model} {table}",
            partial(_rows, model, table),
            runs=tuple(matrix(model, table, FABRICS).values()),
        )
        for table in TABLES
        for model in MODELS
    )


def _rows(model: str, table: str, context: Context) -> Rows:
    rows = measured(context, matrix(model, table, FABRICS), model=model, table=table)
    # One MixNet at a time is set against the fabrics that there are.
    for kind in MAIN:
        field = [row for row in rows if row["fabric"] in (*STATIC, kind)]
        for row in field:
            row.setdefault("front", {})[kind] = _on_front(row, field)
        kept = [row for row in field if row["fabric"] not in ("topoopt", "fat-tree-3to1")]
        for row in kept:
            row.setdefault("front_of_fast", {})[kind] = _on_front(row, kept)
    return rows


def _on_front(row: dict[str, Any], field: Rows) -> bool:
    mine = row["iteration_s"], row["cost_usd"]
    others = ((other["iteration_s"], other["cost_usd"]) for other in field)
    return not any(o != mine and o[0] <= mine[0] and o[1] <= mine[1] for o in others)


def lines(rows: Rows) -> list[Line]:
    """Return performance per dollar over the two non-blocking fabrics, and the front."""
    made = []
    for table in TABLES:
        for at, rival in enumerate(("fat-tree", "rail-optimized")):
            for gbps in RATES:
                spans = {}
                for kind in MAIN:
                    each = [
                        gains(some(rows, model=model, table=table), rival, kind, a_dollar=True,
                              rates=(gbps,))[0]
                        for model in MODELS
                    ]  # fmt: skip
                    spans[kind] = f"{min(each):.2f} to {max(each):.2f}"
                setting = f"all models, {gbps} Gbps, {table}"
                what = f"performance per dollar over {rival}"
                made.append(Line(13, setting, what, PAPER[gbps][at], by_kind(spans)))
        for model, paper in NAMED.items():
            mine = some(rows, model=model, table=table)
            value = {
                kind: f"{gains(mine, 'fat-tree', kind, a_dollar=True, rates=(400,))[0]:.2f}"
                for kind in MAIN
            }
            made.append(
                Line(13, f"{model}, 400 Gbps, {table}", "performance per dollar over fat-tree",
                     paper, by_kind(value))
            )  # fmt: skip
        for field, says in (("front", "all fabrics"), ("front_of_fast", "non-blocking ones")):
            count = {
                kind: str(sum(r[field][kind] for r in some(rows, table=table, fabric=kind)))
                for kind in MAIN
            }
            made.append(
                Line(13, f"all models, {table}, against {says}",
                     f"MixNet's points on the front, of {len(MODELS) * len(RATES)}", "all",
                     by_kind(count))
            )  # fmt: skip
    return made


def draw(rows: Rows) -> Picture:
    """Draw a panel a model: iterations a second over cost, with the front."""
    from lightloom.papers.mixnet.plots import legend_below, look, page

    table = TABLES[0]
    with page(14, 4.8, f"Figure {NUMBER}: {TITLE} of 1,024 GPUs") as figure:
        grid = figure.subplots(1, len(MODELS))
        for axes, model in zip(grid, MODELS, strict=True):
            mine = some(rows, model=model, table=table)
            others = 0
            for fabric in FABRICS:
                style = look(fabric, others)
                others += fabric.startswith("mixnet ")
                points = some(mine, fabric=fabric)
                axes.plot([row["cost_usd"] / 1e6 for row in points],
                          [1 / row["iteration_s"] for row in points],
                          **{"linewidth": 0.8, **style}, label=fabric)  # fmt: skip
            field = [row for row in mine if row["fabric"] in (*STATIC, "mixnet")]
            front = sorted(
                (row["cost_usd"] / 1e6, 1 / row["iteration_s"])
                for row in field
                if row["front"]["mixnet"]
            )
            x, y = zip(*front, strict=True)
            axes.step(x, y, where="post", color="#1f2530", linewidth=1.2, alpha=0.5,
                      label="Pareto front with mixnet")  # fmt: skip
            axes.set_xlim(left=0)
            axes.set_ylim(bottom=0)
            axes.set_title(f"{model}, {table}", fontsize=10)
            axes.set_xlabel("network cost [million US dollars]")
            axes.grid()
        grid[0].set_ylabel("iterations a second")
        legend_below(figure, grid[0], 8)
    return figure
