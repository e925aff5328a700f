"""The rows that all pictures of the study are drawn from, and where changing begins to pay."""

from __future__ import annotations

import math
from functools import partial

from lightloom.papers.mixnet.jobs import some
from lightloom.papers.part import Context, Line, Part, Picture, Rows
from lightloom.papers.runs import Run
from lightloom.studies.reconfiguration.points import (
    DELAYS,
    LAYERS,
    MICRO_BATCHES,
    POLICIES,
    RIVALS,
    SKEWS,
    SPEEDS,
    At,
    changing,
    standing,
)

PAYS = 1.01
"""So many times faster than a rival counts as faster: runs of equal circuits differ by less."""


def parts(partners: str) -> tuple[Part, ...]:
    """Return a piece a speed of the GPU: a point for each skew and delay."""
    return tuple(
        Part(
            f"{partners}, speed {speed:g}",
            partial(_rows, partners=partners, speed=speed),
            runs=tuple(run for skew in SKEWS for run in _runs(At(partners, skew, speed))),
        )
        for speed in SPEEDS
    )


def _runs(at: At) -> list[Run]:
    changed = [changing(policy, at, delay) for policy in POLICIES for delay in DELAYS]
    return changed + [standing(rival, at) for rival in RIVALS]


def _rows(context: Context, *, partners: str, speed: float) -> Rows:
    made = []
    for skew in SKEWS:
        at = At(partners, skew, speed)
        rivals = {name: context.outcomes[standing(name, at)] for name in RIVALS}
        compute_s = rivals["eight packet NICs"].compute_s
        for delay in DELAYS:
            ran = {policy: context.outcomes[changing(policy, at, delay)] for policy in POLICIES}
            made.append({
                **at._asdict(),
                "layer_ms": round(1e3 * compute_s / (LAYERS * MICRO_BATCHES), 3),
                "delay_s": delay.seconds,
                "delay": delay.text,
                "device": delay.device,
                **{name: each.iteration_s for name, each in (ran | rivals).items()},
                "changes": ran["timed"].reconfigurations,
            })  # fmt: skip
    return made


def gain(row: dict[str, float], rival: str, policy: str = "timed") -> float:
    """Return how many times as long a rival takes.

    >>> gain({"timed": 2.0, "never changed": 3.0}, "never changed")
    1.5
    """
    return row[rival] / row[policy]


def pays_up_to(rows: Rows, rival: str, policy: str = "timed") -> float | None:
    """Return the longest delay [s] up to which changing pays beside a rival; None if never.

    Between two points of the grid it is interpolated over the delay's logarithm. A gain beyond the
    last point gives infinity.

    >>> near, far = {"delay_s": 1e-3, "t": 1.0, "x": 1.11}, {"delay_s": 0.1, "t": 1.0, "x": 0.91}
    >>> f"{pays_up_to([near, far], 'x', 't'):.3f}"
    '0.010'
    >>> pays_up_to([far], "x", "t") is None
    True
    """
    last = None
    for row in sorted(rows, key=lambda row: float(row["delay_s"])):
        if gain(row, rival, policy) < PAYS:
            break
        last = row
    else:
        return math.inf
    if last is None:
        return None
    above, below = gain(last, rival, policy), gain(row, rival, policy)
    share = (above - PAYS) / (above - below)
    low, high = math.log(last["delay_s"]), math.log(row["delay_s"])
    return math.exp(low + share * (high - low))


def said(delay_s: float | None) -> str:
    """Say a delay up to which it pays.

    >>> said(None), said(0.00123), said(math.inf)
    ('never', '1.2 ms', '> 50 ms')
    """
    if delay_s is None:
        return "never"
    if math.isinf(delay_s):
        return f"> {DELAYS[-1].text}"
    return f"{delay_s * 1e3:.2g} ms" if delay_s >= 1e-3 else f"{delay_s * 1e6:.2g} us"


def by_skew(rows: Rows, rival: str, policy: str) -> str:
    """Say up to which delay it pays at each skew, once for skews of which the same is true."""
    found: list[tuple[str, list[float]]] = []
    for skew in SKEWS:
        text = said(pays_up_to(some(rows, skew=skew), rival, policy))
        if not found or found[-1][0] != text:
            found.append((text, []))
        found[-1][1].append(skew)
    spans = [(text, f"{at[0]:g}" + f" to {at[-1]:g}" * (len(at) > 1)) for text, at in found]
    return "; ".join(f"skew {span}: {text}" for text, span in spans)


def extremes(number: int, rows: Rows) -> list[Line]:
    """Return the least and the most gain beside each rival."""
    made = []
    for rival in RIVALS:
        ordered = sorted(rows, key=lambda row: gain(row, rival))
        for word, row in (("least", ordered[0]), ("most", ordered[-1])):
            where = f"{row['layer_ms']:.0f} ms a layer, {row['delay']}"
            what, demand = f"{word} beside {rival}", f"skew {row['skew']:g}"
            made.append(Line(number, where, what, demand, f"{gain(row, rival):.2f}"))
    return made


def heat(title: str, rows: Rows) -> Picture:
    """Draw the gain at each skew and delay, a row a rival and a column a time of compute."""
    import numpy as np
    from matplotlib.colors import LogNorm

    from lightloom.style.figures import number, page
    from lightloom.style.palette import INK

    with page(14, 9, title) as figure:
        grid = figure.subplots(len(RIVALS), len(SPEEDS), sharex=True, sharey=True, squeeze=False)
        image = None
        for line, rival in zip(grid, RIVALS, strict=True):
            for axes, speed in zip(line, SPEEDS, strict=True):
                at = {(row["skew"], row["delay"]): gain(row, rival)
                      for row in some(rows, speed=speed)}  # fmt: skip
                values = np.array([[at[skew, delay.text] for delay in DELAYS] for skew in SKEWS])
                image = axes.imshow(
                    values, cmap="RdBu", norm=LogNorm(1 / 4, 4), origin="lower", aspect="auto"
                )
                for (y, x), value in np.ndenumerate(values):
                    number(axes, x, y, f"{value:.2f}", image.cmap(image.norm(value)), 6)
                if values.min() < PAYS < values.max():
                    axes.contour(values, levels=[PAYS], colors=INK, linewidths=1.2)
                axes.set_xticks(range(len(DELAYS)), [delay.text for delay in DELAYS], rotation=60)
                axes.set_yticks(range(len(SKEWS)), [f"{skew:g}" for skew in SKEWS])
                axes.tick_params(labelsize=7)
            line[0].set_ylabel(f"{rival}\nskew of pairs", fontsize=8)
        for axes, speed in zip(grid[0], SPEEDS, strict=True):
            layer = some(rows, speed=speed)[0]["layer_ms"]
            axes.set_title(f"layer computes {layer:.0f} ms", fontsize=9)
        for axes in grid[-1]:
            axes.set_xlabel("the switch is dark for", fontsize=8)
        assert image is not None
        bar = figure.colorbar(image, ax=grid, shrink=0.6, label="rival's time / MixNet's")
        bar.ax.minorticks_off()
        bar.set_ticks([1 / 4, 1 / 2, 1, 2, 4], labels=["1/4", "1/2", "1", "2", "4"])
    return figure
