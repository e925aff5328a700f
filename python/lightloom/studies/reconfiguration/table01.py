"""Table 1: ten points again, packet by packet, and by flows at the same size.

Modelled: two micro-batches, and a 64th of everything that takes time: tokens, the dark time of the
switch, and what the GPU's memory needs. An all-to-all of 30 ms then takes half a millisecond, some
30 round trips. Gradients do not shrink with tokens; so the vocabulary is a 64th and attention has 8
of 128 heads.
Ignored: that packets of 4 KB are a larger part of a message then.
"""

from __future__ import annotations

from functools import partial

from lightloom.papers.part import Context, Line, Part, Picture, Rows
from lightloom.papers.runs import Run
from lightloom.studies.reconfiguration.again import chosen, labels, named
from lightloom.studies.reconfiguration.points import At, Delay, changing, standing

NUMBER = 1
TITLE = "Ten points by packets"
SMALLER = 64
ENGINES = ("flow", "packet")
_SIZE = {
    "training.micro_batches": 2,
    "training.sequence_length": 4096 // SMALLER,
    "model.vocabulary": 129280 // SMALLER,
    "model.attention.heads": 8,
    "compute.memory_bandwidth": f"{3.35 * SMALLER:g} TB/s",
}


def _smaller(at: At, delay: Delay, row: str, engine: str) -> Run:
    changes = {**_SIZE, "engine.kind": engine}
    if row == "timed":
        whole = changing(row, at, delay)
        changes["fabric.ocs.delay"] = f"{1e9 * delay.seconds / SMALLER:.9g} ns"
    else:
        whole = standing(row, at)
    return whole._replace(changes=tuple((dict(whole.changes) | changes).items()))


ROWS = ("timed", "eight packet NICs")


def parts() -> tuple[Part, ...]:
    """Return a piece a point."""
    return tuple(
        Part(
            f"table 1 {named(at, delay)}",
            partial(_row, at=at, delay=delay),
            runs=tuple(_smaller(at, delay, row, engine) for row in ROWS for engine in ENGINES),
        )
        for at, delay in chosen()
    )


def _row(context: Context, *, at: At, delay: Delay) -> Rows:
    found = {
        f"{row}, {engine}": context.outcomes[_smaller(at, delay, row, engine)].iteration_s
        for row in ROWS
        for engine in ENGINES
    }
    return [{**labels(at, delay), **found}]


def lines(rows: Rows) -> list[Line]:
    """Return packets over flows, and what changing gains by either."""
    made = []
    for row in rows:
        times = [row[f"{name}, packet"] / row[f"{name}, flow"] for name in ROWS]
        gains = [
            "{:.2f} / {:.2f}".format(*(row[f"{name}, {e}"] / row[f"timed, {e}"] for e in ENGINES))
            for name in ROWS[1:]
        ]
        said = (" / ".join(f"{time:.3f}" for time in times), ", ".join(gains))
        made.append(
            Line(NUMBER, row["point"], "packets over flows; gain by flows / packets", *said)
        )
    return made


def draw(rows: Rows) -> Picture:
    """Tables are not drawn."""
    raise NotImplementedError
