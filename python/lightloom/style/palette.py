"""What a colour means, the same in every picture: pages, PNGs, the controller's page.

Each colour is given for a light and for a dark background. What carries meaning (text, marks, bars)
has a contrast of at least `LEAST` with the background; where colours meet, an edge in the
background's colour parts them. Of causes and kinds of task grey computes, blue communicates, red
waits for circuits, and they differ in lightness. Series have a marker and a dash pattern of their
own too. Checked: contrasts, and differences as seen without cones of one kind
(``tests/test_style.py``).

Examples
--------
>>> KIND_GROUP["dispatch"], GROUPS["a2a"].label
('a2a', 'all-to-all')
>>> group_of("a kind of tomorrow")
'other'
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import count, islice
from typing import Any, NamedTuple

from lightloom.fabrics import KINDS, compared

LEAST = 4.5
"""WCAG 2's contrast of text with its background, level AA; here of all that carries meaning."""

# By name, for a light and a dark background: the background, text, what is said quietly, lines.
NEUTRAL = {
    "paper": ("#ffffff", "#14181f"),
    "ink": ("#1a202b", "#e8ebf0"),
    "muted": ("#59626f", "#a2acba"),
    "line": ("#dfe3e8", "#2a313c"),
    "edge": ("#b9c0ca", "#485262"),
    "wash": ("#f4f6f8", "#1d232c"),
    "focus": ("#0058a3", "#7cc0ff"),
    "tip": ("#1a202b", "#e8ebf0"),
    "tip-ink": ("#f4f6f8", "#1a202b"),
    "good": ("#00694b", "#4fd0a4"),
    "bad": ("#b3202c", "#ff8a8a"),
    "warn": ("#8a5200", "#e8ac3c"),
    "bad-paper": ("#fdeeee", "#2c181b"),
    "heat-low": ("#edf2f7", "#202733"),
    "heat-high": ("#00457c", "#8fd0ff"),
    "forward": ("#e7eaef", "#c3cad4"),
    "backward": ("#4a5362", "#343d4b"),
}
PAPER, INK, MUTED, LINE = (NEUTRAL[name][0] for name in ("paper", "ink", "muted", "line"))
HEAT = ("#f4f7fa", "#8fc1e3", "#0072b2", "#003a5d")
"""From least to most."""


class Cause(NamedTuple):
    """A part of the iteration time: its column in ``runs``, its name, its two colours."""

    column: str
    label: str
    light: str
    dark: str


CAUSES = (
    Cause("compute_s", "compute", "#6e7681", "#8b95a3"),
    Cause("exposed_a2a_s", "exposed all-to-all", "#003f77", "#3f9bdc"),
    Cause("exposed_other_s", "other exposed communication", "#1f78b8", "#a5d8f7"),
    Cause("reconfiguration_s", "reconfiguration", "#c24e00", "#f0803c"),
)


class Group(NamedTuple):
    """Kinds of task that are drawn alike, and the lane (``compute``, ``network``) they are in."""

    label: str
    lane: str
    light: str
    dark: str


GROUPS = {
    "attention": Group("attention", "compute", "#6e7681", "#8b95a3"),
    "expert": Group("experts", "compute", "#2a313b", "#e4e8ee"),
    "compute": Group("other compute", "compute", "#4a525e", "#b9c2ce"),
    "a2a": Group("all-to-all", "network", "#003f77", "#3f9bdc"),
    # In line with compute, so drawn among it.
    "inline": Group("other communication", "network", "#1f78b8", "#a5d8f7"),
    # Beside it: pipeline sends and gradients; drawn thin.
    "other": Group("other communication", "network", "#1f78b8", "#a5d8f7"),
}
# A transfer's time before its circuits carried light.
WAIT = Group("waiting for circuits", "network", "#c24e00", "#f0803c")

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


class Look(NamedTuple):
    """How a series is drawn: its two colours, matplotlib's marker, matplotlib's dashes."""

    light: str
    dark: str
    marker: str
    dash: Any


BLUE, ORANGE, GREEN, VIOLET, PINK, GREY, OLIVE, TEAL = _HUES = (
    ("#0a6cc4", "#4fa3f7"),
    ("#b34700", "#f0803c"),
    ("#00553d", "#7fe0b8"),
    ("#3d1f91", "#8f6cf7"),
    ("#a0287a", "#ff9fd6"),
    ("#6c7580", "#a9b3c0"),
    ("#574a00", "#e6cf5c"),
    ("#007a8a", "#2fa7b5"),
)
FAILED = WAIT.light
"""What is out of use or dark."""
HUES = tuple(light for light, _ in _HUES)
# The page of a report draws the same shapes.
SHAPES = ("s", "v", "D", "*", "P", "o", "h", "d", "^", "X", "p")
_DASHES: tuple[Any, ...] = (
    "-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (4, 1, 1, 1)), (0, (2.5, 1)), (0, (8, 2, 1, 2)),
    (0, (2, 2)), (0, (6, 1, 2, 1)),
)  # fmt: skip


