"""What RailS measures of an all-to-all, from loads and times: the simulator's own definitions.

Checked: against what the compiled core says of its own runs (``tests/test_testbed_schemes.py``).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Loads = npt.NDArray[np.uint64]


def mse(loads: Loads) -> float:
    """Return the mean squared error of NICs' loads (RailS, equation 35), mean over busy domains.

    Parameters
    ----------
    loads
        [B], [domain, rail].

    Examples
    --------
    >>> mse(np.array([[8, 0], [4, 4], [0, 0]], np.uint64))
    0.125
    """
    busy = loads[loads.any(axis=1)].astype(np.float64)
    if not len(busy):
        return 0.0
    shares = busy / busy.max(axis=1, keepdims=True)
    return float(shares.var(axis=1).mean())


def percentiles(times_ps: npt.NDArray[np.uint64]) -> dict[str, int]:
    """Return the mean of times, and those that 80, 95, 99 and 100 % do not exceed [ps].

    Examples
    --------
    >>> percentiles(np.array([1, 2, 3, 10], np.uint64))
    {'mean': 4, 'p80': 10, 'p95': 10, 'p99': 10, 'max': 10}
    """
    if not len(times_ps):
        return dict.fromkeys(("mean", "p80", "p95", "p99", "max"), 0)
    ordered = np.sort(times_ps)
    at = {f"p{share}": int(ordered[-(-len(ordered) * share // 100) - 1]) for share in (80, 95, 99)}
    return {"mean": int(sum(map(int, ordered)) // len(ordered)), **at, "max": int(ordered[-1])}
