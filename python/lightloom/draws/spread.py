"""Median and interval of what several draws came to.

The interval is the 5th to the 95th percentile of the draws, linear between neighbours: how far
apart draws are, which is not how well their mean is known. Of fewer than 20 draws both ends lie
between the two outermost draws. Ratios are taken draw by draw, then the same. Checked: against
numpy on a table by hand, in ``tests/test_draws.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

PERCENTILES = (5, 95)
"""The ends of an interval. Chosen here: nine draws of ten lie between them."""
SAID = "5th to 95th percentile"


class Spread(NamedTuple):
    """Median of draws, and the interval that holds nine of ten.

    Examples
    --------
    >>> Spread(1.25, 1.125, 1.5).crosses(1.0), Spread(1.25, 0.875, 1.5).crosses(1.0)
    (False, True)
    """

    median: float
    low: float
    high: float

    def crosses(self, value: float) -> bool:
        """Whether the interval holds a value."""
        return self.low <= value <= self.high

    def as_json(self) -> dict[str, float]:
        """Return the three figures by name."""
        return self._asdict()


def spread(values: Sequence[float]) -> Spread:
    """Return median and interval of values.

    Raises
    ------
    ValueError
        If there is none.

    Examples
    --------
    >>> spread([1.0, 2.0, 3.0])
    Spread(median=2.0, low=1.1, high=2.9)
    """
    if not len(values):
        raise ValueError("values: none")
    low, median, high = np.percentile(np.asarray(values, dtype=float), (5, 50, 95))
    return Spread(float(median), float(low), float(high))


def ratio(above: Sequence[float], below: Sequence[float]) -> Spread:
    """Return median and interval of a paired ratio: that of each draw, value by value.

    Raises
    ------
    ValueError
        If there are not as many of both, or none.

    Examples
    --------
    >>> ratio([2.0, 20.0], [1.0, 10.0])
    Spread(median=2.0, low=2.0, high=2.0)
    """
    return spread([a / b for a, b in zip(above, below, strict=True)])


def columns(name: str, found: Spread | None) -> dict[str, Any]:
    """Return a spread as columns of a table.

    Examples
    --------
    >>> columns("iteration_s", None)
    {'iteration_s_median': None, 'iteration_s_low': None, 'iteration_s_high': None}
    """
    values = (None, None, None) if found is None else found
    return {f"{name}_{part}": v for part, v in zip(Spread._fields, values, strict=True)}
