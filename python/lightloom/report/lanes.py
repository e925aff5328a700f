"""Lay intervals that overlap on lanes where they do not.

A timeline track shows one thing at a time. Tasks of one pipeline stage mostly come one after the
other, yet a gradient all-reduce runs beside a pipeline send; such tasks go to further lanes.
Checked: no two intervals of a lane overlap, and no more lanes than tasks run at once.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence


def assign(starts: Sequence[int], ends: Sequence[int]) -> list[int]:
    """Return the lane of each interval [start, end): the lowest that is free at its start.

    Examples
    --------
    >>> assign([0, 5, 10, 10], [10, 12, 20, 11])
    [0, 1, 0, 2]
    """
    lanes = [0] * len(starts)
    busy: list[tuple[int, int]] = []  # (end, lane)
    free: list[int] = []
    opened = 0
    # Longer first where they start together, so that the lowest lane holds the longest.
    for i in sorted(range(len(starts)), key=lambda i: (starts[i], -ends[i], i)):
        while busy and busy[0][0] <= starts[i]:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            lane = heapq.heappop(free)
        else:
            lane, opened = opened, opened + 1
        lanes[i] = lane
        heapq.heappush(busy, (ends[i], lane))
    return lanes
