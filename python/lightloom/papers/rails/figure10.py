"""Figure 10: senders of unlike loads (RailS, Section VI-D)."""

from __future__ import annotations

from typing import Any

from lightloom.papers.part import Line, Part, Picture
from lightloom.papers.rails.compared import Rows, compared, cut, errors, gain

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
    """Draw bandwidth, completion times, and bytes of NICs by domain and rail."""
    from lightloom.papers.rails.plots import bandwidths
    from lightloom.rails.plots import draw_cdf, draw_loads
    from lightloom.style.figures import page

    schemes = [each.scheme for each in rows]
    with page(11.5, 7.6) as figure:
        halves: Any = figure.subfigures(2, 1, height_ratios=(1, 1.15))
        left, right = halves[0].subplots(1, 2)
        bandwidths(left, rows)
        left.set_title("(a) bus bandwidth")
        draw_cdf(right, schemes)
        right.set_title("(d) completion times")
        for side, title, place in zip(
            ("sender", "receiver"), ("(b) bytes sent", "(c) bytes received"),
            halves[1].subfigures(1, 2), strict=True,
        ):  # fmt: skip
            grid = place.subplots(1, len(schemes), squeeze=False)[0]
            draw_loads(grid, schemes, side)
            place.suptitle(title, x=0.02, ha="left", fontsize=11, fontweight="bold")
    return figure
