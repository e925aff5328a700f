"""Figure 14: what failures cost, from the beginning of an iteration on.

Modelled: Mixtral 8x22B and DeepSeek-R1 on 1,024 GPUs with links of 400 Gbps, the defaults of fabric
`mixnet`, both tables of compute times; always server 64, its parts, and what stands in for them
(``docs/failures.md``). It is in the middle of the pipeline: the first stage of DeepSeek-R1 has
dense layers and time to spare. The paper does not say which NICs fail, nor how many; here one and
two optical ones, one and both on packet switches. As in the paper, no time is counted to restore a
checkpoint. Ignored: failures in the middle of an iteration.
"""

from __future__ import annotations

from functools import partial
from itertools import product

from lightloom.failures import parse
from lightloom.papers.mixnet.jobs import TABLES, run, some
from lightloom.papers.part import Context, Line, Part, Picture, Rows
from lightloom.papers.runs import Run

NUMBER = 14
TITLE = "What failures cost"
MODELS = ("mixtral-8x22b", "deepseek-r1")
CASES = {
    "none": (),
    "one optical NIC": ("nic:server64.nic1@0s",),
    "two optical NICs": ("nic:server64.nic1@0s", "nic:server64.nic5@0s"),
    "one packet NIC": ("nic:server64.nic0@0s",),
    "both packet NICs": ("eps:server64@0s",),
    "one GPU, backup by OCS": ("gpu:server64.gpu1@0s,backup=ocs",),
    "one GPU, backup by EPS": ("gpu:server64.gpu1@0s,backup=eps",),
    "one server": ("server:server64@0s",),
}
NICS = tuple(CASES)[1:5]
# Section 7.5: the increase of the iteration time.
PAPER = {
    ("deepseek-r1", "one optical NIC"): "+3.3 %",
    ("mixtral-8x22b", "one GPU, backup by OCS"): "+5.1 %",
    ("deepseek-r1", "one server"): "+6.5 %",
}


def runs(model: str, table: str) -> dict[str, Run]:
    """Return a model's runs by case."""
    return {
        case: run("mixnet", model, 400, table=table,
                  changes={"failures": tuple(map(parse, texts))} if texts else {})
        for case, texts in CASES.items()
    }  # fmt: skip


def parts() -> tuple[Part, ...]:
    """Return a piece a model and table of compute times."""
    return tuple(
        Part(
            f"figure 14 {model} {table}",
            partial(_rows, model, table),
            runs=tuple(runs(model, table).values()),
        )
        for table, model in product(TABLES, MODELS)
    )


def _rows(model: str, table: str, context: Context) -> Rows:
    ran = {case: context.outcomes[each] for case, each in runs(model, table).items()}
    whole = ran["none"].iteration_s
    return [
        {"model": model, "table": table, "case": case, **one.split,
         "more": one.iteration_s / whole - 1}
        for case, one in ran.items()
    ]  # fmt: skip


def lines(rows: Rows) -> list[Line]:
    """Return by how much each failure lengthens the iteration."""
    return [
        Line(
            NUMBER,
            f"{row['model']}, {row['case']}, {row['table']}",
            "longer iteration",
            PAPER.get((row["model"], row["case"]), ""),
            f"{round(row['more'], 3) + 0.0:+.1%}".replace("%", " %"),
        )
        for row in rows
        if row["case"] != "none"
    ]


def draw(rows: Rows) -> Picture:
    """Draw a panel for NICs and one for GPUs and servers, a row a table of compute times."""
    from lightloom.papers.marks import published
    from lightloom.papers.mixnet.plots import legend_below
    from lightloom.style.figures import page
    from lightloom.style.palette import HUES, INK

    panels = {"NICs": NICS, "GPUs and servers": tuple(CASES)[5:]}
    with page(12, 9, f"Figure {NUMBER}: {TITLE}, 1,024 GPUs, 400 Gbps") as figure:
        grid = figure.subplots(len(TABLES), len(panels), width_ratios=[4, 3])
        settings = product(TABLES, panels.items())
        for axes, (table, (title, cases)) in zip(grid.flat, settings, strict=True):
            for at, model in enumerate(MODELS):
                mine = some(rows, model=model, table=table)
                more = {row["case"]: row["more"] for row in mine}
                places = [index + 0.4 * at for index in range(len(cases))]
                heights = [100 * more[case] for case in cases]
                bars = axes.bar(places, heights, width=0.38, label=model, color=HUES[at])
                axes.bar_label(bars, fmt="%+.1f", fontsize=8, padding=2)
                papers = [
                    (place, float(PAPER[model, case].strip("+ %")))
                    for place, case in zip(places, cases, strict=True)
                    if (model, case) in PAPER
                ]
                published(axes, papers)
            axes.set_xticks(
                [index + 0.2 for index in range(len(cases))],
                [case.replace(", ", "\n").replace(" NIC", "\nNIC") for case in cases],
                fontsize=9,
            )
            axes.set_title(f"{title}, {table}", fontsize=10)
            axes.axhline(0, color=INK, linewidth=0.8)
            axes.grid(axis="y")
        for axes in grid[:, 0]:
            axes.set_ylabel("longer iteration [%]")
        legend_below(figure, grid[0, 1])
    return figure
