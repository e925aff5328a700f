"""Medians and intervals of a comparison's draws, and its verdict: on a terminal and in the page.

Checked: in ``tests/test_draws.py``.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping
from itertools import groupby
from typing import Any

from rich.console import Console
from rich.text import Text

from lightloom import screen
from lightloom.draws.spread import SAID
from lightloom.report.result import Result
from lightloom.screen import Column
from lightloom.style import pages

_SPREADS = (
    "iteration_s",
    "time_vs_fat_tree",
    "perf_per_network_dollar_vs_fat_tree",
    "perf_per_cluster_dollar_vs_fat_tree",
)
DRAWN = (
    "draws",
    *(f"{name}_{part}" for name in _SPREADS for part in ("median", "low", "high")),
    "iteration_s_draws",
)
"""Columns of ``runs`` that a comparison of several draws has."""

COLUMNS = (
    Column("Gbps"),
    Column("fabric", name=True),
    Column("iteration\ns", "iter.\ns"),
    Column("interval", left=True, rank=1),
    Column("time vs\nfat-tree", "time vs\nfat-\ntree", rank=3),
    Column("interval", left=True, rank=4),
    Column("perf per\nnetwork $\nvs fat-tree", "per\nnetw. $", rank=5),
    Column("interval", left=True, rank=6),
    Column("perf per\ncluster $\nvs fat-tree", "per\ncluster\n$"),
    Column("interval", left=True),
)


def cells(row: Mapping[str, Any], decimals: int = 3) -> tuple[str, ...]:
    """Write the spreads of one run as text, in the order of `COLUMNS`.

    Examples
    --------
    >>> row = {f"{name}_{part}": value for name in ("iteration_s", "time_vs_fat_tree")
    ...        for part, value in (("median", 2.0), ("low", 1.5), ("high", 2.5))}
    >>> cells({"bandwidth_gbps": 400.0, "fabric": "mixnet", **row})[2:7]
    ('2.000', '1.500-2.500', '2.000', '1.500-2.500', '-')
    """
    found = [f"{row['bandwidth_gbps']:g}", str(row["fabric"])]
    for name in _SPREADS:
        middle, low, high = (row.get(f"{name}_{part}") for part in ("median", "low", "high"))
        digits = decimals if name == "iteration_s" else 3
        if middle is None or low is None or high is None:
            found += ["-", ""]
        else:
            found += [f"{middle:.{digits}f}", f"{low:.{digits}f}-{high:.{digits}f}"]
    return tuple(found)


def render_draws(result: Result, console: Console | None = None) -> None:
    """Print medians and intervals of several draws; nothing of a single one."""
    rows = result.rows
    if "draws" not in rows[0]:
        return
    out = console or screen.console()
    out.print(f"\n{heading(result)}")
    decimals = _decimals(max(row["iteration_s_median"] for row in rows))
    table: list[list[Text] | None] = []
    for i, (_, block) in enumerate(groupby(rows, key=lambda row: row["bandwidth_gbps"])):
        if i:
            table.append(None)
        for j, row in enumerate(block):
            texts = [Text(cell) for cell in cells(row, decimals)]
            if j:
                texts[0] = Text("")
            table.append(texts)
    screen.print_table(COLUMNS, table, out)


def render_verdict(result: Result, console: Console | None = None) -> None:
    """Print who wins, and what would reverse it."""
    if result.verdict is not None:
        (console or screen.console()).print(f"\n{result.verdict.text}")


def heading(result: Result) -> str:
    """Say what the spreads are of; empty of a single draw."""
    said = result.info.get("draws")
    if not isinstance(said, dict):
        return ""
    asked, done = said.get("count"), said.get("done")
    short = "" if asked == done else f" of {asked}"
    return (
        f"Medians, and intervals from the {SAID}, of {done}{short} draws: {said.get('varied')}. "
        "Ratios are paired: taken draw by draw. Above is the first draw alone."
    )


def section(result: Result) -> str:
    """Write the page's sections: the verdict, and the spreads of several draws."""
    text = html.escape
    found = ""
    rows = result.rows
    if "draws" in rows[0]:
        decimals = _decimals(max(row["iteration_s_median"] for row in rows))
        heads = [pages.Head(column.heading, left=column.name) for column in COLUMNS]
        body = ([text(cell) for cell in cells(row, decimals)] for row in rows)
        found = (
            '<section aria-labelledby="h-draws"><h2 id="h-draws">How sure it is</h2>'
            f'<p class="note">{text(heading(result))}</p>'
            f"{pages.table('Draws', heads, body)}</section>"
        )
    return found


def verdict(result: Result) -> str:
    """Write the verdict of the page, if there is one."""
    if result.verdict is None:
        return ""
    return f'<p class="verdict">{html.escape(result.verdict.text)}</p>'


def _decimals(longest: float) -> int:
    return max(1, 3 - math.floor(math.log10(longest))) if longest > 0 else 3
