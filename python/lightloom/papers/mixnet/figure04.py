"""Figure 4: expert loads over a training, and the matrices of one layer.

From the recording that ships for eight experts, which was made while a small model learnt, with its
load-balancing loss on. The paper's is Mixtral 8x7B in production. The matrices are tokens from each
source rank to each expert: what dispatch moves, but for hidden size and bytes an element.
"""

from __future__ import annotations

import numpy as np

from lightloom.papers.part import Context, Line, Part, Picture, Rows
from lightloom.trace import GatingTrace

NUMBER = 4
TITLE = "All-to-all traffic during training"
TRACE = (8, 2)
LAYER = 0
SHOWN = 4  # matrices
ENDS = 20  # iterations at each end that are compared


def parts() -> tuple[Part, ...]:
    """Return the two panels."""
    settings = {"trace": TRACE, "layer": LAYER, "shown": SHOWN}
    return (
        Part("figure 4a", _loads, settings=settings),
        Part("figure 4b", _matrices, settings=settings),
    )


def _loads(_context: Context) -> Rows:
    loads = GatingTrace.builtin(*TRACE).loads()
    shares = loads / loads.sum(axis=2, keepdims=True)
    return [
        {
            "panel": "a",
            "layer": layer,
            "iteration": iteration,
            "shares": [round(float(x), 5) for x in shares[iteration, layer]],
        }
        for layer in range(shares.shape[1])
        for iteration in range(shares.shape[0])
    ]


def _matrices(_context: Context) -> Rows:
    counts = GatingTrace.builtin(*TRACE).counts
    places = np.linspace(0, counts.shape[0] - 1, SHOWN).round().astype(int)
    return [
        {"panel": "b", "iteration": int(at), "tokens": counts[at, LAYER].tolist()} for at in places
    ]


def lines(rows: Rows) -> list[Line]:
    """Return how loads and matrices spread at the beginning and the end."""
    shares = np.array([row["shares"] for row in rows if row["panel"] == "a"])
    layers = len({row["layer"] for row in rows if row["panel"] == "a"})
    by_layer = shares.reshape(layers, -1, shares.shape[1])
    spread = by_layer.std(axis=2) / by_layer.mean(axis=2)
    first, last = spread[:, :ENDS].mean(), spread[:, -ENDS:].mean()
    made = [
        Line(
            4, f"{ENDS} iterations at each end", "spread of expert loads (deviation / mean)",
            "decreasing", f"{first:.2f} to {last:.2f}",
        )
    ]  # fmt: skip
    for row in (row for row in rows if row["panel"] == "b"):
        tokens = np.array(row["tokens"])
        made.append(
            Line(
                4, f"layer {LAYER + 1}, iteration {row['iteration'] + 1}",
                "largest entry of the matrix over its mean", "non-uniform",
                f"{tokens.max() / tokens.mean():.2f}",
            )
        )  # fmt: skip
    return made


def draw(rows: Rows) -> Picture:
    """Draw loads over iterations above, matrices below."""
    from lightloom.papers.mixnet.plots import heat
    from lightloom.style.figures import legend, page
    from lightloom.style.palette import HUES, INK

    mine = [row for row in rows if row["panel"] == "a" and row["layer"] == LAYER]
    shares = np.array([row["shares"] for row in mine])
    below = [row for row in rows if row["panel"] == "b"]
    with page(10, 6.4) as figure:
        above, under = np.ravel(figure.subfigures(2, 1, squeeze=False, height_ratios=(1.15, 1)))
        axes = above.subplots()
        for expert in range(shares.shape[1]):
            axes.plot(range(1, len(shares) + 1), 100 * shares[:, expert], linewidth=1,
                      color=HUES[expert % len(HUES)], label=f"expert {expert + 1}")  # fmt: skip
        axes.axhline(100 / shares.shape[1], color=INK, linewidth=0.8, linestyle=":")
        axes.set_xlim(1, len(shares))
        axes.set_ylim(0, 100 * shares.max() * 1.3)
        axes.set_xlabel("iteration after the warm-up")
        axes.set_ylabel("share of assignments [%]")
        axes.set_title(f"Figure 4a: expert loads, layer {LAYER + 1} (dotted: even)")
        legend(above, axes)
        axes.grid(axis="y")
        most = max(np.max(row["tokens"]) for row in below)
        panels = under.subplots(1, len(below), sharey=True, squeeze=False)[0]
        for at, (panel, row) in enumerate(zip(panels, below, strict=True)):
            last = at == len(below) - 1
            label = "assignments" if last else None
            heat(panel, row["tokens"], label, span=(0, float(most)))
            ranks = range(0, len(row["tokens"]), 2)
            panel.set_xticks(ranks, [str(n + 1) for n in ranks])
            panel.set_yticks(ranks, [str(n + 1) for n in ranks])
            panel.set_title(f"iteration {row['iteration'] + 1}", fontsize=9)
            panel.set_xlabel("expert")
        panels[0].set_ylabel("source rank")
        under.suptitle(f"Figure 4b: matrices of layer {LAYER + 1}", x=0.01, ha="left",
                       fontweight="bold", fontsize=11)  # fmt: skip
    return figure
