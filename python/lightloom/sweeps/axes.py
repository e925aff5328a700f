"""Axes: keys of a specification, each with several values; and the points that they span.

Axes stand in the order of their keys, whatever order they are given in, so that the points and
their order are those of the axes alone. Keys that move together are one axis. Checked:
``tests/test_sweep_axes.py``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product
from math import prod
from pathlib import Path
from typing import Any

from lightloom.errors import InputError
from lightloom.layers import nested
from lightloom.scenario import leaves
from lightloom.sweeps import values
from lightloom.sweeps.where import Filter
from lightloom.toml_text import read_toml
from lightloom.units import Quantity

# More than a night's work for a cluster: a typing error is likelier.
MOST_POINTS = 50_000
_FILE_KEYS = ("over", "seeds", "where", "zip")


@dataclass(frozen=True)
class Axis:
    """One key, or several that move together, and the values that they take."""

    keys: tuple[str, ...]
    values: tuple[tuple[Any, ...], ...]
    """One tuple a place of the axis, a value for each key."""


@dataclass(frozen=True)
class Axes:
    """What a sweep runs over, and which points of it.

    Examples
    --------
    >>> axes = gathered({"training.micro_batch": "1..2", "fabric.preset": ["mixnet", "fat-tree"]})
    >>> axes.keys, axes.size
    (('fabric.preset', 'training.micro_batch'), 4)
    >>> next(axes.points())
    {'fabric.preset': 'mixnet', 'training.micro_batch': 1}
    """

    axes: tuple[Axis, ...]
    where: tuple[Filter, ...] = ()
    file: str = ""
    """From where values of `file_keys` are, for messages."""
    file_keys: frozenset[str] = frozenset()

    @property
    def keys(self) -> tuple[str, ...]:
        """Every key, axis by axis."""
        return tuple(key for axis in self.axes for key in axis.keys)

    @property
    def size(self) -> int:
        """How many points there are before a filter."""
        return prod(len(axis.values) for axis in self.axes)

    def points(self) -> Iterator[dict[str, Any]]:
        """Yield the values of each point by key, the last axis the quickest."""
        for places in product(*(axis.values for axis in self.axes)):
            yield dict(zip(self.keys, (value for place in places for value in place), strict=True))

    def values_of(self, key: str) -> list[Any]:
        """Return the values that a key takes, in their order."""
        for axis in self.axes:
            if key in axis.keys:
                return [place[axis.keys.index(key)] for place in axis.values]
        raise LookupError(key)

    def to_tree(self) -> dict[str, Any]:
        """Return the axes as a file of them holds them."""
        tree: dict[str, Any] = {"over": {key: self.values_of(key) for key in self.keys}}
        if together := [list(axis.keys) for axis in self.axes if len(axis.keys) > 1]:
            tree["zip"] = together
        if self.where:
            tree["where"] = [each.text for each in self.where]
        return tree


def gathered(
    over: Mapping[str, Any] | None = None,
    *,
    seeds: object = None,
    where: str | Iterable[str] | None = None,
    zip: Sequence[Sequence[str]] | None = None,
    label: str = "over",
) -> Axes:
    """Make axes of what Python says.

    Parameters
    ----------
    over
        Values by dotted key, or tables of them: text as on a command line, or any sequence. A plain
        number for a ``link_bandwidth`` is in Gbps.
    seeds
        Values of the key ``seed``.
    where
        Conditions that a point must fulfil; all of them if there are several.
    zip
        Groups of keys that move together.
    label
        What messages call `over`.

    Raises
    ------
    InputError
        If there is no axis, one has no value or is given twice, or keys that move together have not
        the same number of values.
    """
    given = _flat(over or {}, label)
    if seeds is not None:
        if "seed" in given:
            raise InputError(f"seeds and {label} seed: two axes of one key; allowed: one")
        given["seed"] = _several(seeds, "seeds")
    together = _groups(zip or (), given)
    alone = [(key,) for key in given if not any(key in group for group in together)]
    axes = []
    for keys in sorted((*together, *alone)):
        columns = [given[key] for key in keys]
        if len({len(column) for column in columns}) > 1:
            counts = ", ".join(f"{key} has {len(given[key])}" for key in keys)
            raise InputError(f"zip: keys that move together have as many values each: {counts}")
        axes.append(Axis(keys, tuple(_once(columns))))
    conditions = (where,) if isinstance(where, str) else tuple(where or ())
    if not axes:
        raise InputError(
            "no axis; allowed: --over KEY=VALUES, --seeds or --axes FILE (over={...} in Python)"
        )
    found = Axes(tuple(axes), tuple(Filter(each, _where(label)) for each in conditions))
    if found.size > MOST_POINTS:
        raise InputError(f"{found.size:,} points; allowed: at most {MOST_POINTS:,}")
    return found


def of_command(
    over: Iterable[str], seeds: str | None, where: Sequence[str], file: Path | None
) -> Axes:
    """Make axes of a command line: ``--over KEY=VALUES``, ``--seeds``, ``--where``, ``--axes``.

    Raises
    ------
    InputError
        As `gathered`, or if the file is not one of axes, or an option has no key or no values.

    Examples
    --------
    >>> of_command(["training.micro_batch=1..8*2"], "1,2", [], None).size
    8
    """
    read: dict[str, Any] = {}
    if file is not None:
        read = read_toml(file)
        for key in read:
            if key not in _FILE_KEYS:
                from lightloom.presets import unknown

                raise InputError(f"{file}: {key}: unknown key{unknown(key, _FILE_KEYS)}")
        read = _checked(read, file)
    given = _flat(read.get("over", {}), f"{file}: over")
    file_keys = frozenset((*given, *(("seed",) if "seeds" in read else ())))
    for text in over:
        name, equals, written = text.partition("=")
        if not (name.strip() and equals and written.strip()):
            raise InputError(
                f'--over "{text}": must be KEY=VALUES, as in --over training.micro_batch=1..8'
            )
        (key,) = _flat({name.strip(): 0}, "--over")
        if key in given:
            raise InputError(f"--over {key}: two axes of one key; allowed: one")
        given[key] = _in_units(key, values.read(written, f"--over {key}"))
    if seeds is not None:
        if "seed" in given or "seeds" in read:
            raise InputError(f"--seeds {seeds}: two axes of the key seed; allowed: one")
        read["seeds"] = values.read(seeds, "--seeds")
    found = gathered(
        given,
        seeds=read.get("seeds"),
        where=[*read.get("where", ()), *where],
        zip=read.get("zip"),
        label="--over",
    )
    return replace(found, file=str(file), file_keys=file_keys)


def check_apart(axes: Axes, settings: Mapping[str, str]) -> None:
    """Refuse a key that is an axis and is set besides, or a table that holds it or is in it.

    `settings` has the words of a command line by key.
    """
    for key in axes.keys:
        for other, words in settings.items():
            if f"{other}.".startswith(f"{key}.") or f"{key}.".startswith(f"{other}."):
                axis = "--seeds" if key == "seed" else f"--over {key}"
                raise InputError(f"{axis} and {words}: two values for {key}; allowed: one of them")


def named(point: Mapping[str, Any]) -> str:
    """Return what messages call a point.

    Examples
    --------
    >>> named({"fabric.preset": "mixnet", "seed": 1})
    'fabric.preset=mixnet seed=1'
    """
    return " ".join(f"{key}={values.text_of(value)}" for key, value in point.items())


def _checked(read: dict[str, Any], file: Path) -> dict[str, Any]:
    """Check the types of a file's tables."""
    if not isinstance(read.get("over", {}), dict):
        raise InputError(f"{file}: over: must be a table")
    where = read.get("where", [])
    conditions = [where] if isinstance(where, str) else where
    if not isinstance(conditions, list) or not all(isinstance(one, str) for one in conditions):
        raise InputError(f"{file}: where: must be text, or an array of it")
    groups = read.get("zip", [])
    if not isinstance(groups, list) or not all(
        isinstance(group, list) and all(isinstance(key, str) for key in group) for group in groups
    ):
        raise InputError(f"{file}: zip: must be an array of arrays of keys")
    return read | ({"where": conditions} if conditions else {})


