"""The kinds that a specification chooses from, as the compiled core lists them.

A *family* is what there is to choose from at one place: balancers, transports. Whoever lists kinds
(sections, rules, help, documents, pictures) reads them here; none is written down a second time.
Checked: every list that users see against the families (``tests/test_kinds.py``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from lightloom import _core


@dataclass(frozen=True)
class Key:
    """A key of a kind's table.

    Attributes
    ----------
    text
        What it means.
    form
        What it may be: the name of a form, with its limits or choices if it has any.
    optional
        Whether it may stay without a value.
    resolved
        What the compiled core calls it, where that is another name.
    """

    name: str
    text: str
    form: str | Mapping[str, Any]
    optional: bool
    resolved: str | None


@dataclass(frozen=True)
class Kind:
    """One kind as it describes itself; `capabilities` is what others must know of it."""

    name: str
    summary: str
    source: str | None
    keys: tuple[Key, ...]
    capabilities: Mapping[str, Any]

    @property
    def about(self) -> str:
        """The summary and its source, as a sentence."""
        return f"{self.summary} ({self.source})." if self.source else f"{self.summary}."

    @property
    def class_name(self) -> str:
        """What a class made of it is called: `RailOnly` of rail-only."""
        return "".join(word.capitalize() for word in self.name.split("-"))


@dataclass(frozen=True)
class Family:
    """What one chooses from: `text` says what choosing decides, `kinds` has each by its name.

    `every` are keys that each of them has besides its own.
    """

    name: str
    text: str
    every: tuple[Key, ...]
    kinds: Mapping[str, Kind]

    def able(self, capability: str, value: object = True) -> tuple[str, ...]:
        """Return the names of the kinds with a capability, in the order of the list.

        Examples
        --------
        >>> family("balancer").able("paths", "every_packet")
        ('reps', 'round-robin', 'rails')
        """
        kinds = self.kinds.values()
        return tuple(kind.name for kind in kinds if kind.capabilities[capability] == value)


@cache
def family(name: str) -> Family:
    """Return a family by its name.

    Examples
    --------
    >>> family("balancer").kinds["ecmp"].about
    'Each flow on one path, by a hash.'
    """
    listed = json.loads(_core.kinds(name))

    def keys(of: Any) -> tuple[Key, ...]:
        return tuple(Key(**key) for key in of)

    kinds = [Kind(**{**kind, "keys": keys(kind["keys"])}) for kind in listed["kinds"]]
    every = keys(listed.get("every", ()))
    return Family(listed["name"], listed["text"], every, {kind.name: kind for kind in kinds})


def of(name: str, kind: str) -> Mapping[str, Any]:
    """Return the capabilities of a kind of a family.

    Examples
    --------
    >>> of("transport", "ndp")["pulls"], of("transport", "dcqcn")["go_back_n"]
    (True, True)
    """
    return family(name).kinds[kind].capabilities


def names(name: str) -> str:
    """Return the names of a family's kinds as help texts list them.

    Examples
    --------
    >>> names("overflow")
    'drop, trim, pfc, shared'
    """
    return ", ".join(family(name).kinds)
