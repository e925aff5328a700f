"""Lines of the table that `lightloom reproduce railx` prints: the paper's figures beside ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lightloom.railx.cost import COLUMNS, TABLE_3

Line = dict[str, str]


def lines(part: str, rows: Sequence[dict[str, Any]]) -> list[Line]:
    """Return a part's lines, a dictionary each: part, setting, what, paper, here.

    Examples
    --------
    >>> row = {"panel": "a", "series": "RailX", "what": "saturation", "paper": "0.8", "y": 0.75}
    >>> lines("figure 14", [row])
    [{'part': '14a', 'setting': 'RailX', 'what': 'saturation', 'paper': '0.8', 'here': '0.750'}]
    """
    kind, _, number = part.partition(" ")
    if kind == "figure":
        return [
            _line(number + str(row["panel"]), row["series"], row["what"], row["paper"], row["y"])
            for row in rows
            if row.get("paper") is not None
        ]
    if number == "2":
        return [line for row in rows for line in _table2(row)]
    return _costs(part, rows, TABLE_3 if number == "3" else COLUMNS)


def _table2(row: dict[str, Any]) -> list[Line]:
    setting = f"{row['topology']} m={row['mesh']} n={row['ports']} R={row['ocs']}"
    cut, rails = row["cut_throughput"], row["rail_throughput"]
    found = [f"{value:.3g} {by}" for value, by in ((cut, "by cut"), (rails, "by rails"))
             if value is not None]  # fmt: skip
    return [
        _line("table 2", setting, what, paper, here)
        for what, paper, here in (
            ("chips", f"{row['chips_paper']:,}", f"{row['chips']:,}"),
            ("diameter, optical hops", row["diameter_paper"], row["diameter"]),
            ("flits/cycle/chip", f"{row['throughput_paper']:.3g}", ", ".join(found)),
        )
    ]


def _costs(part: str, rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> list[Line]:
    """Return how many cells follow, those that do not, and what is to be said of systems."""
    wrong, found = 0, []
    for row in rows:
        reasons: dict[str, list[str]] = {}
        for column in columns:
            if column in row["departures"]:
                reasons.setdefault(row["departures"][column], []).append(column)
        for why, cells in reasons.items():
            wrong += len(cells)
            here = ", ".join(row["here"][cell] for cell in cells)
            printed = ", ".join(row["paper"][cell] for cell in cells)
            what = ", ".join(_CELLS[cell] for cell in cells)
            found.append(_line(part, row["name"], what, printed, f"{here} ({why})"))
        found += [_line(part, row["name"], "note", "-", note) for note in row["notes"]]
    count = len(rows) * len(columns)
    return [_line(part, "all", "cells that follow", str(count), str(count - wrong)), *found]


_CELLS = {
    "chips": "chips", "switches": "switches", "copper_k": "1000 copper cables",
    "transceivers_k": "1000 transceivers", "musd": "M$", "per_injection": "cost / injection",
    "bandwidth": "global %", "per_bandwidth": "cost / global",
}  # fmt: skip


def _line(part: str, setting: str, what: str, paper: Any, here: Any) -> Line:
    values = (f"{value:.3f}" if isinstance(value, float) else str(value) for value in (paper, here))
    return dict(zip(("part", "setting", "what", "paper", "here"), (part, setting, what, *values),
                    strict=True))  # fmt: skip
