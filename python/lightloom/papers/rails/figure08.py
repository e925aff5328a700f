"""Figure 8: the distribution of completion times, on the workloads of Figure 7."""

from __future__ import annotations

from lightloom.papers.part import Line, Picture
from lightloom.papers.rails import figure07
from lightloom.papers.rails.compared import Rows

NUMBER = 8
TITLE = "Distribution of completion times"
parts = figure07.parts


def lines(_rows: Rows) -> list[Line]:
    """Return nothing: the paper's text gives no number of it."""
    return []


def draw(rows: Rows) -> Picture:
    """Draw a panel a workload, a curve a scheme."""
    from lightloom.papers.rails.plots import side_by_side
    from lightloom.rails.plots import draw_cdf
    from lightloom.style.figures import legend

    with side_by_side(rows) as (figure, panels):
        for axes, some in panels:
            draw_cdf(axes, [each.scheme for each in some])
            axes.set_xlabel("completion time over RailS's", fontsize=8.5)
            if axes is not panels[0][0]:
                axes.set_ylabel("")
        legend(figure, panels[0][0])
    return figure
