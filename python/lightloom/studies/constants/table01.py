"""Table 1: each constant that is a key, halved and doubled."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial
from typing import Any

from lightloom.errors import InputError
from lightloom.layers import look_up
from lightloom.papers.part import Context, Line, Part, Picture, Rows
from lightloom.studies.constants.figures import FIGURES
from lightloom.studies.constants.listed import KEYS, Key

NUMBER = 1
TITLE = "What keys without an outside source decide"


def parts() -> tuple[Part, ...]:
    """Return a piece a figure, for all keys that it may depend on."""
    names = dict.fromkeys(name for one in KEYS for name in one.figures)
    return tuple(
        Part(
            f"table 1 {name}",
            partial(_rows, figure=name),
            settings={"keys": [one.key for one in _of(name)]},
        )
        for name in names
    )


def _of(figure: str) -> list[Key]:
    return [one for one in KEYS if figure in one.figures]


def _rows(context: Context, *, figure: str) -> Rows:
    about = FIGURES[figure]
    tree, before = about.tree(), about.seconds({})
    made = []
    for at, one in enumerate(_of(figure)):
        value = look_up(tree, *one.key.split("."))
        for other in one.others or (scaled(value, 0.5), scaled(value, 2.0)):
            try:
                after = None if other is None else about.seconds({one.key: other})
            except InputError:
                after = None
            made.append({
                "key": one.key, "figure": figure, "value": str(value), "other": str(other),
                "seconds": before, "then": after,
            })  # fmt: skip
        context.progress((at + 1) / len(_of(figure)))
    return made


def scaled(value: Any, factor: float) -> Any:
    """Return a value so many times as large, in its own unit; None if there is none.

    >>> scaled("640 KiB", 0.5), scaled(256, 2), scaled(1, 0.5), scaled(0.25, 2)
    ('320 KiB', 512, None, 0.5)
    """
    if isinstance(value, int):
        return int(value * factor) or None
    if isinstance(value, float):
        return value * factor
    number, unit = re.fullmatch(r"([\d.]+) (.*)", str(value)).groups()  # type: ignore[union-attr]
    return f"{float(number) * factor:g} {unit}"


def changed(before: float, after: float | None) -> str:
    """Say by how much a figure changes [%].

    >>> changed(2.0, 2.1), changed(2.0, 2.0), changed(2.0, 1.9999), changed(2.0, None)
    ('+5.0', '0', '-0.0', 'not allowed')
    """
    if after is None:
        return "not allowed"
    return "0" if after == before else f"{100 * (after / before - 1):+.1f}"


def effects(found: Iterable[tuple[str, str]]) -> str:
    """Say what becomes of figures, once for those that do not move.

    >>> effects([("a", "+1.0 / 0"), ("b", "0 / 0"), ("c", "0 / 0")])
    'a +1.0 / 0; b, c: 0'
    """
    moved: list[tuple[str, str]] = []
    still: list[tuple[str, str]] = []
    for figure, text in found:
        (still if set(text.split(" / ")) == {"0"} else moved).append((figure, text))
    said = [f"{figure} {text}" for figure, text in moved]
    return "; ".join(said + [", ".join(figure for figure, _ in still) + ": 0"] * bool(still))


def lines(rows: Rows) -> list[Line]:
    """Return each key, and what becomes of its figures."""
    made = []
    for one in KEYS:
        found = []
        values: dict[str, None] = {}
        for figure in one.figures:
            mine = [row for row in rows if (row["key"], row["figure"]) == (one.key, figure)]
            texts = [changed(row["seconds"], row["then"]) for row in mine]
            if one.others:
                texts = [f"{row['other']} {text}" for row, text in zip(mine, texts, strict=True)]
            found.append((figure, " / ".join(texts)))
            values |= {row["value"]: None for row in mine}
        made.append(Line(NUMBER, f"`{one.key}`", one.about, ", ".join(values), effects(found)))
    return made


def draw(rows: Rows) -> Picture:
    """Tables are not drawn."""
    raise NotImplementedError
