"""Put the table of `lightloom reproduce railx` into docs/railx.md, and its rows into docs/data.

First ``lightloom reproduce railx --out DIR``, then ``python reproduce/railx.py DIR``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from rails import DOCS, copy


def main(directory: Path) -> None:
    """Copy what a finished reproduction holds."""
    made = copy(directory, "railx")
    rows, table = (",\n    ".join(map(json.dumps, made[key])) for key in ("rows", "table"))
    text = f'{{\n  "rows": [\n    {rows}\n  ],\n  "table": [\n    {table}\n  ]\n}}\n'
    json.loads(text)
    (DOCS / "data" / "railx.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
