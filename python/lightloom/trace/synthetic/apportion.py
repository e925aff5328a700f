"""Whole numbers by weight: largest remainders, under caps."""

from __future__ import annotations

import numpy as np

from lightloom.trace.synthetic.plug import Ints, Weights


def apportion(weights: Weights, totals: Ints, caps: Ints | None = None) -> Ints:
    """Share out whole totals by weight, nobody above the cap; rows sum exactly.

    Parameters
    ----------
    weights
        Not negative, [row, column].
    totals
        What to share out, [row].
    caps
        The most for one column, [row]; the columns with a weight must be able to hold the total.

    Returns
    -------
    numpy.ndarray
        int64 [row, column]. Remainders go to the largest fractions, the first column at a tie.

    Examples
    --------
    >>> apportion(np.array([[3.0, 1.0, 1.0]]), np.array([7]), np.array([3])).tolist()
    [[3, 2, 2]]
    """
    limits = (totals if caps is None else caps)[:, None].astype(np.float64)
    shares = np.zeros_like(weights, dtype=np.float64)
    capped = np.zeros(weights.shape, dtype=bool)
    while True:
        left = totals - (capped * limits).sum(axis=1)
        free = np.where(capped, 0.0, weights)
        sums = free.sum(axis=1)
        scale = np.divide(left, sums, out=np.zeros_like(sums), where=sums > 0)
        shares = np.where(capped, limits, free * scale[:, None])
        over = (shares > limits) & ~capped
        if not over.any():
            break
        capped |= over
    whole = np.floor(shares).astype(np.int64)
    rest = np.asarray(totals - whole.sum(axis=1))
    # Only a column below its cap and with a weight may take a remainder.
    room = (weights > 0) & (whole < limits)
    order = np.argsort(np.where(room, whole - shares, 1.0), axis=1, kind="stable")
    position = np.empty_like(order)
    np.put_along_axis(position, order, np.arange(weights.shape[1])[None], axis=1)
    return whole + (position < rest[:, None])