def _flat(tree: Mapping[str, Any], label: str) -> dict[str, list[Any]]:
    """Return the values of each dotted key, which may be written in two ways, but once."""
    written = Counter(
        key for name, value in tree.items() for key, _ in leaves(nested({name: value}, label))
    )
    if twice := next((key for key, times in written.items() if times > 1), None):
        raise InputError(f"{label} {twice}: two axes of one key; allowed: one")
    return {
        key: _in_units(key, _several(value, f"{label} {key}"))
        for key, value in leaves(nested(tree, label))
    }


def _several(given: Any, where: str) -> list[Any]:
    """Return one value or several."""
    if isinstance(given, str) and not isinstance(given, Quantity):
        return values.read(given, where)
    if hasattr(given, "tolist"):  # of NumPy
        given = given.tolist()
    alone = isinstance(given, int | float) or not isinstance(given, Iterable)
    found = list(islice((given,) if alone else given, values.MOST + 1))
    if any(isinstance(value, Mapping) or value is None for value in (given, *found)):
        raise InputError(f"{where}: an axis is of single values; allowed: keys inside a table")
    if not found:
        raise InputError(f"{where}: no value; allowed: one or several")
    if len(found) > values.MOST:
        raise InputError(f"{where}: too many values; allowed: at most {values.MOST:,}")
    return [str(value) if isinstance(value, Quantity) else value for value in found]


def _in_units(key: str, found: list[Any]) -> list[Any]:
    """Take plain numbers for rates of links in Gbps, as ``--bandwidth`` does."""
    if key.rpartition(".")[2] != "link_bandwidth":
        return found
    return [
        f"{value} Gbps" if isinstance(value, int | float) and not isinstance(value, bool) else value
        for value in found
    ]


def _groups(groups: Sequence[Sequence[str]], given: Mapping[str, Any]) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for group in groups:
        if isinstance(group, str) or len(set(group)) < 2:
            raise InputError(f"zip: {group!r}: must name two keys or more that move together")
        for key in group:
            if key not in given:
                from lightloom.presets import unknown

                raise InputError(f"zip: {key}: no such axis{unknown(key, tuple(given))}")
            if any(key in other for other in found):
                raise InputError(f"zip: {key}: moves with two groups; allowed: one")
        found.append(tuple(sorted(group)))
    return found


def _once(columns: Sequence[Sequence[Any]]) -> Iterator[tuple[Any, ...]]:
    """Put columns side by side, each line once; 1 is not true."""
    seen = set()
    for place in zip(*columns, strict=True):
        line = "\0".join(f"{isinstance(value, bool)} {values.text_of(value)}" for value in place)
        if line not in seen:
            seen.add(line)
            yield place


def _where(label: str) -> str:
    return "--where" if label.startswith("--") else "where"
