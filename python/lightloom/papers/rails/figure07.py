"""Figure 7: bus bandwidth over ECMP's, for demands of rising skew (RailS, Sections VI-B, VI-C)."""

from __future__ import annotations

from typing import Any

from lightloom.papers.part import Line, Part, Picture, grouped
from lightloom.papers.rails.compared import SPARSE, Rows, compared, gain, gains

NUMBER = 7
TITLE = "Bus bandwidth"


def parts(**settings: Any) -> tuple[Part, ...]:
    """Return a piece a workload; Figures 8 and 9 have the same."""
    return tuple(compared(name, **settings) for name in SPARSE)


def lines(rows: Rows) -> list[Line]:
    """Return the gains that the paper names."""
    done = grouped(rows, "workload")
    even = done["uniform"]
    all_others = "bus bandwidth, RailS over the others"
    return [
        Line("7a", "uniform", "bus bandwidth, RailS over ECMP", "1.29", gain(even, "rails")),
        Line("7a", "uniform", "REPS over ECMP", "1.34", gain(even, "reps")),
        Line("7a", "uniform", "MinRTT over ECMP", "1.24", gain(even, "min-rtt")),
        Line("7a", "uniform", "PLB over RailS", "0.80", gain(even, "plb", "rails")),
        Line("7b", SPARSE[1], all_others, "2.8", gains(done[SPARSE[1]])),
        *(Line(f"7{letter}", name, all_others, "1.20 to 1.78", gains(done[name]))
          for letter, name in zip("cde", SPARSE[2:], strict=True)),
    ]  # fmt: skip


def draw(rows: Rows) -> Picture:
    """Draw a panel a workload, a bar a scheme."""
    from lightloom.papers.rails.plots import bandwidths, side_by_side

    with side_by_side(rows) as (figure, panels):
        for axes, some in panels:
            bandwidths(axes, some, label=axes is panels[0][0])
    return figure
