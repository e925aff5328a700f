"""Figure 2: how much faster, where servers send their partner most."""

from __future__ import annotations

from lightloom.papers.part import Line, Part, Picture, Rows
from lightloom.studies.reconfiguration import map as maps

NUMBER = 2
TITLE = "How many times as long rivals take as circuits that change, in twos"


def parts() -> tuple[Part, ...]:
    """Return those of Figure 1 that are in twos."""
    return maps.parts("in twos")


def lines(rows: Rows) -> list[Line]:
    """Return the least and the most of each rival."""
    return maps.extremes(NUMBER, rows)


def draw(rows: Rows) -> Picture:
    """Draw a row a rival, a column a time of compute, and in black where it begins to pay."""
    return maps.heat(f"Figure {NUMBER}: {TITLE}", rows)
