"""Lines of the table for RailX's figures, read from their rows."""

from __future__ import annotations

from lightloom.papers.part import Line, Rows


def figure_lines(number: int, rows: Rows) -> list[Line]:
    """Return a line for each point that the paper gives a number for.

    >>> row = {"panel": "a", "series": "RailX", "what": "saturation", "paper": "0.8", "y": 0.75}
    >>> figure_lines(14, [row])[0].cells()
    ('14a', 'RailX', 'saturation', '0.8', '0.750')
    """
    return [
        Line(f"{number}{row['panel']}", row["series"], row["what"], row["paper"], _text(row["y"]))
        for row in rows
        if row.get("paper") is not None
    ]


def _text(value: float | str) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)