def looks() -> Iterator[Look]:
    """Give looks without end: when colours come again, markers and dashes are others.

    Examples
    --------
    >>> from itertools import islice
    >>> len({(look.light, look.marker) for look in islice(looks(), 80)})
    80
    """
    for turn in count():
        for at, (light, dark) in enumerate(_HUES):
            marker = SHAPES[(at + turn * len(_HUES) + turn) % len(SHAPES)]
            yield Look(light, dark, marker, _DASHES[(at + turn) % len(_DASHES)])


def named(names: Iterable[str]) -> dict[str, Look]:
    """Give each name a look, in their order.

    Examples
    --------
    >>> named(["a", "b", "a"])["b"].light == ORANGE[0]
    True
    """
    return dict(zip(dict.fromkeys(names), looks(), strict=False))


def _fabrics() -> dict[str, Look]:
    """Give each fabric its look: grey the one that others are held against, then as they come."""
    first, *rest = dict.fromkeys((*compared(), *KINDS))
    grey = next(look for look in looks() if look.light == GREY[0])
    others = (look for look in looks() if look.light != GREY[0])
    return {first: grey, **dict(zip(rest, others, strict=False))}


# Those that are compared come first, then the kinds of fabrics in their order.
FABRICS = _fabrics()


def fabric_looks(names: Iterable[str]) -> dict[str, Look]:
    """Give each fabric its look; names that are not known take the next ones.

    Examples
    --------
    >>> mine = fabric_looks(["mixnet", "mine"])["mine"]
    >>> mine in FABRICS.values()
    False
    """
    free = (look for look in looks() if look not in FABRICS.values())
    return {name: FABRICS[name] if name in FABRICS else next(free) for name in dict.fromkeys(names)}


def first_looks(count: int) -> list[Look]:
    """Return the first `count` looks."""
    return list(islice(looks(), count))


def luminance(color: str) -> float:
    """Return the relative luminance of ``#rrggbb``, as WCAG 2 defines it.

    Examples
    --------
    >>> luminance("#ffffff"), luminance("#000000")
    (1.0, 0.0)
    """
    parts = (int(color[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours, 1 to 21, as WCAG 2 defines it.

    Examples
    --------
    >>> round(contrast("#000000", "#ffffff"), 6)
    21.0
    """
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def ink_on(color: str) -> str:
    """Return black or white, whichever contrasts more with a colour: always more than `LEAST`.

    Examples
    --------
    >>> ink_on("#003f77"), ink_on("#8fc1e3")
    ('#ffffff', '#000000')
    """
    return max("#ffffff", "#000000", key=lambda ink: contrast(color, ink))


def variables(side: int, more: Iterable[tuple[str, tuple[str, str]]] = ()) -> str:
    """Return the palette as CSS variables, on a light (0) or a dark (1) background.

    Parameters
    ----------
    side
        0 or 1.
    more
        Names and colours (light, dark) beside those here.

    Examples
    --------
    >>> "--ink: #1a202b;" in variables(0)
    True
    """
    colors = {name: pair[side] for name, pair in (*NEUTRAL.items(), *more)}
    for at, cause in enumerate(CAUSES):
        colors[f"c{at}"] = (cause.light, cause.dark)[side]
    for name, group in (*GROUPS.items(), ("wait", WAIT)):
        colors[f"g-{name}"] = (group.light, group.dark)[side]
        colors[f"on-{name}"] = ink_on(colors[f"g-{name}"])
    for name in ("forward", "backward"):
        colors[f"on-{name}"] = ink_on(colors[name])
    return " ".join(f"--{name}: {value};" for name, value in colors.items())


def stylesheet(more: Iterable[tuple[str, tuple[str, str]]] = ()) -> str:
    """Return the palette as a style sheet: what the reader's system prefers, or ``data-theme``."""
    extra = list(more)
    light, dark = (variables(side, extra) for side in (0, 1))
    return (
        f":root {{ color-scheme: light; {light} }}\n"
        f"@media (prefers-color-scheme: dark) {{ :root:not([data-theme]) {{ color-scheme: dark; "
        f"{dark} }} }}\n"
        f':root[data-theme="dark"] {{ color-scheme: dark; {dark} }}'
    )


def controller(own: Mapping[str, tuple[str, str]]) -> str:
    """Return the style sheet of what the controller's page needs, and colours of its `own`."""
    names = ("paper", "ink", "muted", "line", "wash", "focus", "good", "bad", "warn", "bad-paper",
             "heat-low", "heat-high")  # fmt: skip
    pairs = {name: NEUTRAL[name] for name in names} | dict(own)
    light, dark = (
        "\n".join(f"  --{name}: {pair[side]};" for name, pair in pairs.items()) for side in (0, 1)
    )
    return (
        f":root {{\n{light}\n}}\n@media (prefers-color-scheme: dark) {{ :root {{\n{dark}\n}} }}\n"
    )
