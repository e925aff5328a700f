"""What all pictures share: a page in the house's style, hues and markers, ticks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from lightloom.report.plots import STYLE

# Okabe and Ito's hues (2008).
HUES = ("#0072b2", "#c77f00", "#00805c", "#5b3cc4", "#b9588f", "#4d5663", "#56b4e9", "#d55e00")
SHAPES = ("o", "s", "v", "D", "^", "P", "X", "*")


@contextmanager
def page(width: float, height: float, dpi: float | None = None) -> Iterator[Figure]:
    """Yield an empty picture [inch], to be drawn within; it is never pyplot's."""
    with rc_context(STYLE):
        figure = Figure((width, height), dpi=dpi)
        figure.set_layout_engine("constrained")
        yield figure


def every_x(
    axes: Axes, places: Sequence[float], text: Callable[[float], str] = "{:,g}".format
) -> None:
    """Put a tick at each of these places and nowhere else."""
    axes.xaxis.set_major_locator(FixedLocator(list(places)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: text(value)))
