"""The table of a sweep on a terminal: its axes, the main figures, the best point marked."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from lightloom import screen
from lightloom.screen import Column
from lightloom.sweeps.axes import named
from lightloom.sweeps.figures import heading, least_is_best
from lightloom.sweeps.points import Point
from lightloom.sweeps.result import Sweep, main_figures
from lightloom.sweeps.values import text_of

# Points that are shown, unless there are not many more; the best ones of others.
_SHOWN, _FEW = 20, 40


def render(sweep: Sweep, figure: str, console: Console | None = None) -> None:
    """Print the points of a sweep: all if they are few, else the best by a figure."""
    out = console or screen.console()
    rows = [row for row in sweep.rows if row.get(figure) is not None]
    values = {key: {text_of(row[key]) for row in rows} for key in sweep.axes}
    axes = [key for key in sweep.axes if len(values[key]) > 1] or list(sweep.axes)
    figures = list(dict.fromkeys((figure, *main_figures(sweep.figures))))
    figures = [name for name in figures if any(row.get(name) for row in rows)] or [figure]
    ranked = sorted(rows, key=lambda row: row[figure], reverse=not least_is_best(figure))
    shown = rows if len(rows) <= _FEW else ranked[:_SHOWN]
    columns = [Column(_short(key), name=True) for key in axes]
    columns += [
        Column(_above(name), _above(name).replace("exposed ", ""), rank=at)
        for at, name in enumerate(figures)
    ]
    lines, cells = [], {name: _column(name, shown) for name in figures}
    for line, row in enumerate(shown):
        best = row is ranked[0] and len(rows) > 1
        texts = [Text(text_of(row[key])) for key in axes]
        for at, name in enumerate(figures):
            mark = ("*" if best else " ") if at == 0 and len(rows) > 1 else ""
            texts.append(Text(f"{cells[name][line]}{mark}", "bold" if best and not at else ""))
        lines.append(texts)
    if lines:
        screen.print_table(columns, lines, out)
    same = [f"{key}={text_of(rows[0][key])}" for key in sweep.axes if key not in axes and rows]
    if len(rows) > len(shown):
        out.print(f"the {len(shown)} best of {len(rows):,} points by {figure}", style="dim")
    elif len(rows) > 1:
        out.print(f"* best {heading(figure)}", style="dim", markup=False)
    if same:
        out.print(f"everywhere: {' '.join(same)}", style="dim", markup=False)


def render_points(points: Sequence[Point], console: Console | None = None) -> None:
    """Print points that are not run yet, and which of them do not fit together."""
    out = console or screen.console()
    keys = list(points[0].values)
    columns = [*(Column(_short(key), name=True) for key in keys), Column("", left=True)]
    lines = [
        [*(text_of(point.values[key]) for key in keys), "misfit" if point.misfit else ""]
        for point in points
    ]
    screen.print_table(columns, lines, out)


def listed(what: str, points: Iterable[tuple[str, str]], most: int = 5) -> list[str]:
    """Return lines that name points and what is wrong with them.

    Examples
    --------
    >>> listed("failed", [("seed=1", "no"), ("seed=2", "no")], most=1)
    ['failed: seed=1: no', 'failed: and 1 more: points.parquet has them all']
    """
    found = list(points)
    lines = [f"{what}: {name}: {message}" for name, message in found[:most]]
    if len(found) > most:
        lines.append(f"{what}: and {len(found) - most:,} more: points.parquet has them all")
    return lines


def misfit_names(points: Iterable[Point]) -> list[tuple[str, str]]:
    """Return name and message of misfits."""
    return [(named(point.values), point.misfit) for point in points if point.misfit]


def _short(key: str) -> str:
    """Return the last part of a key, with the one before if it says little alone."""
    parts = key.split(".")
    return ".".join(parts[-2:]) if parts[-1] in ("kind", "preset", "name") else parts[-1]


def _above(figure: str) -> str:
    r"""Return what stands above a figure.

    Examples
    --------
    >>> _above("exposed_a2a_s"), _above("cost_usd"), _above("tokens_per_s")
    ('exposed all-to-all\ns', 'cost\nM$', 'tokens\nper s')
    """
    if figure == "cost_usd":
        return "cost\nM$"
    text = heading(figure).replace("reconfiguration", "reconf.").replace(" per ", "\nper ")
    return text.replace(" [", "\n").rstrip("]")


def _column(figure: str, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Write the values of a figure, four digits of the greatest, all with one unit.

    Examples
    --------
    >>> _column("a", [{"a": 9.25}, {"a": 0.125}, {}]), _column("a", [{"a": 120_000.0}, {"a": 5.0}])
    (['9.250', '0.125', '-'], ['120.0 k', '0.0 k'])
    """
    values = [row.get(figure) for row in rows]
    most = max((abs(value) for value in values if value is not None), default=0.0)
    units = ((1e9, " G"), (1e6, " M"), (1e3, " k"))
    scale, unit = next((each for each in units if most >= 10 * each[0]), (1.0, ""))
    if figure == "cost_usd":
        scale, unit = 1e6, ""
    whole = all(value is None or value % 1 == 0 for value in values) and scale == 1
    digits = 0 if whole or not most else max(0, 3 - math.floor(math.log10(most / scale)))
    return ["-" if value is None else f"{value / scale:.{digits}f}{unit}" for value in values]
