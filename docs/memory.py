"""Print or write the tables of docs/memory.md: published measurements, and the presets' own jobs.

``python docs/memory.py`` prints both, ``--write`` puts them in the page. Checked:
``tests/test_memory.py``.
"""

from __future__ import annotations

import csv
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lightloom import Scenario, presets
from lightloom.memory import GIB, held
from lightloom.resolve import load_scenario

PAGE = Path(__file__).with_suffix(".md")
MEASURED = Path(__file__).parent / "data" / "memory-measured.csv"


def measured() -> list[dict[str, str]]:
    """Read what publications print."""
    with MEASURED.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def counted(row: dict[str, str]) -> float:
    """Return what we count for a published job, tensors alone [GiB]."""
    given: dict[str, Any] = {"memory.overhead": "0 B", "memory.oversize": "allow"}
    for setting in row["settings"].split():
        key, _, text = setting.partition("=")
        try:
            given[key] = tomllib.loads(f"value = {text}")["value"]
        except ValueError:
            given[key] = text
    found = held(Scenario.preset(row["model"], **given))
    stage = found.stages[int(row["stage"])] if row["stage"] else found.fullest
    return stage.total / GIB


def of_measured() -> Iterator[tuple[str, ...]]:
    """Yield the table of measurements."""
    yield "job", "GPU", "published [GiB]", "counted [GiB]", "error"
    for row in measured():
        peak, own = float(row["peak_gib"]), counted(row)
        said = f"{peak:g} {row['kind']}"
        yield row["job"], row["gpu"], said, f"{own:.2f}", f"{own / peak - 1:+.1%}"


def of_presets() -> Iterator[tuple[str, ...]]:
    """Yield what each model's own job needs on its GPU."""
    yield "model", "none [GiB]", "whole layers anew [GiB]", "untimed", "of [GiB]"
    for name in presets.names("models"):
        allowed = {"memory.oversize": "allow"}
        job = load_scenario({"model": {"preset": name}}, allowed).scenario
        found = held(job)
        parts = [held(job, recompute).fullest.total / GIB for recompute in ("none", "full")]
        fits = found.recompute if found.fits else "does not fit"
        capacity = (found.capacity or 0) / GIB
        yield f"`{name}`", *(f"{part:.1f}" for part in parts), fits, f"{capacity:.1f}"


def text(rows: Iterator[tuple[str, ...]]) -> str:
    """Return a table in Markdown."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], f"|{' --- |' * (lines[0].count('|') - 1)}", *lines[1:]])


TABLES = {"measured": of_measured, "presets": of_presets}


def page() -> str:
    """Return the page with its tables made anew."""
    whole = PAGE.read_text(encoding="utf-8")
    for name, rows in TABLES.items():
        marks = f"<!-- {name}: begin -->\n", f"\n<!-- {name}: end -->"
        before, rest = whole.split(marks[0])
        whole = f"{before}{marks[0]}{text(rows())}{marks[1]}{rest.partition(marks[1])[2]}"
    return whole


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        print("\n\n".join(text(rows()) for rows in TABLES.values()))
