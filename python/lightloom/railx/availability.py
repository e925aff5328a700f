"""How large a single job can be when nodes fail (RailX, Section 6.6 and Figure 17).

Failed nodes are drawn at random, all sets of a size alike, and the compiled core finds the largest
job of each set. Samples come from numpy's generator with a fixed seed, so that figures repeat.
Ignored: failures that come together, as of a rack or a switch.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lightloom import _core
from lightloom.errors import InputError
from lightloom.railx.faults import MOST_LINES

SAMPLES = 100
"""Sets of failed nodes for a point, as in the paper."""
SIDES = (64, 100, 128, 160)
TYPICAL = 0.001
"""The share of failed nodes that the paper calls typical."""
_COUNTS = range(0, 65, 4)
_RATES = (0.0, 0.0005, 0.001, 0.0015, *(k / 1000 for k in range(2, 11)))


@dataclass(frozen=True)
class Sampled:
    """The largest job over samples of failed nodes, in nodes.

    Attributes
    ----------
    optimal
        Share of the samples whose job is proven to be the largest.
    """

    mean: float
    least: int
    most: int
    optimal: float


def sample(side: int, faults: int, *, samples: int = SAMPLES, seed: int = 1) -> Sampled:
    """Draw sets of `faults` failed nodes on a grid of `side` x `side`, and find the largest jobs.

    Raises
    ------
    InputError
        If there are more faults than nodes, or a number is out of range.

    Examples
    --------
    >>> sample(64, 1).mean == 63 * 64
    True
    >>> found = sample(64, 32)
    >>> apart(64, 32) <= found.least <= found.mean <= found.most <= aligned(64, 32)
    True
    """
    for key, value, least, most in (
        ("side", side, 1, MOST_LINES), ("faults", faults, 0, side**2),
        ("samples", samples, 1, 10**6),
    ):  # fmt: skip
        if not least <= value <= most:
            raise InputError(f"{key} = {value}: must be from {least} to {most}")
    rng = np.random.default_rng([seed, side, faults])
    draws = (rng.choice(side * side, faults, replace=False) for _ in range(samples))
    sets = [np.stack(np.divmod(draw, side), axis=1).tolist() for draw in draws]
    found = _core.railx_largest(json.dumps({"rows": side, "columns": side, "sets": sets}))
    nodes = [size for size, _ in found]
    proven = sum(size == bound for size, bound in found) / samples
    return Sampled(float(np.mean(nodes)), min(nodes), max(nodes), proven)


def apart(side: int, faults: int) -> int:
    """Return the largest job if no two faults share a row or a column: the worst case.

    Examples
    --------
    >>> apart(64, 4), apart(64, 5)
    (3844, 3782)
    """
    if faults > side:
        raise InputError(f"faults = {faults}: at most {side} can lie apart on {side} x {side}")
    return (side - (faults + 1) // 2) * (side - faults // 2)


def aligned(side: int, faults: int) -> int:
    """Return the largest job if the faults fill row after row: the best case.

    Examples
    --------
    >>> aligned(64, 4), aligned(64, 65)
    (4032, 3969)
    """
    lines, over = divmod(faults, side)
    # The last row is dropped, or the columns of what it has over.
    options = [(side - lines - bool(over)) * side, (side - lines) * (side - over)]
    return max(options)


def figure17(told: Callable[[float], None] = lambda _share: None) -> list[dict[str, Any]]:
    """Return the points of RailX's Figure 17; `told` is given the share that is done.

    Panel a: nodes of the largest job on 64 x 64 nodes, over the number that failed. Panel b: its
    share of all nodes, over the share that failed, on grids of four sizes.
    """
    steps, done = len(_COUNTS) + len(SIDES) * len(_RATES), 0

    def sampled(side: int, faults: int) -> Sampled:
        nonlocal done
        found = sample(side, faults)
        done += 1
        told(done / steps)
        return found

    rows: list[dict[str, Any]] = []
    says: dict[str, Any] = {
        "panel": "a", "title": "largest job, 64 x 64 nodes", "x_axis": "failed nodes",
        "y_axis": "nodes of the job",
    }  # fmt: skip
    average = f"average of {SAMPLES}"
    for faults in _COUNTS:
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
        for rate in _RATES:
            faults = round(rate * nodes)
            found = sampled(side, faults)
            row = {
                **says, "series": f"n = {side}, {average}", "x": round(100 * rate, 3),
                "y": found.mean / nodes, "faults": faults, "least": found.least / nodes,
                "most": found.most / nodes, "optimal": found.optimal,
            }  # fmt: skip
            if rate == TYPICAL:
                said = {"what": f"availability at 0.1 %, {faults} faults", "paper": "> 0.9"}
                row |= said
                worst.append({**says, "series": "all apart at 0.1 %", "x": round(100 * rate, 3),
                              "y": apart(side, faults) / nodes, "what": f"n = {side}, worst case",
                              "paper": "> 0.9"})  # fmt: skip
            rows.append(row)
    return rows + worst
