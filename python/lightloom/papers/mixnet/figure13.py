"""Figure 13: cost and performance of every fabric, and the Pareto front.

Modelled: Figure 12's runs, and Table 4's prices. Performance per dollar is 1 / (iteration time *
cost). The front is over all fabrics and rates of a model; those that the paper sets aside as too
slow (TopoOpt, the over-subscribed fat-tree) belong to it here, and with carrier ``auto`` MixNet
without its optics does, too.
"""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

from lightloom.papers.mixnet.jobs import (
    FIELDS,
    MAIN,
    MODELS,
    RATES,
    STATIC,
    TABLES,
    WITHOUT,
    by_kind,
    gains,
    matrix,
    measured,
    some,
    span,
)
from lightloom.papers.part import Context, Line, Part, Picture, Rows

NUMBER = 13
TITLE = "Performance and cost"
SLOW = ("topoopt", "fat-tree-3to1", "mixnet-unplugged", "mixnet-same-money")
# Section 7.4, over the fat-tree and over the rail-optimized network.
PAPER = {
    100: ("1.2 to 1.5", "1.4 to 1.5"),
    200: ("1.4 to 1.8", "1.7 to 1.9"),
    400: ("2.1 to 2.3", "2.3 to 2.4"),
    800: ("2.0 to 2.4", "2.2 to 2.6"),
}
NAMED = {"mixtral-8x7b": "2.3", "mixtral-8x22b": "2.2", "deepseek-r1": "2.1"}


def parts() -> tuple[Part, ...]:
    """Return a piece a model, table of compute times and carrier."""
    return tuple(
        Part(
            f"figure 13 {model} {table} {carrier}",
            partial(_rows, model, table, carrier),
            runs=tuple(matrix(model, table, FIELDS[carrier], carrier=carrier).values()),
        )
        for carrier, table, model in product(FIELDS, TABLES, MODELS)
    )


def _rows(model: str, table: str, carrier: str, context: Context) -> Rows:
    runs = matrix(model, table, FIELDS[carrier], carrier=carrier)
    rows = measured(context, runs, model=model, table=table, carrier=carrier)
    # One MixNet at a time is set against the fabrics that there are.
    for kind in MAIN:
        field = [row for row in rows if row["fabric"] in (*STATIC, *WITHOUT, kind)]
        for row in field:
            row.setdefault("front", {})[kind] = _on_front(row, field)
        kept = [row for row in field if row["fabric"] not in SLOW]
        for row in kept:
            row.setdefault("front_of_fast", {})[kind] = _on_front(row, kept)
    return rows


def _on_front(row: dict[str, Any], field: Rows) -> bool:
    mine = row["iteration_s"], row["cost_usd"]
    others = ((other["iteration_s"], other["cost_usd"]) for other in field)
    return not any(o != mine and o[0] <= mine[0] and o[1] <= mine[1] for o in others)


def lines(rows: Rows) -> list[Line]:
    """Return performance per dollar over non-blocking fabrics and without optics, and the front."""
    made = []
    for carrier, table in product(FIELDS, TABLES):
        these = some(rows, carrier=carrier, table=table)
        setting = f"{table}, {carrier}"
        kinds = [kind for kind in MAIN if kind in FIELDS[carrier]]
        rivals = ("fat-tree", "rail-optimized", *(WITHOUT if carrier == "auto" else ()))
        for at, rival in enumerate(rivals):
            for gbps in RATES:
                spans = {}
                for kind in kinds:
                    each = [_value(these, model, rival, kind, gbps) for model in MODELS]
                    spans[kind] = span(each)
                made.append(
                    Line(13, f"all models, {gbps} Gbps, {setting}",
                         f"performance per dollar over {rival}",
                         "" if rival in WITHOUT else PAPER[gbps][at], by_kind(spans))
                )  # fmt: skip
        for model, paper in NAMED.items():
            value = {kind: f"{_value(these, model, 'fat-tree', kind, 400):.2f}" for kind in kinds}
            made.append(
                Line(13, f"{model}, 400 Gbps, {setting}", "performance per dollar over fat-tree",
                     paper, by_kind(value))
            )  # fmt: skip
        for field, says in (("front", "all fabrics"), ("front_of_fast", "non-blocking ones")):
            count = {kind: str(sum(r[field][kind] for r in some(these, fabric=kind)))
                     for kind in kinds}  # fmt: skip
            made.append(
                Line(13, f"all models, {setting}, against {says}",
                     f"MixNet's points on the front, of {len(some(these, fabric='mixnet'))}",
                     "all", by_kind(count))
            )  # fmt: skip
    return made


def _value(rows: Rows, model: str, rival: str, kind: str, gbps: int) -> float:
    (value,) = gains(some(rows, model=model), rival, kind, a_dollar=True, rates=(gbps,))
    return value


def draw(rows: Rows) -> Picture:
    """Draw a panel a model and carrier: iterations a second over cost, with the front."""
    from lightloom.papers.mixnet.plots import legend_below, look
    from lightloom.style.figures import page
    from lightloom.style.palette import INK

    table = TABLES[0]
    with page(14, 8.6, f"Figure {NUMBER}: {TITLE} of 1,024 GPUs") as figure:
        grid = figure.subplots(len(FIELDS), len(MODELS))
        for axes, (carrier, model) in zip(grid.flat, product(FIELDS, MODELS), strict=True):
            mine = some(rows, model=model, table=table, carrier=carrier)
            others = 0
            for fabric in FIELDS[carrier]:
                style = look(fabric, others)
                others += fabric not in STATIC and fabric != "mixnet"
                points = some(mine, fabric=fabric)
                axes.plot([row["cost_usd"] / 1e6 for row in points],
                          [1 / row["iteration_s"] for row in points],
                          **{"linewidth": 0.8, **style}, label=fabric)  # fmt: skip
            front = sorted(
                (row["cost_usd"] / 1e6, 1 / row["iteration_s"])
                for row in mine
                if row["front"].get("mixnet")
            )
            x, y = zip(*front, strict=True)
            axes.step(x, y, where="post", color=INK, linewidth=1.2, alpha=0.5,
                      label="Pareto front with mixnet")  # fmt: skip
            axes.set_xlim(left=0)
            axes.set_ylim(bottom=0)
            axes.set_title(f"{model}, {table}, {carrier}", fontsize=10)
            axes.set_xlabel("network cost [million US dollars]")
            axes.grid()
        for axes in grid[:, 0]:
            axes.set_ylabel("iterations a second")
        legend_below(figure, grid[:, 0])
    return figure
