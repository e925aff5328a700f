"""Table 3: what networks cost, recomputed from prices and counted parts."""

from __future__ import annotations

from lightloom.papers.part import Line, Part, Rows
from lightloom.papers.railx.costs import cost_lines, priced

NUMBER = 3
TITLE = "Cost of networks"
COLUMNS = ("chips", "musd", "per_injection", "bandwidth", "per_bandwidth")
"""Its rows and their numbers are Table 6's."""


def parts() -> tuple[Part, ...]:
    """Return the one piece that it is made of."""
    return (Part("table 3", priced),)


def lines(rows: Rows) -> list[Line]:
    """Return how many cells follow from the paper's own prices, and which do not."""
    return cost_lines("table 3", rows, COLUMNS)
