"""Write the table of generators into docs/traces.md, from the generators themselves.

``python docs/traces.py`` prints the page, ``--write`` puts it in place. What stands outside the
table is written by hand and kept. Checked: ``tests/test_docs.py``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from lightloom.trace.synthetic import GENERATORS

PAGE = Path(__file__).with_suffix(".md")
HEAD = "| kind | formula | reads |\n|---|---|---|\n"


def page() -> str:
    """Return the whole page with the table made anew."""
    before, _, after = PAGE.read_text(encoding="utf-8").partition(HEAD)
    rest = after.partition("\n\n")[2]
    return f"{before}{HEAD}{''.join(map(row, GENERATORS))}\n{rest}"


def row(name: str) -> str:
    """Return a generator's line of the table."""
    generator = GENERATORS[name]
    reads = ", ".join(f"`--{knob.name}` ({knob.default:g})" for knob in generator.knobs)
    return f"| `{name}` | {generator.formula} | {reads} |\n".replace("|  |", "| |")


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        print(page(), end="")
