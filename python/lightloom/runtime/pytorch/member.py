"""A rank as the member of a group, and what an operation consists of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lightloom.runtime.rank import Rank
from lightloom.runtime.work import Work


@dataclass(frozen=True)
class Member:
    """A rank in a group.

    Attributes
    ----------
    rank
        This process's.
    group
        The group's number at the runtime.
    ranks
        The members, by their numbers in the job.
    """

    rank: Rank
    group: int
    ranks: Sequence[int]

    @property
    def at(self) -> int:
        """Which of the members this is."""
        return self.ranks.index(self.rank.rank)

    @property
    def size(self) -> int:
        """How many there are."""
        return len(self.ranks)


@dataclass(frozen=True)
class Begun:
    """Collectives of the runtime under way, and what is to be done when they are over."""

    parts: Sequence[Work]
    after: Callable[[], None] | None = None
