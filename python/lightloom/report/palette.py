"""What a colour means, the same in every picture of a Result.

Causes of iteration time and kinds of task share one code: grey computes, blue communicates, red
waits for circuits. The hues are Okabe and Ito's (2008), distinct with any colour vision and by
lightness in print; fabrics carry a marker's shape as well.

Examples
--------
>>> KIND_GROUP["dispatch"], GROUPS["a2a"].label
('a2a', 'all-to-all')
>>> group_of("a kind of tomorrow")
'other'
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import NamedTuple

from lightloom.fabrics import KINDS, compared


class Cause(NamedTuple):
    """A part of the iteration time: its column in ``runs``, its name, its two colours."""

    column: str
    label: str
    light: str
    dark: str


CAUSES = (
    Cause("compute_s", "compute", "#aab2bd", "#77818f"),
    Cause("exposed_a2a_s", "exposed all-to-all", "#0072b2", "#3f9bdc"),
    Cause("exposed_other_s", "other exposed communication", "#56b4e9", "#a5d8f7"),
    Cause("reconfiguration_s", "reconfiguration", "#d55e00", "#f0803c"),
)


class Group(NamedTuple):
    """Kinds of task that are drawn alike, and the lane (``compute``, ``network``) they are in."""

    label: str
    lane: str
    light: str
    dark: str


GROUPS = {
    "attention": Group("attention", "compute", "#c9ced6", "#58616e"),
    "expert": Group("experts", "compute", "#7d8794", "#98a3b1"),
    "compute": Group("other compute", "compute", "#a7afba", "#757f8c"),
    "a2a": Group("all-to-all", "network", "#0072b2", "#3f9bdc"),
    # In line with compute, so drawn among it.
    "inline": Group("other communication", "network", "#56b4e9", "#a5d8f7"),
    # Beside it: pipeline sends and gradients; drawn thin.
    "other": Group("other communication", "network", "#56b4e9", "#a5d8f7"),
}
# A transfer's time before its circuits carried light.
WAIT = Group("waiting for circuits", "network", "#d55e00", "#f0803c")

KIND_GROUP = {
    "attention": "attention",
    "expert": "expert",
    "shared_expert": "expert",
    "gate": "compute",
    "embedding": "compute",
    "dense_mlp": "compute",
    "head": "compute",
    "optimizer": "compute",
    "dispatch": "a2a",
    "combine": "a2a",
    "tp": "inline",
    "cp": "inline",
}


def group_of(kind: str) -> str:
    """Return the group of a kind of task; what is not known as compute communicates."""
    return KIND_GROUP.get(kind, "other")


# Colour (light, dark), and matplotlib's marker. The page draws the same shapes.
_STYLES = (
    ("#4d5663", "#c3cad4", "o"),
    ("#c77f00", "#e8ac3c", "v"),
    ("#00805c", "#35bd96", "s"),
    ("#b9588f", "#e29bc4", "D"),
    ("#5b3cc4", "#a793ff", "*"),
    ("#7a5c1e", "#c2a35f", "P"),
    ("#b0413e", "#ec8a85", "h"),
    ("#1f6fb5", "#7db8ee", "d"),
    ("#46752f", "#93c47d", "<"),
    ("#7b4ba3", "#c09fe0", ">"),
)


def styles() -> Iterator[tuple[str, str, str]]:
    """Give styles without end: when colours come again, their markers are others.

    Examples
    --------
    >>> from itertools import islice
    >>> len(set(islice(styles(), 100)))
    100
    """
    for turn in count():
        for at, (light, dark, _) in enumerate(_STYLES):
            yield light, dark, _STYLES[(at + turn) % len(_STYLES)][2]


# Those that are compared come first, then the kinds of fabrics in their order.
FABRICS = dict(zip(dict.fromkeys((*compared(), *KINDS)), styles(), strict=False))
_OTHERS = (("#2a7886", "#6cc3d2", "^"), ("#8a3b3b", "#e08f8f", "X"), ("#5f6b1f", "#b5c15e", "p"))


def fabric_style(names: list[str]) -> dict[str, tuple[str, str, str]]:
    """Give each fabric its (light, dark, marker); a name that is not known takes the next free.

    Examples
    --------
    >>> fabric_style(["mixnet", "mine"])["mine"][2]
    '^'
    """
    styles: dict[str, tuple[str, str, str]] = {}
    free = 0
    for name in dict.fromkeys(names):
        if name in FABRICS:
            styles[name] = FABRICS[name]
        else:
            styles[name] = _OTHERS[free % len(_OTHERS)]
            free += 1
    return styles
