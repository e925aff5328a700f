"""Write the tables that list kinds into pages which are otherwise written by hand.

Other scripts here print the tables that they run with `show`.

``python docs/tables.py PAGE`` prints a page with its table made anew, ``--write`` puts all in
place. A table is known by its first row. Checked: ``tests/test_docs.py``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lightloom import kinds
from lightloom.rails.job import ENDS, SCHEMES
from lightloom.trace.synthetic import GENERATORS

# A slice of DeepSeek-V3 that several pages run: two stages of four layers, as each of the sixteen
# of the whole has them.
V3_SLICE: dict[str, Any] = {
    "model.layers": 8,
    "model.dense_layers": 0,
    "model.dense_intermediate": 0,
    "parallelism.pp": 2,
}
# One sequence at a time, at one rate.
V3_RUN: dict[str, Any] = {
    "training.micro_batch": 1,
    "training.micro_batches": 8,
    "engine.tolerance": 0.005,
    "fabric.link_bandwidth": "400 Gbps",
}

# Where an all-to-all leaves and lands, by what a balancer decides of NICs.
NICS = {
    "own": ("its GPU's own NIC", "its GPU's own NIC"),
    "lanes": ("every NIC of the server", "its GPU's own NIC"),
    "rails": ("the rail that a plan gives a chunk", "the same rail"),
}

# The same of what deals chunks by another rule than its own.
DEALT = {
    "both": (
        *NICS["rails"],
        "Chunks by the loads of both ends, as if every sender knew all demand.",
    ),
    "round-robin": (*NICS["rails"], "Chunks in turn, whatever their size."),
    "hash": (*NICS["rails"], "Chunks by a hash."),
    "pxn": (
        "the NIC of its destination's rail",
        "its GPU's own NIC",
        "Not at all: forwarded at the sender (NCCL's PXN; `pxn` for short).",
    ),
    "source": ("its GPU's own NIC", "the same rail", "Not at all: forwarded at the receiver."),
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
        if name == balancer:
            yield f"`{name}`", *NICS[ENDS[name]], kinds.family("balancer").kinds[balancer].about
        else:
            yield f"`{name}`", *DEALT[name.removeprefix(f"{balancer}-")]


TABLES: dict[str, Callable[[], Iterator[tuple[str, ...]]]] = {
    "prediction": predictors,
    "rails": schemes,
    "traces": generators,
}


def show(
    tables: Mapping[str, Callable[[], Iterator[tuple[str, ...]]]], asked: Sequence[str]
) -> None:
    """Print tables, those that are asked for or all, row by row as they are made."""
    for name in asked or tables:
        for at, row in enumerate(tables[name]()):
            print(f"| {' | '.join(row)} |", flush=True)
            if not at:
                print("|" + " --- |" * len(row))
        print()


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
