"""Print a table of docs/when-reconfiguring-pays.md: the study again as jobs are run today.

``python docs/reconfiguring.py today`` runs a part of the study's grid, every combination of `AT`
and `DELAYS`, under each of `WAYS`. Progress goes to stderr.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from lightloom import simulate
from lightloom.papers.runs import Run
from lightloom.studies.reconfiguration import points
from lightloom.studies.reconfiguration.points import At
from tables import show

# Of the study's axes: every skew, the ends and the middle of compute and of the switch's delay.
AT = tuple(At(*each) for each in product(points.PARTNERS, points.SKEWS, (4.0, 1.0, 0.25)))
DELAYS = tuple(delay for delay in points.DELAYS if delay.text in ("10 us", "15 ms", "50 ms"))
# With two GPUs that share attention, two sequences: as many tokens a GPU.
APART = {"parallelism.tp": 2, "parallelism.etp": 1, "training.micro_batch": 2}
TWO = {"training.overlap": "two-batches"}
WAYS: Mapping[str, Mapping[str, Any]] = {
    "as in the study": {},
    "two batches": TWO,
    "TP 2, ETP 1": APART,
    "both": {**TWO, **APART},
}


def took(run: Run, changes: Mapping[str, Any]) -> float:
    """Return how long an iteration takes [s]."""
    job = run.scenario().with_(dict(changes))
    return float(simulate(job, progress=False).rows[0]["iteration_s"])


def today() -> Iterator[tuple[str, ...]]:
    """Yield a row a way of running and rival: its time over that of `timed`, of all points."""
    yield "run", "rival", "least", "median", "most", "points where `timed` is faster"
    for way, changes in WAYS.items():
        ratios: dict[str, list[float]] = {rival: [] for rival in points.RIVALS}
        for number, at in enumerate(AT):
            print(f"{way}: {number} of {len(AT)}", file=sys.stderr)
            rivals = {rival: took(points.standing(rival, at), changes) for rival in ratios}
            for delay in DELAYS:
                ours = took(points.changing("timed", at, delay), changes)
                for rival, theirs in rivals.items():
                    ratios[rival].append(theirs / ours)
        for rival, found in ratios.items():
            faster = sum(ratio > 1.005 for ratio in found)
            spread = (min(found), statistics.median(found), max(found))
            cells = (f"{each:.2f}" for each in spread)
            yield way, rival, *cells, f"{faster} of {len(found)}"


if __name__ == "__main__":
    show({"today": today}, sys.argv[1:])
