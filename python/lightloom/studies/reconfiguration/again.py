"""Ten of the study's points, drawn before any was looked at: Python's generator with seed 1.

The points stand in the order of the study's CSV: partners, speed, skew, delay.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from lightloom.studies.reconfiguration import points
from lightloom.studies.reconfiguration.points import At, Delay

COUNT = 10


def chosen() -> list[tuple[At, Delay]]:
    """Return the points.

    >>> [(*at, delay.text) for at, delay in chosen()][:2]
    [('in twos', 5.0, 4.0, '15 ms'), ('in twos', 2.0, 2.0, '15 ms')]
    """
    every = [
        (At(partners, skew, speed), delay)
        for partners in points.PARTNERS
        for speed in points.SPEEDS
        for skew in points.SKEWS
        for delay in points.DELAYS
    ]
    drawn = random.Random(1).sample(range(len(every)), COUNT)
    return [every[at] for at in sorted(drawn)]


def named(at: At, delay: Delay) -> str:
    """Say which point it is."""
    return f"{at.partners}, skew {at.skew:g}, speed {at.speed:g}, {delay.text}"


def labels(at: At, delay: Delay) -> Mapping[str, Any]:
    """Return a row's first values."""
    return {"point": named(at, delay), **at._asdict(), "delay": delay.text}
