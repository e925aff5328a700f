"""Figure 5: what each of 128 GPUs sends each other in one iteration of Mixtral 8x7B.

Modelled: all transfers of the task graph, TP inside servers apart, with the recorded gating. GPUs
are in the order of their numbers: TP, then EP, then the pipeline's stages.
"""

from __future__ import annotations

import numpy as np

from lightloom.papers.mixnet.figure02 import traffic
from lightloom.papers.part import Context, Line, Part, Picture, Rows
from lightloom.scenario import Scenario

NUMBER = 5
TITLE = "Traffic matrix of all GPUs"
MODEL, GPUS = "mixtral-8x7b", 128
KINDS = ("tp", "ep", "pp", "dp")


def parts() -> tuple[Part, ...]:
    """Return the one piece that it is made of."""
    return (Part("figure 5", _rows, settings={"model": MODEL, "gpus": GPUS}),)


def _rows(_context: Context) -> Rows:
    sent = traffic(Scenario.preset(MODEL, gpus=GPUS))
    rows: Rows = []
    for kind in KINDS:
        mine = sent["kind"] == kind
        cells = zip(*(sent[name][mine].tolist() for name in ("from", "to", "bytes")), strict=True)
        rows.append({"kind": kind, "sent": [list(cell) for cell in cells]})
    return rows


def _matrix(rows: Rows, kind: str) -> np.ndarray:
    matrix = np.zeros((GPUS, GPUS))
    for source, destination, size in next(row["sent"] for row in rows if row["kind"] == kind):
        matrix[source, destination] += size
    return matrix


def _block() -> int:
    return Scenario.preset(MODEL, gpus=GPUS).parallelism.block


def lines(rows: Rows) -> list[Line]:
    """Return how local the experts' traffic is."""
    matrix, block = _matrix(rows, "ep"), _block()
    inside = sum(matrix[at : at + block, at : at + block].sum() for at in range(0, GPUS, block))
    used = np.count_nonzero(matrix) / (GPUS * (GPUS - 1))
    return [
        Line(5, MODEL, "EP's bytes that stay in their block of GPUs", "strong locality",
             f"{inside / matrix.sum():.0%}"),
        Line(5, MODEL, "pairs of GPUs that EP ever uses", "", f"{used:.1%}"),
    ]  # fmt: skip


def draw(rows: Rows) -> Picture:
    """Draw all traffic but TP's, and EP's alone."""
    from lightloom.papers.mixnet.plots import heat
    from lightloom.style.figures import page
    from lightloom.style.palette import FAILED

    block = _block()
    expert = _matrix(rows, "ep") / 1e9
    rest = sum(_matrix(rows, kind) for kind in ("pp", "dp")) / 1e9
    title = f"Figure 5: {TITLE} ({MODEL}, one iteration; dotted: pipeline stages)"
    with page(11, 5, title) as figure:
        for axes, matrix, title in zip(
            figure.subplots(1, 2),
            (np.log10(1 + 1e3 * (expert + rest)), expert),
            ("EP, PP and DP together", "EP alone"),
            strict=True,
        ):
            label = "log10(1 + sent [MB])" if title != "EP alone" else "sent [GB]"
            heat(axes, matrix, label)
            for edge in range(block, GPUS, block):
                axes.axhline(edge - 0.5, color=FAILED, linewidth=0.6, linestyle=":")
                axes.axvline(edge - 0.5, color=FAILED, linewidth=0.6, linestyle=":")
            axes.set_xticks(range(0, GPUS + 1, block))
            axes.set_yticks(range(0, GPUS + 1, block))
            axes.set_title(title, fontsize=10)
            axes.set_xlabel("receiving GPU")
            axes.set_ylabel("sending GPU")
    return figure
