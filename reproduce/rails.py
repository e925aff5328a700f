"""Put the table of `lightloom reproduce rails` into docs/rails.md, and its rows into docs/data.

First ``lightloom reproduce rails --out DIR``, then ``python reproduce/rails.py DIR``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from lightloom import store

DOCS = Path(__file__).parents[1] / "docs"
BEGIN, END = "<!-- table: begin -->\n", "<!-- table: end -->\n"


def copy(directory: Path, paper: str) -> dict[str, Any]:
    """Copy the table of a finished reproduction of `paper`; returns what it holds."""
    made = json.loads((directory / "rows.json").read_text(encoding="utf-8"))
    if made["missing"]:
        sys.exit(f"{directory}: not finished: {', '.join(made['missing'])} did not run")
    page = DOCS / f"{paper}.md"
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    table = (directory / "table.md").read_text(encoding="utf-8")
    page.write_text(f"{before}{BEGIN}{table}{END}{after}", encoding="utf-8")
    return {"rows": made["rows"], "table": made["table"]}


if __name__ == "__main__":
    store.write_json(DOCS / "data" / "rails.json", copy(Path(sys.argv[1]), "rails"))
