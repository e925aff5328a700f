"""Who wins at every price of a GPU and of a switch port: polygons, exact.

Time times dollars of a run is a plane over the two prices, so that a run wins on a convex polygon:
the rectangle of prices, cut by a half-plane for each rival (Sutherland and Hodgman 1974, of one
line at a time). Checked: areas add up to the rectangle, and points inside agree with the prices
themselves, in ``tests/test_verdict.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lightloom.verdict.offers import Offer

Point = tuple[float, float]


class Region(NamedTuple):
    """Where a run wins: corners, in multiples of the prices here, of GPU and of port."""

    run: str
    fabric: str
    bandwidth_gbps: float
    corners: tuple[Point, ...]

    @property
    def area(self) -> float:
        """How large it is.

        >>> Region("a", "a", 400.0, ((0, 0), (2, 0), (2, 1), (0, 1))).area
        2.0
        """
        turned = (*self.corners[1:], self.corners[0])
        pairs = zip(self.corners, turned, strict=True)
        return abs(sum(a[0] * b[1] - b[0] * a[1] for a, b in pairs)) / 2

    @property
    def middle(self) -> Point:
        """Its centre of mass, where a label has room."""
        turned = (*self.corners[1:], self.corners[0])
        x = y = twice = 0.0
        for a, b in zip(self.corners, turned, strict=True):
            cross = a[0] * b[1] - b[0] * a[1]
            x, y, twice = x + (a[0] + b[0]) * cross, y + (a[1] + b[1]) * cross, twice + cross
        return (x / (3 * twice), y / (3 * twice)) if twice else self.corners[0]


def regions(offers: Sequence[Offer], widest: float, highest: float) -> list[Region]:
    """Return where each run wins, up to so many times the price of a GPU and of a port.

    Of equal runs the first has the region.

    Examples
    --------
    >>> a = Offer("a", "a", 400.0, 1.0, 50.0, 50.0, 0.0, 1.0, 1.0, False, 0)
    >>> b = Offer("b", "b", 400.0, 1.0, 50.0, 0.0, 50.0, 1.0, 1.0, True, 0)
    >>> [(one.run, one.area) for one in regions([a, b], 2.0, 2.0)]
    [('a', 2.0), ('b', 2.0)]
    """
    planes = [_plane(offer) for offer in offers]
    found = []
    for at, (offer, plane) in enumerate(zip(offers, planes, strict=True)):
        corners: list[Point] = [(0.0, 0.0), (widest, 0.0), (widest, highest), (0.0, highest)]
        for other, rival in enumerate(planes):
            cut = tuple(theirs - ours for ours, theirs in zip(plane, rival, strict=True))
            flat = max(map(abs, cut)) <= 1e-12 * max(map(abs, plane))
            if other == at or (flat and other > at):
                continue
            corners = [] if flat else _cut(corners, *cut)
        region = Region(offer.run, offer.fabric, offer.bandwidth_gbps, tuple(corners))
        if len(corners) > 2 and region.area > 1e-9 * widest * highest:
            found.append(region)
    return found


def _plane(offer: Offer) -> tuple[float, float, float]:
    """Return time times dollars as constant, and what each price here of both adds."""
    zero = offer.score(0.0, 0.0)
    return zero, offer.score(1.0, 0.0) - zero, offer.score(0.0, 1.0) - zero


def _cut(corners: Sequence[Point], zero: float, along_x: float, along_y: float) -> list[Point]:
    """Return the part of a convex polygon where the plane of three figures is not negative."""
    found: list[Point] = []
    for a, b in zip(corners, (*corners[1:], *corners[:1]), strict=True):
        at_a, at_b = (zero + along_x * p[0] + along_y * p[1] for p in (a, b))
        if at_a >= 0:
            found.append(a)
        if (at_a > 0 > at_b) or (at_a < 0 < at_b):
            share = at_a / (at_a - at_b)
            found.append((a[0] + share * (b[0] - a[0]), a[1] + share * (b[1] - a[1])))
    return found
