"""How exact the rates of a collective are where nobody says.

Checked: against exact rates, in ``tests/test_collective.py``.
"""

from __future__ import annotations

import numpy as np

from lightloom.plan.demand import Matrix

MOST_EXACT = 1 << 16
"""Flows of different sizes whose rates are exact unless anyone says: 5 CPU s."""
TOLERANCE = 0.01
"""Beyond them."""
# Exact rates of so many flows of different sizes took so long [CPU s]; so the time grows.
_MEASURED_FLOWS, _MEASURED_S, _POWER = 256 * 255, 4.7, 1.95


def flows(demand: Matrix) -> int:
    """Return how many flows have sizes of their own; few sizes are few classes of flows.

    Examples
    --------
    >>> flows(np.arange(256, dtype=np.uint64).reshape(16, 16))
    240
    >>> flows(np.ones((16, 16), dtype=np.uint64))
    0
    """
    if 16 * len(np.unique(demand)) < demand.size:
        return 0
    return int(np.count_nonzero(demand) - np.count_nonzero(np.diagonal(demand)))


def exact_seconds(count: int) -> float:
    """Return about how long exact rates of so many flows of different sizes take [CPU s]."""
    return float(_MEASURED_S * (count / _MEASURED_FLOWS) ** _POWER)
