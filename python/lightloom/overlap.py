"""How much of an iteration's all-to-alls nothing hides.

The critical path counts an all-to-all as exposed where it is what everything else waits for, also
while its GPUs compute something else beside it. `alone` counts by GPUs instead: the time in which a
block has an all-to-all under way and computes nothing. Checked: against a closed form, in
``tests/test_overlap.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_Array = NDArray[Any]
_EXCHANGES = ("dispatch", "combine")
_COMPUTES = ("attention", "gate", "expert", "dense_mlp", "embedding", "head")


def alone(tasks: pa.Table) -> float:
    """Return how long a block exchanges tokens while it computes nothing.

    Parameters
    ----------
    tasks
        The ``tasks`` table of one run: a row a task of each recorded replica and stage.

    Returns
    -------
    float
        Seconds, the mean over the blocks in the table; 0 without any.

    Examples
    --------
    >>> import pyarrow as pa
    >>> rows = [("dispatch", 0, 10), ("expert", 4, 6), ("attention", 8, 12)]
    >>> kind, start, end = zip(*rows, strict=True)
    >>> at = {"replica": [0] * 3, "stage": [0] * 3, "start_ps": start, "end_ps": end}
    >>> round(alone(pa.table({"kind": kind, **at})) * 1e12)
    6
    """
    kinds = np.asarray(tasks["kind"].to_pylist())
    columns = ("replica", "stage", "start_ps", "end_ps")
    replica, stage, start, end = (np.asarray(tasks[name]) for name in columns)
    blocks = sorted({(int(r), int(s)) for r, s in zip(replica, stage, strict=True)})
    total = 0.0
    for block in blocks:
        mine = (replica == block[0]) & (stage == block[1])
        exchanges = _joined(start, end, mine & np.isin(kinds, _EXCHANGES))
        computes = _joined(start, end, mine & np.isin(kinds, _COMPUTES))
        total += _length(exchanges) - _shared(exchanges, computes)
    return total / len(blocks) / 1e12 if blocks else 0.0


def _joined(start: _Array, end: _Array, chosen: _Array) -> list[tuple[int, int]]:
    """Return the intervals of the chosen rows, joined where they touch, in order."""
    joined: list[tuple[int, int]] = []
    for begin, over in sorted(zip(start[chosen].tolist(), end[chosen].tolist(), strict=True)):
        if joined and begin <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(over, joined[-1][1]))
        else:
            joined.append((begin, over))
    return joined


def _length(intervals: list[tuple[int, int]]) -> int:
    return sum(end - begin for begin, end in intervals)


def _shared(first: list[tuple[int, int]], second: list[tuple[int, int]]) -> int:
    """Return the length of what two lists of intervals have in common."""
    shared, at, other = 0, 0, 0
    while at < len(first) and other < len(second):
        (begin, end), (start, over) = first[at], second[other]
        shared += max(0, min(end, over) - max(begin, start))
        if end < over:
            at += 1
        else:
            other += 1
    return shared
