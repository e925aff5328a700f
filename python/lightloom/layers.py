"""Layers of a specification: tables that were written, stacked with the origin of each value.

A `Layer` is what one source wrote; a `LayerStack` is the layers so far, merged, each value a `Leaf`
that remembers where it came from. A table whose ``kind`` differs from the one below replaces it
instead of mixing with it. Checked: through `resolve.py`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from lightloom.errors import InputError
from lightloom.presets import guess
from lightloom.toml_text import key_text, short_text

_PART = r"""(?:[A-Za-z0-9_-]+|"[^"\\\x00-\x1f\x7f]*")"""
_KEY = re.compile(rf"{_PART}(?:\.{_PART})*")


class Origin(NamedTuple):
    """Where a value came from, and for a preset's figure who published it."""

    layer: str
    source: str = ""


class Leaf(NamedTuple):
    """A value with its origin."""

    value: Any
    origin: Origin


# Nested tables; in a stack, the values are leaves.
Tree = dict[str, Any]


@dataclass
class Layer:
    """What one source wrote.

    Parameters
    ----------
    table
        Nested tables, which resolving changes: a copy of the user's.
    label
        What messages call the source.
    directory
        What paths inside are relative to.
    origin
        The origin of a dotted key; by default the label.
    """

    table: Tree
    label: str
    directory: Path = field(default_factory=Path)
    origin: Callable[[str], Origin] | None = None

    def section(self, *keys: str) -> Tree:
        """Return a table inside, or an empty one where there is none."""
        found = look_up(self.table, *keys)
        return found if isinstance(found, dict) else {}

    def get(self, key: str) -> Any:
        """Return the value at a dotted key of bare parts, or None."""
        return look_up(self.table, *key.split("."))

    def error(self, key: str, value: object, reason: str) -> InputError:
        """Make the message on a value of this layer."""
        return InputError(f"{self.label}: {key} = {short_text(value)}: {reason}")

    def text(self, key: str, value: object) -> str:
        """Return a value as text, or raise."""
        if not isinstance(value, str) or not value or "\0" in value:
            raise self.error(key, value, "must be text")
        return value

    def file(self, key: str, value: object, allowed: str, names: Sequence[str] = ()) -> Path:
        """Find the file that a value names, relative to the layer's own, or raise.

        `names` are what the value may be besides: one of them may have been meant.
        """
        path = self.directory / self.text(key, value)
        if not path.is_file():
            meant = guess(str(value), names)
            raise self.error(key, value, f"no such file{meant}; allowed: {allowed}")
        return path


class LayerStack:
    """The layers added so far, merged."""

    def __init__(self) -> None:
        self.tree: Tree = {}

    def merge(self, table: Mapping[str, Any], origin: Callable[[str], Origin]) -> None:
        """Put values on top."""
        _merge(self.tree, _with_origin(table, origin))

    def get(self, *keys: str) -> Any:
        """Return the value at some keys, a table, or None."""
        found = look_up(self.tree, *keys)
        return found.value if isinstance(found, Leaf) else found

    def drop(self, *keys: str) -> None:
        """Forget a value or a table."""
        owner = look_up(self.tree, *keys[:-1])
        if isinstance(owner, dict):
            owner.pop(keys[-1], None)

    def values(self) -> dict[str, Any]:
        """Return the tables without origins, arrays as tuples."""
        values: dict[str, Any] = _frozen(self.tree)
        return values


def look_up(tree: Any, *keys: str) -> Any:
    """Follow keys through nested tables; None where they end early."""
    for key in keys:
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree


def copied(table: Mapping[Any, Any], label: str) -> Tree:
    """Copy nested tables, so that resolving can change them; a key must be text."""
    for key in table:
        if not isinstance(key, str):
            raise InputError(f"{label}: {key!r}: a key must be text")
    return {
        key: copied(value, label) if isinstance(value, Mapping) else value
        for key, value in table.items()
    }


def nested(overrides: Mapping[str, Any], label: str) -> Tree:
    """Turn dotted keys into tables; a part in quotes may hold dots and spaces.

    Examples
    --------
    >>> nested({"fabric.kind": "mixnet", 'prices.nic."400 Gbps"': 1600.0}, "override")
    {'fabric': {'kind': 'mixnet'}, 'prices': {'nic': {'400 Gbps': 1600.0}}}
    """
    tree: Tree = {}
    for key, value in overrides.items():
        if not isinstance(key, str):
            raise InputError(f"{label}: {key!r}: a key must be text")
        if not _KEY.fullmatch(key):
            raise InputError(
                f"{label}: {short_text(key)}: not a key; write it as in fabric.link_bandwidth"
            )
        path: list[str] = []
        node: Any = tomllib.loads(f"{key} = 0")
        while isinstance(node, dict):
            path.append(next(iter(node)))
            node = node[path[-1]]
        at = tree
        for part in path[:-1]:
            at = at.setdefault(part, {})
            if not isinstance(at, dict):
                raise InputError(f"{label}: {key}: {part} is a value and a table at once")
        above = copied(value, label) if isinstance(value, Mapping) else value
        _merge(at, {path[-1]: above})
    return tree


def _merge(below: Tree, above: Tree) -> None:
    for key, value in above.items():
        present = below.get(key)
        if isinstance(value, dict) and isinstance(present, dict):
            kind, other = _frozen(value.get("kind")), _frozen(present.get("kind"))
            if None not in (kind, other) and kind != other:
                below[key] = value
            else:
                _merge(present, value)
        else:
            below[key] = value


def _with_origin(table: Mapping[str, Any], origin: Callable[[str], Origin], at: str = "") -> Tree:
    tree: Tree = {}
    for key, value in table.items():
        path = f"{at}{key_text(key)}"
        if isinstance(value, dict):
            tree[key] = _with_origin(value, origin, f"{path}.")
        else:
            tree[key] = Leaf(value, origin(path))
    return tree


def _frozen(value: Any) -> Any:
    if isinstance(value, Leaf):
        value = value.value
    if isinstance(value, str | int | float):
        return value
    if isinstance(value, list | tuple):
        return tuple(_frozen(item) for item in value)
    if isinstance(value, dict):
        return {key: _frozen(item) for key, item in value.items()}
    return value
