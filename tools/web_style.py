"""The palette in the style sheet of the controller's page: checked, or with `--write` put there.

The page needs nothing but itself, so it cannot ask Python for its colours.
"""

from __future__ import annotations

import sys
from pathlib import Path

from lightloom.style.palette import BLUE, ORANGE, TEAL, VIOLET, controller

SHEET = Path(__file__).parents[1] / "crates" / "daemon" / "web" / "style.css"
BEGIN, END = "/* Colours: python tools/web_style.py --write */\n", "/* End of colours */\n"
# What is the page's own: what acts, a circuit in the heat map, stages of a reconfiguration.
OWN = {
    "accent": BLUE, "mark": ORANGE, "drain": VIOLET, "patch": ORANGE, "verify": TEAL,
    "confirm": BLUE,
}  # fmt: skip


def written(text: str) -> str:
    """Return a style sheet with the palette between its marks."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{controller(OWN)}{END}{after}"


if __name__ == "__main__":
    now = SHEET.read_text(encoding="utf-8")
    if "--write" in sys.argv:
        SHEET.write_text(written(now), encoding="utf-8")
    elif now != written(now):
        sys.exit(f"{SHEET}: not as the palette says; run: python tools/web_style.py --write")
