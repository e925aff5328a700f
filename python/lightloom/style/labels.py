"""Where labels of points have room: beside their point, over no mark and no other label.

Places around a point are tried in turn, near ones first; a label that has none is left out. The
report's page does the same (``page.js``). Checked: no two boxes overlap (``tests/test_style.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import dist
from typing import NamedTuple


class Box(NamedTuple):
    """A box by its sides: left, bottom, right, top."""

    left: float
    bottom: float
    right: float
    top: float

    def meets(self, other: Box) -> bool:
        """Whether the two share more than a side."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.bottom < other.top
            and other.bottom < self.top
        )

    def within(self, other: Box) -> bool:
        """Whether it lies in another one."""
        return (
            other.left <= self.left
            and self.right <= other.right
            and other.bottom <= self.bottom
            and self.top <= other.top
        )


# Where a label's middle lies from its point, in halves of its width and height.
_AROUND = ((1, 1), (1, -1), (-1, 1), (-1, -1), (0, 1), (0, -1), (1, 0), (-1, 0))
# How far it lies from the point besides, in sizes of a mark.
_AWAY = (0.8, 1.6, 2.6)


def said_before(
    points: Sequence[tuple[float, float]], texts: Sequence[str], mark: float
) -> list[bool]:
    """Say of each point whether one before it, nearer than a mark, has the same text.

    Examples
    --------
    >>> said_before([(0, 0), (1, 0), (9, 0)], ["a", "a", "a"], 2.0)
    [False, True, False]
    """
    return [
        any(
            texts[before] == texts[at] and dist(points[before], point) < mark
            for before in range(at)
        )
        for at, point in enumerate(points)
    ]


def place(
    points: Sequence[tuple[float, float]],
    sizes: Sequence[tuple[float, float]],
    mark: float,
    area: Box,
    taken: Iterable[Box] = (),
) -> list[Box | None]:
    """Find a place for the label of each point.

    Parameters
    ----------
    points
        Where each lies, x to the right and y upwards.
    sizes
        Width and height of each label.
    mark
        How far a point's mark reaches from its middle.
    area
        What labels may not leave.
    taken
        Where none may lie, besides on marks.

    Returns
    -------
    list of Box or None
        One a label; None if there is no room.

    Examples
    --------
    >>> first, second = place([(0, 0), (1, 0)], [(10, 4), (10, 4)], 2, Box(-50, -50, 50, 50))
    >>> first.bottom > 0 > second.top
    True
    """
    marks = [Box(x - mark, y - mark, x + mark, y + mark) for x, y in points]
    used = [*taken]
    found: list[Box | None] = []
    for (x, y), (width, height) in zip(points, sizes, strict=True):
        chosen = None
        for away in _AWAY:
            for right, up in _AROUND:
                middle_x = x + right * (width / 2 + away * mark)
                middle_y = y + up * (height / 2 + away * mark)
                box = Box(middle_x - width / 2, middle_y - height / 2,
                          middle_x + width / 2, middle_y + height / 2)  # fmt: skip
                others = (
                    m for m in marks if not (m.left <= x <= m.right and m.bottom <= y <= m.top)
                )
                if box.within(area) and not any(map(box.meets, (*used, *others))):
                    chosen = box
                    break
            if chosen:
                break
        if chosen:
            used.append(chosen)
        found.append(chosen)
    return found
