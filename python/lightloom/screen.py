"""Tables for a terminal of any width, and for a pipe.

A table is as wide as its cells; where that is too much, headings fold or take their short form,
columns stand closer, names fold, and at last columns are left out, those first that say least.
What was left out is said. Checked: every table of the commands at 60 and 80 columns.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from rich.console import Console
from rich.text import Text

# A pipe has no width of its own.
_PIPE = 100
# Columns are left out only where names are as narrow as this, and they fold to the second one only
# where no column is left that may go.
_NARROW_NAME, _NARROWEST_NAME = 14, 8


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Parameters
    ----------
    heading, short
        What stands above it, and above it in a narrow table [the same, folded at spaces].
    name
        Whether cells are names or words: to the left, and folded where they must be.
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

    def above(self, cells: int, narrow: bool) -> list[str]:
        """Return the lines of its heading; in a narrow table hardly wider than its `cells`."""
        if not narrow or self.short:
            return (self.short if narrow else self.heading).split("\n")
        words = self.heading.split()
        width = max((cells, *map(len, words)))
        return textwrap.wrap(" ".join(words), width, break_on_hyphens=False) or [""]


def console() -> Console:
    """Return what prints on stdout: as wide as the terminal, or as COLUMNS says."""
    found = Console(highlight=False)
    if not sys.stdout.isatty() and not found._environ.get("COLUMNS", "").isdigit():
        found.width = _PIPE
    return found


def print_table(
    columns: Sequence[Column | str], rows: Sequence[Sequence[Text | str] | None], out: Console
) -> None:
    """Print a `table` that is as wide as there is room."""
    out.print(table(columns, rows, out.width), soft_wrap=True)


def table(
    columns: Sequence[Column | str], rows: Sequence[Sequence[Text | str] | None], width: int
) -> Text:
    r"""Return rows under columns, as many as fit in a width; a row of None is an empty line.

    Examples
    --------
    >>> columns = [Column("fabric", name=True), Column("all-to-all", "all-to-\nall", rank=1)]
    >>> for width in (30, 22, 14):
    ...     print(table(columns, [["rail-optimized", "1.52"]], width))
    fabric          all-to-all
    rail-optimized        1.52
                   all-to-
    fabric             all
    rail-optimized    1.52
    fabric
    rail-optimized
    left out at 14
    columns:
    all-to-all
    """
    given = [column if isinstance(column, Column) else Column(column) for column in columns]
    texts = [
        None if row is None else [Text(cell) if isinstance(cell, str) else cell for cell in row]
        for row in rows
    ]
    cells = [
        max((len(line) for row in texts if row for line in row[at].plain.split("\n")), default=0)
        for at in range(len(given))
    ]
    kept = list(range(len(given)))

    def widths(narrow: bool) -> dict[int, int]:
        return {at: max(cells[at], *map(len, given[at].above(cells[at], narrow))) for at in kept}

    def fold(least: int) -> bool:
        """Fold names until the table fits; says whether it does."""
        while sum(each.values()) + gap * (len(each) - 1) > width:
            size, at = max(((each[at], -at) for at in kept if given[at].name), default=(0, 0))
            if size <= least:
                return False
            each[-at] -= 1
        return True

    each, gap, narrow = widths(narrow=False), 2, False
    if sum(each.values()) + gap * (len(each) - 1) > width:
        each, gap, narrow = widths(narrow=True), 1, True
    left_out: list[str] = []
    while not fold(_NARROW_NAME):
        rank, at = max((given[at].rank, at) for at in kept)
        if not rank:
            fold(_NARROWEST_NAME)
            break
        kept.remove(at)
        left_out.append(" ".join(given[at].heading.split()))
        each = widths(narrow=True)

    def lines(blocks: Sequence[Sequence[Text]]) -> list[Text]:
        """Set blocks of lines beside each other."""
        found = []
        for parts in zip_longest(*blocks, fillvalue=Text()):
            line = Text()
            for at, cell in zip(kept, parts, strict=True):
                line.append(" " * gap if line else "")
                pad = Text(" " * (each[at] - len(cell)))
                line += cell + pad if given[at].name or given[at].left else pad + cell
            line.rstrip()
            found.append(line)
        return found

    heads = [given[at].above(cells[at], narrow) for at in kept]
    deep = max(map(len, heads))
    above = lines([[Text(line, "dim") for line in [""] * (deep - len(h)) + h] for h in heads])
    shown = above if any(map(str, above)) else []
    for row in texts:
        shown += lines([_folded(row[at], each[at], given[at]) for at in kept]) if row else [Text()]
    if left_out:
        said = f"left out at {width} columns: {', '.join(left_out)}"
        shown += [Text(line, "dim") for line in textwrap.wrap(said, width, break_on_hyphens=False)]
    return Text("\n").join(shown)


def _folded(text: Text, width: int, column: Column) -> list[Text]:
    """Return the lines of a cell; a name is broken at spaces, at hyphens where a word is longer."""
    if not column.name or len(text) <= width:
        return list(text.split("\n", allow_blank=True))
    long = any(len(word) > width for word in text.plain.split())
    parts = textwrap.wrap(text.plain, width, break_on_hyphens=long)
    return [Text(part, text.style) for part in parts]
