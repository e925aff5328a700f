"""The table ``[fabric]`` of a specification, and what each kind of fabric can do.

Kinds describe themselves in the compiled core (`lightloom.kinds`); those whose keys are tables of
their own have a class here. A key that nothing reads for the chosen kind is an unknown key. What
values must satisfy together is in `shapes.py`. The text under a key is what
``docs/specification.md`` says of it. Checked: files under ``tests/malformed``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union

from pydantic import Discriminator, Field, Tag

from lightloom import kinds, presets
from lightloom.fields import (
    Bandwidth,
    Count,
    Delay,
    Label,
    LinkDelay,
    LinkRate,
    Positive,
    Radix,
    Ratio,
    Section,
    Splitting,
    every,
    variants,
)
from lightloom.units import Time

if TYPE_CHECKING:
    Decision = str
    Predictor = str
    Every = Section
else:
    Every = every("fabric")
    Decision = Literal[tuple(kinds.family("decision").kinds)]
    Predictor = Literal[tuple(kinds.family("predictor").kinds)]


# MixNet Section 9, SWOT Section 2.1.1.
Breakout = Literal[1, 2, 4, 8]


class Packet(Section):
    """The packet-switched part of MixNet: a fat-tree of the remaining NICs."""

    link_bandwidth: Bandwidth
    """Rate of every packet NIC and link, each way."""
    link_delay: Delay
    """Delay of every link, with that of the switch behind it."""
    tiers: Literal[2, 3]
    oversubscription: Ratio
    radix: Radix | None = None
    splitting: Splitting


class LognormalDelay(Section):
    """Reconfiguration times through a mean and a 99th percentile at some numbers of pairs."""

    kind: Literal["lognormal"]
    """A distribution: a log-normal one through the figures below."""
    pairs: Annotated[tuple[Count, ...], Field(min_length=1, max_length=64)]
    """How many pairs of ports change at once, rising."""
    mean: tuple[Annotated[Time, Positive], ...] = Field(serialization_alias="mean_ps")
    """The mean, for each number of `pairs`."""
    p99: tuple[Annotated[Time, Positive], ...] = Field(serialization_alias="p99_ps")
    """The 99th percentile, for each number of `pairs`."""


class LognormalActivation(Section):
    """The time that NICs need, through a mean and a 99th percentile."""

    kind: Literal["lognormal"]
    mean: Annotated[Time, Positive, Field(serialization_alias="mean_ps")]
    """The mean delay."""
    p99: Annotated[Time, Positive, Field(serialization_alias="p99_ps")]
    """The 99th percentile."""


class Ocs(Section):
    """The optical circuit switches of MixNet, one a region."""

    link_bandwidth: Bandwidth
    """Rate of an optical NIC, all its circuits together, each way."""
    breakout: Breakout
    """Into how many circuits an optical NIC, or a NIC of `planes`, is broken out: each has a port
    of the switch, and a share of the rate."""
    circulators: bool
    """`true`: circulators put both directions of a circuit on one fibre. That takes half as many
    ports of the switch and a circulator an end, and needs circuits that go both ways."""
    link_delay: Delay
    """Delay of each of the two fibres of a circuit."""
    device: Label
    """The optical switch: a preset, or any name together with `ports` and `delay`."""
    ports: Count
    """Ports of one optical switch, each of two directions."""
    delay: Annotated[
        Annotated[Time, Field(gt=0, le=1 << 62), Tag("fixed")]
        | Annotated[LognormalDelay, Tag("lognormal")],
        Discriminator(
            lambda value: "lognormal" if isinstance(value, Mapping | LognormalDelay) else "fixed"
        ),
    ]
    """From command to light: always the same time, or, but on `planes`, a table."""
    activation: Annotated[
        Annotated[Time, Field(ge=0, le=1 << 62), Tag("fixed")]
        | Annotated[LognormalActivation, Tag("lognormal")],
        Discriminator(
            lambda value: (
                "lognormal" if isinstance(value, Mapping | LognormalActivation) else "fixed"
            )
        ),
    ]
    """From light to a NIC that works: ports that change are dark for as long again. One time, or a
    table."""
    loopback: bool
    """`true`: transceivers loop their light back while the switch moves, which avoids
    `activation`."""


class Reconfigure(Section):
    """When circuits change: waiting (`block`), not (`reuse`), under compute (`hide`), `inside`."""

    first_forward: Literal["block", "reuse", "hide", "predict", "inside"]
    """Before the first all-to-all (dispatch) of a layer's forward pass. `predict`: under compute,
    for a predicted demand. `inside`: again and again during the all-to-all itself."""
    second_forward: Literal["block", "reuse", "hide", "inside"]
    """Before the second one (combine) of the forward pass."""
    backward: Literal["block", "reuse", "hide", "inside"]
    """Before both of the backward pass."""
    predictor: Predictor | None = None
    """Who predicts; `auto`: a mixture of the others, by how well each has done. Read with
    `first_forward = "predict"` only, and then `auto` unless given."""
    start: Literal["even", "dark"]
    """The circuits that stand when a region begins: those of an even demand, or none."""
    gradients: Literal["off", "rings", "always"]
    """Whether circuits form rings for sums of gradients: `rings`: where that is sooner, dark times
    included; `always`: in any case. A dense job's regions are the servers of a pipeline stage then;
    one with experts has one replica. See rings.md."""


class MixNet(Every):
    """Some NICs of each server on reconfigurable circuits of a region, the rest on packets."""

    kind: Literal["mixnet"]
    name: Label
    optical_nics: Annotated[int, Field(ge=1, le=1023)]
    """NICs of a server on circuits (the paper's alpha); the others are packet NICs."""
    co_packaged: bool
    """`true`: what is on circuits are optical ports in the GPUs' own packages, counted in
    `cluster.nics_per_server` all the same, without NIC or transceiver, and `link_bandwidth` of the
    whole fabric is that of the packet switches alone."""
    eps: Packet
    ocs: Ocs
    reconfigure: Reconfigure
    decision: Decision
    """The rule that chooses circuits: see decisions.md."""
    hysteresis: bool
    """`true`: circuits change only where what is gained pays for the dark time."""
    greedy_continue: bool
    """`false`: Algorithm 1 stops at the first pair without a free port. `true`: it goes on."""
    share_eps: bool
    """`true`: a pair with circuits also fills packet NICs, so that both end together."""


class PlaneOcs(Section):
    """The optical circuit switches of planes, one a plane."""

    link_bandwidth: Bandwidth
    breakout: Breakout
    link_delay: Delay
    device: Label
    ports: Count
    delay: Annotated[Time, Field(gt=0, le=1 << 62)]


class Planes(Every):
    """NIC i of every server on the optical circuit switch of plane i; no packet switches (SWOT)."""

    kind: Literal["planes"]
    name: Label
    ocs: PlaneOcs


class GraphNode(Section):
    """A server, or a switch, of a graph given link by link."""

    name: Label
    """How links call the node."""
    role: Literal["gpu-server", "switch"]
    """Servers are the cluster's, in the order of the list."""


class GraphLink(Section):
    """A duplex link between two named nodes."""

    a: Label
    """The node at one end."""
    b: Label
    """The node at the other."""
    rate: Annotated[LinkRate, Field(serialization_alias="rate_bps")]
    """Rate of each lane, each way."""
    delay: Annotated[LinkDelay, Field(serialization_alias="delay_ps")]
    """Delay of the link, with that of the switch behind it."""
    lanes: Annotated[int, Field(ge=1, le=65536)] = 1
    """Parallel links; at a server each takes a NIC of its own."""


class Graph(Every):
    """Any other fabric, node by node and link by link."""

    kind: Literal["graph"]
    name: Label
    nodes: Annotated[tuple[GraphNode, ...], Field(min_length=1)]
    """Servers and switches, a table `[[fabric.nodes]]` each."""
    links: tuple[GraphLink, ...]
    """Duplex links, a table `[[fabric.links]]` each."""


FAMILY = kinds.family("fabric")
_TABLES: Mapping[str, type[Section]] = {"mixnet": MixNet, "planes": Planes, "graph": Graph}
# The table of each kind.
KINDS: Mapping[str, type[Section]] = {
    name: _TABLES.get(name) or variants("fabric")[name] for name in FAMILY.kinds
}

if TYPE_CHECKING:
    Fabric = Any
else:
    union: Any = Union
    Fabric = Annotated[union[tuple(KINDS.values())], Field(discriminator="kind")]

# What holds of transceivers on circuits where neither the device nor anyone else says more, and
# why.
TRANSCEIVERS: dict[str, tuple[str | int, str]] = {
    "breakout": (1, "MixNet Sections 4 and 7.1: a port of the switch each NIC"),
    "circulators": (False, "MixNet Section 9: a fibre each way"),
    "activation": ("0 s", "MixNet Appendix C leaves it out of training times"),
    "loopback": (False, "chosen here: today's transceivers do not"),
}

# How all-to-alls travel unless a specification says so, and why.
CARRIER = ("auto", "chosen here: what is best on each fabric, for every fabric alike")

# How equal paths are shared unless a specification says so, by engine.
SPLITTING = {
    "flow": ("ideal", "chosen here: equal shares over equal paths, the best that balancing can do"),
    "packet": ("ecmp", "packets take one path each: every link is wired by itself"),
    "flit": ("ideal", "chosen here: a packet takes the one of equal links with the most room"),
}


def can(kind: object, capability: str) -> Any:
    """Return what a kind of fabric says of a capability; None of a kind that there is not.

    Examples
    --------
    >>> can("mixnet", "parts"), can("mixnet", "regions"), can("loom", "parts")
    (['eps', 'ocs'], True, None)
    """
    known = FAMILY.kinds.get(str(kind))
    return known and known.capabilities[capability]


def refusal(kind: str, engine: str) -> str | None:
    """Say why an engine cannot run a kind of fabric, and which can; None if it can.

    Examples
    --------
    >>> refusal("planes", "flit").partition(";")[2]
    ' allowed: "flow", "packet"'
    """
    why = dict(can(kind, "refuses"))
    if engine not in why:
        return None
    able = ", ".join(f'"{name}"' for name in SPLITTING if name not in why)
    return f'fabric "{kind}" {why[engine]}; allowed: {able}'


def switches(fabric: Any) -> Any:
    """Return the table (or list of links) with the rate and delay of links at packet switches."""
    table = can(fabric.kind, "switches")
    for part in (table or "").split(".")[1:]:
        fabric = getattr(fabric, part)
    return table and fabric


def splits(kind: object) -> str | None:
    """Return the table in which a kind says how equal paths are shared, if it says so anywhere.

    Examples
    --------
    >>> splits("fat-tree"), splits("mixnet"), splits("topoopt")
    ('fabric', 'fabric.eps', None)
    """
    table = can(kind, "switches")
    if table is None:
        return None
    fields = KINDS[str(kind)].model_fields
    for part in table.split(".")[1:]:
        fields = getattr(fields[part].annotation, "model_fields", {})
    return table if "splitting" in fields else None


@cache
def compared() -> tuple[str, ...]:
    """Return the presets that a comparison takes by default, in the order of their kinds.

    Examples
    --------
    >>> compared()
    ('fat-tree', 'fat-tree-3to1', 'rail-optimized', 'topoopt', 'mixnet')
    """
    order = list(KINDS)
    found = []
    for name in presets.names("fabrics"):
        preset = presets.load("fabrics", name)
        if preset.compared:
            found.append((order.index(preset.values["fabric"]["kind"]), name))
    return tuple(name for _, name in sorted(found))
