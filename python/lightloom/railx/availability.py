"""How large a single job can be when nodes fail (RailX, Section 6.6).

Failed nodes are drawn at random, all sets of a size alike, and the compiled core finds the largest
job of each set. Samples come from numpy's generator with a fixed seed, so that figures repeat.
Ignored: failures that come together, as of a rack or a switch.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np

from lightloom import _core
from lightloom.errors import InputError
from lightloom.railx.faults import MOST_LINES

SAMPLES = 100
"""Sets of failed nodes for a point, as in the paper."""


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
