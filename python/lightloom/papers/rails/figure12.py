"""Figure 12: Mixtral 8x7B's all-to-alls in four phases of its training, placed densely.

RailS, Section VI-F.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lightloom.papers.part import Line, Part
from lightloom.papers.rails.compared import Rows
from lightloom.papers.rails.mixtral import phase_lines, phase_parts

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

NUMBER = 12
TITLE = "Mixtral 8x7B, dense"
SHORTER = ("19.5 to 34.9 %", "8.9 to 19.2 %", "25.3 to 31.2 %", "17.9 to 44.3 %")


def parts(**settings: Any) -> tuple[Part, ...]:
    """Return a piece a phase."""
    return phase_parts("dense", settings)


def lines(rows: Rows) -> list[Line]:
    """Return how much shorter all-to-alls and iterations are."""
    return phase_lines(NUMBER, "dense", rows, SHORTER, "up to 18 %")


def draw(rows: Rows) -> Picture:
    """Draw the all-to-all beside the iteration, a bar a phase and scheme."""
    from lightloom.papers.rails.plots import phases

    return phases(rows)
