"""Put the table of a reproduction into its paper's page, and its rows into docs/data.

First ``lightloom reproduce rails --out DIR``, then ``python reproduce/tables.py rails DIR``; so for
swot and railx. A row is a line; SWOT's thousand are lists of values in the order of ``columns``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
BEGIN, END = "<!-- table: begin -->\n", "<!-- table: end -->\n"


def put(page: str, table: str, rows: Iterable[Sequence[str]]) -> None:
    """Write a table, its head first, between its marks on a page."""
    put_text(page, table, as_text(rows))


def as_text(rows: Iterable[Sequence[str]]) -> str:
    """Return a table, its head first, as a page has it."""
    first, *rest = rows
    lines = [first, ("---",) * len(first), *rest]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def put_text(page: str, name: str, text: str) -> None:
    """Write text between its marks on a page."""
    path = DOCS / f"{page}.md"
    before, begin, after = path.read_text("utf-8").partition(f"<!-- {name}: begin -->\n")
    _, end, after = after.partition(f"<!-- {name}: end -->\n")
    path.write_text(before + begin + text + end + after, encoding="utf-8")


def main(paper: str, directory: Path) -> None:
    """Copy what a finished reproduction holds."""
    made = json.loads((directory / "rows.json").read_text(encoding="utf-8"))
    if made["missing"]:
        sys.exit(f"{directory}: not finished: {', '.join(made['missing'])} did not run")
    page = DOCS / f"{paper}.md"
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    table = (directory / "table.md").read_text(encoding="utf-8")
    page.write_text(f"{before}{BEGIN}{table}{END}{rest.partition(END)[2]}", encoding="utf-8")
    rows, columns = made["rows"], ""
    if paper == "swot":
        columns = f'  "columns": {json.dumps(list(rows[0]))},\n'
        rows = [list(row.values()) for row in rows]
    body, lines = (",\n    ".join(map(json.dumps, part)) for part in (rows, made["table"]))
    text = f'{{\n{columns}  "rows": [\n    {body}\n  ],\n  "table": [\n    {lines}\n  ]\n}}\n'
    json.loads(text)
    (DOCS / "data" / f"{paper}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
