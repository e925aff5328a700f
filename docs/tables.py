"""Write the tables that list kinds into pages which are otherwise written by hand.

``python docs/tables.py PAGE`` prints a page with its table made anew, ``--write`` puts all in
place. A table is known by its first row. Checked: ``tests/test_docs.py``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from lightloom import kinds
from lightloom.rails.job import ENDS, SCHEMES
from lightloom.trace.synthetic import GENERATORS

# Where an all-to-all leaves and lands, by what a balancer decides of NICs.
NICS = {
    "own": ("its GPU's own NIC", "its GPU's own NIC"),
    "lanes": ("every NIC of the server", "its GPU's own NIC"),
    "rails": ("the rail that a plan gives a chunk", "the same rail"),
}


def generators() -> Iterator[tuple[str, ...]]:
    """Yield the table of ``docs/traces.md``."""
    yield "kind", "formula", "reads"
    for name, generator in GENERATORS.items():
        reads = ", ".join(f"`--{knob.name}` ({knob.default:g})" for knob in generator.knobs)
        yield f"`{name}`", generator.formula, reads


def predictors() -> Iterator[tuple[str, ...]]:
    """Yield the table of ``docs/prediction.md``."""
    yield "name", "says"
    for name, kind in kinds.family("predictor").kinds.items():
        yield f"`{name}`", kind.about


def schemes() -> Iterator[tuple[str, ...]]:
    """Yield the table of ``docs/rails.md``."""
    yield "scheme", "leaves on", "lands on", "how packets spread"
    for name, balancer in SCHEMES.items():
        about = kinds.family("balancer").kinds[balancer].about
        both = " By the loads of both ends." if name != balancer else ""
        yield f"`{name}`", *NICS[ENDS[name]], about + both


TABLES: dict[str, Callable[[], Iterator[tuple[str, ...]]]] = {
    "prediction": predictors,
    "rails": schemes,
    "traces": generators,
}


def page(name: str) -> str:
    """Return a whole page with its table made anew."""
    head, *rows = [f"| {' | '.join(row)} |\n".replace("|  |", "| |") for row in TABLES[name]()]
    line = "|" + "---|" * (head.count("|") - 1) + "\n"
    before, _, after = path(name).read_text(encoding="utf-8").partition(head)
    rest = after.partition("\n\n")[2]
    return f"{before}{head}{line}{''.join(rows)}\n{rest}"


def path(name: str) -> Path:
    """Return where a page is."""
    return Path(__file__).with_name(f"{name}.md")


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        for name in TABLES:
            path(name).write_text(page(name), encoding="utf-8")
    else:
        print(page(sys.argv[1]), end="")
