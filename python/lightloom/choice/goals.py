"""What a buyer wants: a goal says which of two clusters within the budget is better.

`score` is greater for a better one; a bound on the time gives a score that no run can exceed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Goal = Literal["tokens-per-dollar", "time", "cost"]
GOALS: tuple[Goal, ...] = get_args(Goal)

MEANS: dict[str, str] = {
    "tokens-per-dollar": "most tokens for a dollar of servers, network and energy",
    "time": "most tokens a second",
    "cost": "the cheapest network that is nearly as fast as the fastest",
}


TIE = 0.01
"""For ``time``, what is as fast within this share is as good, and the cheaper network is better: as
much as the engine's own tolerance in a search."""


@dataclass(frozen=True)
class Aim:
    """A goal, and what it takes to judge by it.

    Examples
    --------
    >>> aim = Aim("time")
    >>> aim.score(tokens_per_s=2.0, network_usd=9.0, cluster_usd=20.0)
    2.0
    >>> nearly = Aim("cost", fastest=100.0, within=0.05)
    >>> nearly.score(tokens_per_s=96.0, network_usd=9.0, cluster_usd=None)
    -9.0
    >>> nearly.score(tokens_per_s=94.0, network_usd=8.0, cluster_usd=None) < -1e17
    True
    """

    goal: Goal
    fastest: float = 0.0
    """Tokens a second of the fastest, for ``cost``."""
    within: float = 0.05
    """How much slower than the fastest still is nearly as fast, for ``cost``."""

    def score(self, *, tokens_per_s: float, network_usd: float, cluster_usd: float | None) -> float:
        """Return how good a cluster is; the unit is the goal's."""
        if self.goal == "time":
            return tokens_per_s
        if self.goal == "cost":
            short = tokens_per_s < (1 - self.within) * self.fastest
            # What is too slow is behind all that is not, the faster the better.
            return -1e18 + tokens_per_s if short else -network_usd
        assert cluster_usd is not None, "whoever asks has checked that nothing is missing"
        return tokens_per_s / cluster_usd

    def least(self, best: float) -> float:
        """Return the least score that is as good as the best one."""
        return best * (1 - TIE) if self.goal == "time" else best

    def prefers(self, one: tuple[float, float], other: tuple[float, float]) -> bool:
        """Whether the first of two is better, each with its score and its network's dollars.

        Examples
        --------
        >>> Aim("time").prefers((99.5, 1e6), (100.0, 2e6)), Aim("time").prefers((98, 1), (100, 2))
        (True, False)
        """
        if min(one[0], other[0]) >= self.least(max(one[0], other[0])):
            return one[1] < other[1] or (one[1] == other[1] and one[0] > other[0])
        return one[0] > other[0]
