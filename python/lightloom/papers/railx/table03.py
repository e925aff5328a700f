"""Table 3: what networks cost; rows and numbers are Table 6's, in fewer columns."""

from __future__ import annotations

from functools import partial

from lightloom.papers.part import Part
from lightloom.papers.railx import table06

NUMBER = 3
TITLE = "Cost of networks"
COLUMNS = ("chips", "musd", "per_injection", "bandwidth", "per_bandwidth")


def parts() -> tuple[Part, ...]:
    """Return the one piece that it is made of."""
    return (Part("table 3", table06.priced),)


lines = partial(table06.cost_lines, "table 3", COLUMNS)
