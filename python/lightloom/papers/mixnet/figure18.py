"""Figure 18: how tokens spread over experts, block by block, when a model has learnt.

From the end of the recording that ships for eight experts (eight blocks); the paper's is Mixtral
8x7B after its training, with 32 blocks.
"""

from __future__ import annotations

import numpy as np

from lightloom.papers.part import Context, Line, Part, Picture, Rows
from lightloom.trace import GatingTrace

NUMBER = 18
TITLE = "Token distribution across MoE blocks"
TRACE = (8, 2)
LAST = 20  # iterations


def parts() -> tuple[Part, ...]:
    """Return the one piece that it is made of."""
    return (Part("figure 18", _rows, settings={"trace": TRACE, "last": LAST}),)


def _rows(_context: Context) -> Rows:
    loads = GatingTrace.builtin(*TRACE).loads()[-LAST:].sum(axis=0)
    shares = loads / loads.sum(axis=1, keepdims=True)
    return [
        {"block": block, "expert": expert, "share": round(float(share), 5)}
        for block, row in enumerate(shares)
        for expert, share in enumerate(row)
    ]


def _shares(rows: Rows) -> np.ndarray:
    experts = max(row["expert"] for row in rows) + 1
    return np.array([row["share"] for row in rows]).reshape(-1, experts)


def lines(rows: Rows) -> list[Line]:
    """Return how uneven blocks are, and how much they differ."""
    over_mean = _shares(rows) * (max(row["expert"] for row in rows) + 1)
    low, high = over_mean.max(axis=1).min(), over_mean.max(axis=1).max()
    hottest = len(set(over_mean.argmax(axis=1).tolist()))
    setting = f"last {LAST} iterations, {len(over_mean)} blocks"
    return [
        Line(18, setting, "most loaded expert over the mean, by block", "non-uniform",
             f"{low:.2f} to {high:.2f}"),
        Line(18, setting, "different experts that are some block's most loaded", "varies",
             str(hottest)),
    ]  # fmt: skip


def draw(rows: Rows) -> Picture:
    """Draw a matrix of blocks and experts."""
    from lightloom.papers.mixnet.plots import heat
    from lightloom.style.figures import MAP, number, page

    percent = 100 * _shares(rows).T
    title = f"Figure 18: {TITLE} (even: {100 / percent.shape[0]:.1f} %)"
    with page(7, 5, title) as figure:
        axes = figure.subplots()
        span = float(percent.min()), float(percent.max())
        heat(axes, percent, "share of a block's assignments [%]", span=span)
        for expert, row in enumerate(percent):
            for block, value in enumerate(row):
                shade = MAP((value - span[0]) / (span[1] - span[0] or 1.0))
                number(axes, block, expert, f"{value:.1f}", shade)
        axes.set_xticks(range(percent.shape[1]), [str(n + 1) for n in range(percent.shape[1])])
        axes.set_yticks(range(percent.shape[0]), [str(n + 1) for n in range(percent.shape[0])])
        axes.set_xlabel("MoE block")
        axes.set_ylabel("expert")
    return figure
