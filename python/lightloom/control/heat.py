"""Demand between servers: numbers of few, a picture of many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.style import Style
from rich.table import Table
from rich.text import Text

from lightloom.control.words import Names, fit, size

_SHADES = " ·░▒▓█"


def demand(
    status: Mapping[str, Any],
    names: Names,
    width: int = 80,
    cells: int = 64,
    *,
    color: bool = True,
) -> RenderableType:
    """Return what servers send each other: numbers, or of many servers a picture.

    ``cells`` is how many rows and columns the picture has at most; more servers share them.
    """
    rows = status["demand"]["bytes"]
    total = sum(map(sum, rows))
    if not total:
        return Text("no demand reported", "dim")
    most = max(map(max, rows))
    numbers = [one["server"] for one in status["servers"]]
    rounds = ", ".join(map(str, status["demand"]["rounds"]))
    note = Text(f"{size(total)} in round {rounds}; at most {size(most)} a pair", "dim")
    shown = names.brief(numbers, 8)
    if len(rows) <= 10 and width >= 10 + 7 * len(rows):
        joined = {(c["a"][0], c["b"][0]) for c in status["circuits"]}
        joined |= {(b, a) for a, b in joined}
        unit, name = _unit(most)
        note.append(f"; in {name}, * over circuits")
        table = Table.grid()
        table.add_row("", *(Text(f"{shown[n]:>6} ", "dim") for n in numbers))
        for a, row in zip(numbers, rows, strict=True):
            texts = [Text(f"{fit(names.server(a), 9):<10}", "dim")]
            for b, value in zip(numbers, row, strict=True):
                sign = "*" if (a, b) in joined else " "
                number = "-" if a == b else _short(value / unit)
                heat = _heat(value / most, text=True) if color and a != b else ""
                texts.append(Text(f"{number:>6}{sign}", heat))
            table.add_row(*texts)
        return Group(table, note)
    return Group(_picture(rows, [shown[n] for n in numbers], min(cells, width - 9), color), note)


def _unit(most: float) -> tuple[float, str]:
    for unit, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if most >= unit:
            return float(unit), name
    return 1.0, "B"


def _short(number: float) -> str:
    return f"{number:.0f}" if number >= 100 or number == int(number) else f"{number:.2f}"[:4]


def _heat(share: float, *, text: bool = False) -> Style:
    """Return a colour between dark and bright; small shares are seen, too."""
    stops = ((38, 34, 66), (49, 84, 140), (32, 144, 141), (94, 201, 98), (253, 231, 37))
    place = min(1.0, max(0.0, share)) ** 0.5 * (len(stops) - 1)
    at = min(int(place), len(stops) - 2)
    red, green, blue = (
        round(a + (b - a) * (place - at)) for a, b in zip(stops[at], stops[at + 1], strict=True)
    )
    behind = f"rgb({red},{green},{blue})"
    return (
        Style(color="rgb(255,255,255)" if place < 2 else "rgb(10,10,10)", bgcolor=behind)
        if text
        else Style(color=behind)
    )


def _picture(
    rows: Sequence[Sequence[int]], shown: Sequence[str], cells: int, color: bool
) -> RenderableType:
    """Two rows a line, in half blocks; without colour, in shades of the greater of the two."""
    share = -(-len(rows) // max(2, cells))  # servers of a cell
    parts = [range(at, min(at + share, len(rows))) for at in range(0, len(rows), share)]
    sums = [[sum(rows[a][b] for a in up for b in across) for across in parts] for up in parts]
    most = max(map(max, sums))
    text = Text(no_wrap=True)
    for at in range(0, len(parts), 2):
        text.append(f"{shown[parts[at][0]]:>8} ", "dim")
        upper = sums[at]
        lower = sums[at + 1] if at + 1 < len(parts) else [0] * len(parts)
        for a, b in zip(upper, lower, strict=True):
            if color:
                behind = _heat(b / most).color
                text.append("▀", _heat(a / most) + Style(bgcolor=behind))
            else:
                text.append(_SHADES[round((len(_SHADES) - 1) * (max(a, b) / most) ** 0.5)])
        text.append("\n")
    text.append(f"{'from to':>8} {_marks(parts, shown)}", "dim")
    if share > 1:
        text.append(f"\n{'':>9}a square is {share} x {share} servers", "dim")
    return text


def _marks(parts: Sequence[range], shown: Sequence[str]) -> str:
    """Names below a picture's columns, as many as there is room for."""
    line = ""
    for at, part in enumerate(parts):
        name = shown[part[0]]
        if at == 0 or (at % 8 == 0 and len(line) < at and at + len(name) <= len(parts)):
            line = f"{line:<{at}}{name}"
    return line
