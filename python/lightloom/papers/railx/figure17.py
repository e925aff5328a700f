"""Figure 17: how large a single job can be when nodes fail.

Panel a: nodes of the largest job on 64 x 64 nodes, over the number that failed. Panel b: its share
of all nodes, over the share that failed, on grids of four sizes.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from lightloom.papers.part import Context, Part, Rows
from lightloom.papers.railx.curves import draw as draw_curves
from lightloom.papers.railx.curves import figure_lines
from lightloom.railx.availability import SAMPLES, Sampled, aligned, apart, sample

NUMBER = 17
TITLE = "Availability"
SIDES = (64, 100, 128, 160)
TYPICAL = 0.001
"""The share of failed nodes that the paper calls typical."""
COUNTS = range(0, 65, 4)
RATES = (0.0, 0.0005, 0.001, 0.0015, *(k / 1000 for k in range(2, 11)))


def parts() -> tuple[Part, ...]:
    """Return the one piece that it is made of."""
    settings = {"samples": SAMPLES, "counts": [*COUNTS], "sides": SIDES, "rates": RATES}
    return (Part("figure 17", _rows, settings=settings),)


def _rows(context: Context) -> Rows:
    steps, done = len(COUNTS) + len(SIDES) * len(RATES), 0

    def sampled(side: int, faults: int) -> Sampled:
        nonlocal done
        found = sample(side, faults)
        done += 1
        context.progress(done / steps)
        return found

    rows: Rows = []
    says: dict[str, Any] = {
        "panel": "a", "title": "largest job, 64 x 64 nodes", "x_axis": "failed nodes",
        "y_axis": "nodes of the job",
    }  # fmt: skip
    average = f"average of {SAMPLES}"
    for faults in COUNTS:
        found = sampled(64, faults)
        for series, nodes in (
            ("best: in one row", aligned(64, faults)), (average, found.mean),
            (f"least of {SAMPLES}", found.least), ("worst: all apart", apart(64, faults)),
        ):  # fmt: skip
            rows.append({**says, "series": series, "x": faults, "y": nodes})
        rows[-3] |= {"least": found.least, "most": found.most, "optimal": found.optimal}
    says = {
        "panel": "b", "title": "availability of one job", "x_axis": "failed nodes [%]",
        "y_axis": "largest job over all nodes",
    }  # fmt: skip
    worst = []
    for side in SIDES:
        nodes = side**2
        for rate in RATES:
            faults = round(rate * nodes)
            found = sampled(side, faults)
            row = {
                **says, "series": f"n = {side}, {average}", "x": round(100 * rate, 3),
                "y": found.mean / nodes, "faults": faults, "least": found.least / nodes,
                "most": found.most / nodes, "optimal": found.optimal,
            }  # fmt: skip
            if rate == TYPICAL:
                point = {"what": f"availability at 0.1 %, {faults} faults", "paper": "> 0.9"}
                row |= point
                worst.append({**says, "series": "all apart at 0.1 %", "x": round(100 * rate, 3),
                              "y": apart(side, faults) / nodes, "what": f"n = {side}, worst case",
                              "paper": "> 0.9"})  # fmt: skip
            rows.append(row)
    return rows + worst


lines = partial(figure_lines, NUMBER)
draw = draw_curves
