"""Table 6: what networks cost, cell by cell beside what the paper prints."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from lightloom.papers.part import Context, Line, Part, Rows
from lightloom.railx.cost import COLUMNS, table6

NUMBER = 6
TITLE = "Cost of networks, part by part"
_CELLS = {
    "chips": "chips", "switches": "switches", "copper_k": "1000 copper cables",
    "transceivers_k": "1000 transceivers", "musd": "M$", "per_injection": "cost / injection",
    "bandwidth": "global %", "per_bandwidth": "cost / global",
}  # fmt: skip


def parts() -> tuple[Part, ...]:
    """Return the one piece that it is made of."""
    return (Part("table 6", priced),)


def priced(_context: Context) -> Rows:
    """Return a row a system, with its cells as the paper prints them and as they are here."""
    return [row.as_json() | {"here": {c: row.printed(c) for c in row.paper}} for row in table6()]


def cost_lines(part: str, columns: Sequence[str], rows: Rows) -> list[Line]:
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
            found.append(Line(part, row["name"], what, printed, f"{here} ({why})"))
        found += [Line(part, row["name"], "note", "-", note) for note in row["notes"]]
    count = len(rows) * len(columns)
    return [Line(part, "all", "cells that follow", str(count), str(count - wrong)), *found]


lines = partial(cost_lines, "table 6", COLUMNS)
