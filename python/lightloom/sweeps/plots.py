"""Pictures of a sweep: a figure over one axis, a line a value of another; two axes as a heat map.

Where other axes or seeds give several values at one place, the line is their median and the band
around it reaches from the least to the most. Figures belong to the caller; pyplot is not touched.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lightloom.style.figures import MAP, fields, legend, number, page
from lightloom.style.palette import FAILED, INK, LINE, MUTED, Look, fabric_looks, first_looks
from lightloom.sweeps.figures import heading, least_is_best
from lightloom.sweeps.values import text_of
from lightloom.sweeps.where import Measure, measured

# More than that many lines or labelled places cannot be told apart.
_MOST_LINES, _MOST_TICKS, _MOST_CELLS = 10, 12, 400
_FABRICS = ("fabric.preset", "fabric.name", "fabric.kind")
Rows = Sequence[Mapping[str, Any]]


def default_x(values: Mapping[str, Sequence[Any]]) -> str:
    """Choose what lies along x, of the values of each axis: numbers first, the longest, no seed.

    Examples
    --------
    >>> default_x({"fabric.preset": ["a", "b"], "seed": [1, 2, 3], "training.micro_batch": [1, 2]})
    'training.micro_batch'
    """

    def merit(key: str) -> tuple[bool, bool, bool, int]:
        found = values[key]
        return len(found) > 1, key != "seed", numbers_of(found) is not None, len(found)

    return max(values, key=merit)


def default_lines(values: Mapping[str, Sequence[Any]]) -> str | None:
    """Choose what makes the lines, of the values of each axis but that along x; no seed.

    Examples
    --------
    >>> default_lines({"fabric.preset": ["a", "b"], "seed": [1, 2]}), default_lines({"seed": [1]})
    ('fabric.preset', None)
    """
    few = [key for key, found in values.items() if key != "seed" and 1 < len(found) <= _MOST_LINES]
    return min(few, key=lambda key: numbers_of(values[key]) is not None, default=None)


def lines(rows: Rows, figure: str, x: str, by: str | None) -> Figure:
    """Plot a figure over the values of `x`: lines where they are numbers, else bars.

    Parameters
    ----------
    rows
        Values by key and figures by name, a point each.
    figure, x, by
        What is plotted over what, and what makes the lines.
    """
    places = _distinct(rows, x)
    groups = _distinct(rows, by) if by else [None]
    numbers = numbers_of(places)
    with page(7.2, 4.4) as picture:
        axes = picture.subplots()
        spread = False
        for at, (group, look) in enumerate(zip(groups, _looks(by, groups), strict=True)):
            color = look.light
            label = None if by is None else text_of(group)
            found = [
                _at(rows, figure, {x: place} | ({by: group} if by else {})) for place in places
            ]
            some = [n for n, values in enumerate(found) if values]
            middle = [median(found[n]) for n in some]
            low, high = ([end(found[n]) for n in some] for end in (min, max))
            spread = spread or any(len(found[n]) > 1 for n in some)
            if numbers is not None:
                at_x = [numbers[n] for n in some]
                axes.plot(at_x, middle, color=color, marker=look.marker, linestyle=look.dash,
                          markersize=5, linewidth=1.5, label=label)  # fmt: skip
                axes.fill_between(at_x, low, high, color=color, alpha=0.15, linewidth=0)
            else:
                width = 0.8 / len(groups)
                at_x = [n + (at + 0.5) * width - 0.4 for n in some]
                ends = [np.subtract(middle, low), np.subtract(high, middle)]
                error = {"ecolor": INK, "elinewidth": 1.0, "capsize": 2.0}
                axes.bar(at_x, middle, width * 0.92, color=color, label=label,
                         yerr=ends if any(map(any, ends)) else None, error_kw=error)  # fmt: skip
        _along(axes, x, places, numbers)
        axes.set_ylabel(heading(figure))
        axes.set_ylim(bottom=0)
        axes.grid(axis="y")
        if by:
            legend(picture, axes, by)
        if spread:
            said = "median; the band is from the least to the most of what else varies"
            picture.supxlabel(said, fontsize=8, color=MUTED, x=0.99, ha="right")
    return picture


def heatmap(rows: Rows, figure: str, x: str, by: str) -> Figure:
    """Plot a figure over two axes; a place that has none stays empty, the best is framed."""
    columns, lines_ = _distinct(rows, x), _distinct(rows, by)
    grid = np.full((len(lines_), len(columns)), np.nan)
    for i, line in enumerate(lines_):
        for j, column in enumerate(columns):
            if values := _at(rows, figure, {x: column, by: line}):
                grid[i, j] = median(values)
    width = 2.2 + max(4.0, 0.62 * len(columns))
    with page(min(width, 14), min(1.5 + max(2.0, 0.42 * len(lines_)), 12)) as picture:
        axes = picture.subplots()
        image = axes.imshow(grid, cmap=MAP, aspect="auto", origin="lower")
        bar = picture.colorbar(image, ax=axes, label=heading(figure))
        bar.outline.set_visible(False)
        for ticks, names in ((axes.xaxis, columns), (axes.yaxis, lines_)):
            step = -(-len(names) // (2 * _MOST_TICKS))
            ticks.set_ticks(range(0, len(names), step), [text_of(n) for n in names[::step]])
        if max(len(text_of(name)) for name in columns) * len(columns) > 60:
            axes.tick_params(axis="x", rotation=30)
        if grid.size <= _MOST_CELLS and len(columns) <= 24:
            for (i, j), value in np.ndenumerate(grid):
                if not math.isnan(value):
                    number(axes, j, i, f"{value:.4g}", image.cmap(image.norm(value)), 7.5)
        best = (np.nanargmin if least_is_best(figure) else np.nanargmax)(grid)
        line, column = np.unravel_index(best, grid.shape)
        axes.add_patch(_frame(float(column), float(line)))
        fields(axes, len(lines_), len(columns))
        axes.set_xlabel(x)
        axes.set_ylabel(by)
    return picture


def _looks(by: str | None, groups: Sequence[Any]) -> list[Look]:
    """Return how each line looks; a fabric has its own look in every picture."""
    if by in _FABRICS:
        return list(fabric_looks(str(group) for group in groups).values())
    return first_looks(len(groups))


def _frame(x: float, y: float) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((x - 0.5, y - 0.5), 1, 1, fill=False, edgecolor=FAILED, linewidth=2.2,
                     zorder=3)  # fmt: skip


def _along(axes: Axes, x: str, places: Sequence[Any], numbers: Sequence[float] | None) -> None:
    """Label the places along x, in steps of a factor if they grow by one."""
    axes.set_xlabel(x)
    if numbers is None:
        axes.set_xticks(range(len(places)), [text_of(place) for place in places])
        if sum(len(text_of(place)) for place in places) > 70:
            axes.tick_params(axis="x", rotation=30)
        return
    if numbers[0] > 0 and numbers[-1] / numbers[0] >= 8 and len(numbers) > 2:
        axes.set_xscale("log", base=2)
    step = -(-len(places) // _MOST_TICKS)
    axes.set_xticks(numbers[::step], [text_of(place) for place in places[::step]])
    axes.minorticks_off()
    axes.spines["bottom"].set_color(LINE)


def _at(rows: Rows, figure: str, where: Mapping[str, Any]) -> list[float]:
    return [
        float(row[figure])
        for row in rows
        if row.get(figure) is not None and all(row[key] == value for key, value in where.items())
    ]


def _distinct(rows: Rows, key: str) -> list[Any]:
    """Return the values of a key: numbers and quantities by size, others as they come."""
    found: list[Any] = []
    for row in rows:
        if row[key] not in found:
            found.append(row[key])
    numbers = numbers_of(found)
    if numbers is None:
        return found
    return [found[n] for n in sorted(range(len(found)), key=numbers.__getitem__)]


def numbers_of(values: Sequence[Any]) -> list[float] | None:
    """Return values as numbers, quantities in base units; None if they are not all of one kind."""
    found = [measured(value) for value in values]
    if all(isinstance(value, Measure) for value in found) and len({v.kind for v in found}) == 1:
        return [float(value.amount) for value in found]
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in found):
        return [float(value) for value in found]
    return None
