"""Figure 10: senders of unlike loads (RailS, Section VI-D)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lightloom.papers.part import Line, Part
from lightloom.papers.rails.compared import Rows, compared, cut, errors, gain

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

NUMBER = 10
TITLE = "Skewed senders"
WORKLOAD = "sender-skewed:1.2"


def parts(**settings: Any) -> tuple[Part, ...]:
    """Return the one piece that it is made of."""
    return (compared(WORKLOAD, **settings),)


def lines(rows: Rows) -> list[Line]:
    """Return gains, evenness of the senders, and completion times."""
    return [
        Line(figure, WORKLOAD, what, paper, ours)
        for figure, what, paper, ours in (
            ("10a", "bus bandwidth, RailS over ECMP", "2.26", gain(rows, "rails")),
            ("10a", "RailS over MinRTT", "1.58", gain(rows, "rails", "min-rtt")),
            ("10a", "RailS over PLB", "2.70", gain(rows, "rails", "plb")),
            ("10a", "REPS over PLB", "2.75", gain(rows, "reps", "plb")),
            ("10b", "sender MSE, RailS / REPS", "below 0.01",
             errors(rows, "sender", "rails", "reps")),
            ("10b", "sender MSE, MinRTT", "0.03", errors(rows, "sender", "min-rtt")),
            ("10b", "sender MSE, PLB / ECMP", "0.15", errors(rows, "sender", "plb", "ecmp")),
            ("10d", "all-to-all shorter than ECMP's and PLB's", "55.9 to 62.9 %",
             cut(rows, "ecmp", "plb")),
            ("10d", "all-to-all shorter than MinRTT's", "34.6 %", cut(rows, "min-rtt")),
        )
    ]  # fmt: skip


def draw(rows: Rows) -> Picture:
    """Draw bandwidth, completion times and the loads of NICs."""
    from lightloom.papers.rails.plots import skewed

    return skewed(rows)
