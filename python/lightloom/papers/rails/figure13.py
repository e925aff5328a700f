"""Figure 13: Mixtral 8x7B's all-to-alls in four phases of its training, placed sparsely.

RailS, Section VI-F.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lightloom.papers.part import Line, Part
from lightloom.papers.rails.compared import Rows
from lightloom.papers.rails.mixtral import phase_lines, phase_parts

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

NUMBER = 13
TITLE = "Mixtral 8x7B, sparse"
SHORTER = ("66.1 to 69.2 %", "75.1 to 80.4 %", "75.1 to 76.8 %", "73.9 to 75.7 %")


def parts(**settings: Any) -> tuple[Part, ...]:
    """Return a piece a phase."""
    return phase_parts("sparse", settings)


def lines(rows: Rows) -> list[Line]:
    """Return how much shorter all-to-alls and iterations are."""
    return phase_lines(NUMBER, "sparse", rows, SHORTER, "at least 40 %")


def draw(rows: Rows) -> Picture:
    """Draw the all-to-all beside the iteration, a bar a phase and scheme."""
    from lightloom.papers.rails.plots import phases

    return phases(rows)
