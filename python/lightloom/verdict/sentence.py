"""A verdict: winner, runner-up, margin and what would reverse it, as fields and as sentences.

Ignored: what no price moves, such as power that a site lacks. Checked: in
``tests/test_verdict.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from lightloom.draws.spread import SAID
from lightloom.verdict.offers import Offer
from lightloom.verdict.turns import Turn

BY = {
    "cluster_usd": "performance per cluster dollar",
    "network_usd": "performance per network dollar",
    "cost_usd": "performance per dollar of the papers' count",
    "": "speed",
}
"""What a winner is the best in, by the money that counts: the first of these that no run lacks."""
WHAT = {
    "servers": "A GPU, with its share of the server",
    "switches": "A port of a packet switch",
}
FAR = 10.0
"""Turns farther off than so many times a price are not said in words. Chosen here."""


@dataclass(frozen=True)
class Verdict:
    """Who wins, by how much, and what would reverse it.

    ``str()`` of it, and `text`, are sentences.
    """

    by: str
    """What counts besides time: a key of `BY`."""
    winner: str
    equals: tuple[str, ...]
    """Runs of other fabrics that are exactly as good in every draw."""
    runner_up: str | None
    """The best run of another fabric; None if nothing else ran."""
    margin: float | None
    """As many times as good as the runner-up; over draws the median of the paired ratio."""
    low: float | None
    high: float | None
    """The interval of the paired ratio, 5th to 95th percentile; None of one draw."""
    draws: int
    varied: str
    """What was varied, in words."""
    fastest: str
    """Who wins on time alone."""
    turns: tuple[Turn, ...]
    """Prices that reverse the winner; empty where one of a run is missing."""
    still: bool
    """Whether the winner has optical circuits, and they never changed."""
    missing: tuple[str, ...]
    """Prices that nobody has published."""
    offers: tuple[Offer, ...]

    @property
    def noise(self) -> bool:
        """Whether the interval of the margin holds 1."""
        return self.low is not None and self.high is not None and self.low <= 1 <= self.high

    @property
    def text(self) -> str:
        """The verdict as sentences."""
        said = [self._margin(), self._time(), *map(self._turn, self.turns)]
        if self.still:
            often = "" if self.draws == 1 else " in any draw"
            said.append(f"The circuits of {self.winner} never changed{often}.")
        if self.missing and self.by != "cluster_usd":
            said.append(f"Cluster dollars are not known: {'; '.join(self.missing)} missing.")
        return " ".join(said)

    def __str__(self) -> str:
        return self.text

    def as_json(self) -> dict[str, Any]:
        """Return the fields by name, and the text first."""
        return {
            "text": self.text,
            "noise": self.noise,
            **asdict(self),
            "turns": [turn.as_json() for turn in self.turns],
        }

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> Verdict:
        """Return what `as_json` said.

        Raises
        ------
        KeyError, TypeError
            If it is something else.
        """
        values = {name: said[name] for name in cls.__dataclass_fields__}
        for name in ("equals", "missing"):
            values[name] = tuple(values[name])
        values["turns"] = tuple(map(Turn.from_json, values["turns"]))
        values["offers"] = tuple(map(Offer.from_json, values["offers"]))
        return cls(**values)

    def _margin(self) -> str:
        names = " and ".join((self.winner, *self.equals))
        win = "are equal, and win" if self.equals else "wins"
        if self.runner_up is None or self.margin is None:
            return f"{names} {win}: nothing else was run."
        interval = ""
        if self.low is not None and self.high is not None:
            interval = (
                f" ({_times(self.low)} to {_times(self.high)}, {SAID} of {self.draws} draws: "
                f"{self.varied})"
            )
        if self.noise:
            return (
                f"{names} and {self.runner_up} are within the noise: {_times(self.margin)}x in "
                f"{BY[self.by]}{interval}, which holds 1."
            )
        return (
            f"{names} {win}: {_times(self.margin)}x the {BY[self.by]} of {self.runner_up}"
            f"{interval}."
        )

    def _time(self) -> str:
        if not self.by:
            return "No price is known."
        also = ", too" if self.fastest in (self.winner, *self.equals) else ""
        return f"On time alone {self.fastest} wins{also}."

    def _turn(self, turn: Turn) -> str:
        here = "" if turn.here_usd is None else f" (here {usd(turn.here_usd)}{self._rate(turn)})"
        ends = []
        for word, factor, price, run in (
            ("below", turn.below, turn.below_usd, turn.below_winner),
            ("above", turn.above, turn.above_usd, turn.above_winner),
        ):
            if factor is not None and 1 / FAR <= factor <= FAR:
                at = f"{factor:.3g} times its price" if price is None else usd(price)
                ends.append(f"{word} {at} {run} wins")
        if not ends:
            return f"{WHAT[turn.part]}{here}: no price from a tenth to ten times that reverses it."
        return f"{WHAT[turn.part]}{here}: {', '.join(ends)}."

    def _rate(self, turn: Turn) -> str:
        if turn.part == "servers":
            return ""
        own = next(offer for offer in self.offers if offer.run == self.winner)
        others = {offer.bandwidth_gbps for offer in self.offers} - {own.bandwidth_gbps}
        return f" at {own.bandwidth_gbps:g} Gbps" + (", others in proportion" if others else "")


def usd(value: float) -> str:
    """Write dollars.

    >>> usd(32262.75), usd(43.217)
    ('$32,263', '$43.22')
    """
    return f"${value:,.0f}" if value >= 100 else f"${value:,.2f}"


def _times(value: float) -> str:
    """Write a ratio, with more digits near 1.

    >>> _times(2.1834), _times(1.0031)
    ('2.18', '1.003')
    """
    return f"{value:.2f}" if abs(value - 1) >= 0.02 else f"{value:.3f}"
