"""Presets: partial specifications as TOML data, with a source for each figure.

A preset file holds the tables it fills, in the user's form, and ``[source]``: dotted key (or the
table it belongs to) to where the figure stands; ``[date]``, of prices and watts, says when in the
same form. ``[range]`` keeps the published range of a figure
of which one value had to be chosen. Checked: every figure of every file has a source.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import Any

from lightloom.errors import InputError


@dataclass(frozen=True)
class Preset:
    """One preset file: `values` in the user's form, and the source of each key.

    A fabric that is `compared` is part of a comparison that names no fabrics; one with a
    `same_bill` is over-subscribed in comparisons until it costs no more than that preset. One with
    a table `choose`, values of keys of ``[fabric]``, is searched by ``lightloom choose``.
    """

    path: str
    values: Mapping[str, Any]
    sources: Mapping[str, str]
    compared: bool = False
    same_bill: str | None = None
    choose: Mapping[str, list[Any]] | None = None
    dates: Mapping[str, str] = field(default_factory=dict)

    def date(self, key: str) -> str | None:
        """When the figure of a dotted key was published, or read where its page has no date."""
        while key not in self.dates and "." in key:
            key = key.rpartition(".")[0]
        return self.dates.get(key)

    def source(self, key: str) -> str:
        """Where the figure of a dotted key comes from; the nearest table that names a source."""
        while key not in self.sources and "." in key:
            key = key.rpartition(".")[0]
        return self.sources.get(key, "")


@cache
def names(kind: str) -> tuple[str, ...]:
    """Return the names of all presets of a kind: models, gpus, fabrics, devices, prices, compute.

    Examples
    --------
    >>> names("gpus")
    ('a100', 'b200', 'gb200', 'gb300', 'h100', 'h200', 'h800', 'rubin')
    """
    entries = files(__name__).joinpath(kind).iterdir()
    return tuple(sorted(e.name[:-5] for e in entries if e.name.endswith(".toml")))


@cache
def load(kind: str, name: str) -> Preset:
    """Read one preset.

    Raises
    ------
    InputError
        If there is none of that name; the message lists those there are.

    Examples
    --------
    >>> load("devices", "polatis").source("fabric.ocs.ports")
    'MixNet Table 2'
    >>> load("gpus", "h1000")
    Traceback (most recent call last):
    ...
    lightloom.errors.InputError: no preset "h1000" in gpus (did you mean "h100"?); allowed: a100, \
b200, gb200, gb300, h100, h200, h800, rubin
    """
    if name not in names(kind):
        raise InputError(f'no preset "{name}" in {kind}{unknown(name, names(kind))}')
    return _read(f"{kind}/{name}.toml")


@cache
def defaults() -> Preset:
    """Return what a job is unless it says otherwise."""
    return _read("defaults.toml")


def unknown(name: str, allowed: tuple[str, ...]) -> str:
    """Return the end of a message on a name that is not allowed: a guess, and the list."""
    return f"{guess(name, allowed)}; allowed: {', '.join(allowed)}"


def guess(name: str, allowed: Sequence[str]) -> str:
    """Return which name was meant, for a message; "" if none is near.

    Examples
    --------
    >>> guess("fat-tre", ("fat-tree", "mixnet"))
    ' (did you mean "fat-tree"?)'
    """
    near = get_close_matches(name, allowed, n=1)
    return f' (did you mean "{near[0]}"?)' if near else ""


def _read(path: str) -> Preset:
    values = tomllib.loads(files(__name__).joinpath(path).read_text(encoding="utf-8"))
    sources = values.pop("source", {})
    values.pop("range", None)
    dates = values.pop("date", {})
    compared, same_bill = values.pop("compared", False), values.pop("same_bill", None)
    chosen = values.pop("choose", None)
    return Preset(path, values, sources, compared, same_bill, chosen, dates)
