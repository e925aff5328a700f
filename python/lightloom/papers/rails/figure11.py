"""Figure 11: receivers of unlike loads (RailS, Section VI-E)."""

from __future__ import annotations

from typing import Any

from lightloom.papers.part import Line, Part
from lightloom.papers.rails import figure10
from lightloom.papers.rails.compared import OTHERS, Rows, compared, cut, errors, gain

NUMBER = 11
TITLE = "Skewed receivers"
WORKLOAD = "receiver-skewed:1.2"


def parts(**settings: Any) -> tuple[Part, ...]:
    """Return the one piece that it is made of."""
    return (compared(WORKLOAD, **settings),)


def lines(rows: Rows) -> list[Line]:
    """Return gains, evenness of the receivers, and completion times."""
    return [
        Line(figure, WORKLOAD, what, paper, ours)
        for figure, what, paper, ours in (
            ("11a", "bus bandwidth, RailS over PLB", "3.08 (normalized)",
             gain(rows, "rails", "plb")),
            ("11a", "RailS over ECMP", "2", gain(rows, "rails")),
            ("11a", "REPS over PLB", "1.44", gain(rows, "reps", "plb")),
            ("11c", "receiver MSE, RailS", "below 0.01", errors(rows, "receiver", "rails")),
            ("11c", "receiver MSE, the others", "0.15", errors(rows, "receiver", *OTHERS)),
            ("11d", "all-to-all shorter than the others'", "more than 50 %", cut(rows)),
        )
    ]  # fmt: skip


draw = figure10.draw
