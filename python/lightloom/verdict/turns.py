"""At which price the order turns, in closed form.

Time times dollars of a run is a straight line in the price of servers or of switches, for all else
is fixed. The winner at each price is the lowest line; going up or down from the price here, the
next line that crosses the lowest one takes over. The first that belongs to another fabric reverses
the winner. Checked: against pricing anew just above and just below, and against a search over many
prices, in ``tests/test_verdict.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from lightloom.verdict.offers import Offer, Part

# Lines nearer than this share of themselves are one line.
SAME = 1e-9


@dataclass(frozen=True)
class Turn:
    """Prices, of a GPU or of a switch port, at which another fabric wins."""

    part: Part
    here_usd: float | None
    """What one costs here: a GPU with its share of the server, or a port at the winner's rate."""
    below: float | None
    """As many times the price here as the price at which the order turns, less than 1."""
    below_winner: str | None
    """The run that wins below that."""
    above: float | None
    """The same, more than 1."""
    above_winner: str | None

    @property
    def below_usd(self) -> float | None:
        """The price below which another fabric wins [US dollars]."""
        return _times(self.below, self.here_usd)

    @property
    def above_usd(self) -> float | None:
        """The price above which another fabric wins [US dollars]."""
        return _times(self.above, self.here_usd)

    def as_json(self) -> dict[str, Any]:
        """Return the fields by name, prices too."""
        return {**asdict(self), "below_usd": self.below_usd, "above_usd": self.above_usd}

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> Turn:
        """Return what `as_json` said."""
        return cls(**{name: said[name] for name in cls.__dataclass_fields__})


def turns(offers: Sequence[Offer], winner: Offer, part: Part) -> Turn:
    """Return where the order turns as one price moves and all others stay.

    Parameters
    ----------
    offers
        Every run, each with all its prices.
    winner
        Which of them wins here.
    part
        Whose price moves.

    Examples
    --------
    >>> dear = Offer("fast", "fat-tree", 400.0, 1.0, 60.0, 30.0, 10.0, 1.0, 100.0, False, 0)
    >>> cheap = Offer("cheap", "mixnet", 400.0, 1.1, 60.0, 5.0, 20.0, 1.0, 100.0, True, 9)
    >>> found = turns([dear, cheap], cheap, "switches")
    >>> round(found.below, 3), found.below_winner, found.above
    (0.735, 'fast', None)
    >>> abs(dear.score(switches=found.below) - cheap.score(switches=found.below)) < 1e-9
    True
    """
    here = winner.gpu_usd if part == "servers" else winner.port_usd
    below = _next(offers, winner, part, -1)
    above = _next(offers, winner, part, 1)
    return Turn(
        part, here,
        below and below[0], below and below[1].run, above and above[0], above and above[1].run,
    )  # fmt: skip


def _next(
    offers: Sequence[Offer], winner: Offer, part: Part, way: int
) -> tuple[float, Offer] | None:
    """Return where, going one way from 1, another fabric's line becomes the lowest."""
    lines = [(offer, *_line(offer, part)) for offer in offers]
    now, base, slope = next(line for line in lines if line[0] is winner)
    at = 1.0
    while True:
        # Only lines that fall faster, the way we go, can come to lie below.
        steeper = [line for line in lines if way * (line[2] - slope) < -SAME * abs(slope)]
        crossings = [
            (max(0.0, way * ((other_base - base) / (slope - other_slope) - at)), other)
            for other in steeper
            for _, other_base, other_slope in [other]
        ]
        if not crossings:
            return None
        # Of lines that cross at one point the steepest is the lowest behind it.
        step, (following, base, slope) = min(
            crossings, key=lambda found: (found[0], way * found[1][2])
        )
        at += way * step
        if at <= 0:
            return None
        now = following
        if now.fabric != winner.fabric:
            return at, now


def _line(offer: Offer, part: Part) -> tuple[float, float]:
    """Return time times dollars at a price of nothing, and what each price here adds."""
    base = offer.score(**{part: 0.0})
    return base, offer.score() - base


def _times(factor: float | None, here: float | None) -> float | None:
    return None if factor is None or here is None else factor * here
