"""Figure 3: a layer's forward pass of Mixtral 8x7B over micro-batch sizes.

The roofline, and the table with the experts' time that the figure itself shows.
"""

from __future__ import annotations

from functools import partial

from lightloom.papers.mixnet.jobs import TABLES, some
from lightloom.papers.mixnet.timelines import draw_steps, layer_steps
from lightloom.papers.part import Line, Part, Picture, Rows

NUMBER = 3
TITLE = "Timeline of a forward layer"
MODEL = "mixtral-8x7b"
MICRO_BATCHES = (4, 8, 16, 32)


def parts() -> tuple[Part, ...]:
    """Return a piece a table of compute times."""
    settings = {"micro_batches": MICRO_BATCHES}
    return tuple(
        Part(f"figure 3 {table}", partial(layer_steps, MODEL, MICRO_BATCHES, table),
             settings=settings)
        for table in TABLES
    )  # fmt: skip


def lines(rows: Rows) -> list[Line]:
    """Return the all-to-alls' share, and how long the experts take."""
    made = []
    for table in TABLES:
        mine = some(rows, table=table)
        shares = [row["a2a_share"] for row in mine]
        made.append(
            Line(3, f"{MODEL}, micro-batch {MICRO_BATCHES[0]} to {MICRO_BATCHES[-1]}, {table}",
                 "all-to-alls' share of a forward layer", "33 to 55 % of an iteration",
                 f"{min(shares):.0%} to {max(shares):.0%}")
        )  # fmt: skip
        at_8 = some(mine, micro_batch=8)[0]
        made.append(
            Line(3, f"{MODEL}, micro-batch 8, {table}", "experts, the most loaded rank",
                 "above 100 ms", f"{at_8['expert_ms']:.1f} ms")
        )  # fmt: skip
    return made


def draw(rows: Rows) -> Picture:
    """Draw a bar a micro-batch size and table."""
    from lightloom.papers.mixnet.plots import legend_below
    from lightloom.style.figures import page

    with page(10, 4.4, f"Figure {NUMBER}: {TITLE}, 128 H800 GPUs, 400 Gbps") as figure:
        panels = figure.subplots(1, len(TABLES), squeeze=False)[0]
        for axes, table in zip(panels, TABLES, strict=True):
            draw_steps(axes, some(rows, table=table))
        legend_below(figure, panels[0])
    return figure
