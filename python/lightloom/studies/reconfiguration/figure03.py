"""Figure 3: how much faster, where servers send the next in a circle most."""

from __future__ import annotations

from lightloom.papers.part import Line, Part, Picture, Rows
from lightloom.studies.reconfiguration import map as maps

NUMBER = 3
TITLE = "How many times as long rivals take as circuits that change, in a circle"


def parts() -> tuple[Part, ...]:
    """Return those of Figure 1 that are in a circle."""
    return maps.parts("in a circle")


def lines(rows: Rows) -> list[Line]:
    """Return the least and the most of each rival."""
    return maps.extremes(NUMBER, rows)


def draw(rows: Rows) -> Picture:
    """Draw a row a rival, a column a time of compute, and in black where it begins to pay."""
    return maps.heat(f"Figure {NUMBER}: {TITLE}", rows)
