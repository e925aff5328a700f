"""Table 6: what networks cost, by their parts, recomputed from prices and counted parts."""

from __future__ import annotations

from lightloom.papers.part import Line, Part, Rows
from lightloom.papers.railx.costs import cost_lines, priced
from lightloom.railx.cost import COLUMNS

NUMBER = 6
TITLE = "Cost of networks, part by part"


def parts() -> tuple[Part, ...]:
    """Return the one piece that it is made of."""
    return (Part("table 6", priced),)


def lines(rows: Rows) -> list[Line]:
    """Return how many cells follow from the paper's own prices, and which do not."""
    return cost_lines("table 6", rows, COLUMNS)
