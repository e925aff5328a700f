"""Tables for a terminal of any width, and for a pipe.

A table is as wide as its cells; where that is too much, headings take their short form, columns
stand closer, names fold at hyphens, and at last columns are left out, those first that say least.
What was left out is said. Checked: `compare` and `cost` at 60, 80 and 100 columns.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table
from rich.text import Text

# A pipe has no width of its own.
_PIPE = 100
_NARROWEST_NAME = 8


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Parameters
    ----------
    heading, short
        What stands above it, and above it in a narrow table.
    name
        Whether cells are names: to the left, and folded where they must be. A table has one.
    left
        Whether other cells stand to the left.
    rank
        Columns of the highest rank are left out first; those of rank 0 never.
    """

    heading: str
    short: str = ""
    name: bool = False
    left: bool = False
    rank: int = 0

    def width(self, cells: Iterable[Text], narrow: bool) -> int:
        """Return the width of the longest line."""
        heading = self.short or self.heading if narrow else self.heading
        return max(len(line) for text in (heading, *map(str, cells)) for line in text.split("\n"))


def console() -> Console:
    """Return what prints on stdout: as wide as the terminal, or as COLUMNS says."""
    found = Console(highlight=False)
    if not sys.stdout.isatty() and not found._environ.get("COLUMNS", "").isdigit():
        found.width = _PIPE
    return found


def print_table(
    columns: Sequence[Column], rows: Sequence[Sequence[Text] | None], out: Console
) -> None:
    r"""Print rows under columns, as many as fit; None is an empty line.

    Examples
    --------
    >>> columns = [Column("fabric", name=True), Column("all-to-all", "all-to-\nall", rank=1)]
    >>> rows = [[Text("rail-optimized"), Text("1.52")]]
    >>> for width in (30, 22, 14):  # doctest: +NORMALIZE_WHITESPACE
    ...     print_table(columns, rows, Console(width=width))
    fabric          all-to-all
    rail-optimized        1.52
                   all-to-
    fabric             all
    rail-optimized    1.52
    fabric
    rail-optimized
    left out at 14 columns: all-to-all
    """
    full = [row for row in rows if row is not None]
    kept = list(range(len(columns)))

    def widths(narrow: bool) -> dict[int, int]:
        return {at: columns[at].width((row[at] for row in full), narrow) for at in kept}

    def total(each: dict[int, int], gap: int) -> int:
        return sum(each.values()) + gap * (len(each) - 1)

    each, gap = widths(narrow=False), 2
    narrow = total(each, gap) > out.width
    left_out: list[str] = []
    if narrow:
        each, gap = widths(narrow=True), 1
        name = next(at for at in kept if columns[at].name)
        least = min(each[name], 14)
        while total({**each, name: least}, gap) > out.width and len(kept) > 1:
            rank, at = max((columns[at].rank, at) for at in kept)
            if not rank:
                least = _NARROWEST_NAME
                break
            kept.remove(at)
            left_out.append(" ".join(columns[at].heading.replace("\n", " ").split()))
            del each[at]
        rest = out.width - total({**each, name: 0}, gap)
        each[name] = max(least, min(each[name], rest))
    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="dim")
    for at in kept:
        column = columns[at]
        table.add_column(
            column.short or column.heading if narrow else column.heading,
            justify="left" if column.name or column.left else "right",
            no_wrap=True,
            min_width=each[at],
        )
    for row in rows:
        table.add_row(
            *([""] if row is None else (_folded(row[at], each[at], columns[at]) for at in kept))
        )
    out.print(table)
    if left_out:
        out.print(f"left out at {out.width} columns: {', '.join(left_out)}", style="dim")


def _folded(text: Text, width: int, column: Column) -> Text:
    """Break a name into lines, at hyphens if it can be."""
    if not column.name or len(text) <= width:
        return text
    return Text("\n".join(textwrap.wrap(text.plain, width)), style=text.style)
