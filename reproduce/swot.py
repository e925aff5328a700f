"""Put the table of `lightloom reproduce swot` into docs/swot.md, and its rows into docs/data.

First ``lightloom reproduce swot --out DIR``, then ``python reproduce/swot.py DIR``. There are a
thousand rows: each is a line, its values in the order of ``columns``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from rails import DOCS, copy


def main(directory: Path) -> None:
    """Copy what a finished reproduction holds."""
    made = copy(directory, "swot")
    rows = ",\n    ".join(json.dumps(list(row.values())) for row in made["rows"])
    columns, table = (json.dumps(value) for value in (list(made["rows"][0]), made["table"]))
    text = f'{{\n  "columns": {columns},\n  "rows": [\n    {rows}\n  ],\n  "table": {table}\n}}\n'
    json.loads(text)
    (DOCS / "data" / "swot.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
