"""The table ``[fabric]`` of a specification: one class a kind.

A key that nothing reads for the chosen kind is an unknown key. What values must satisfy together
is in `shapes.py`. The text under a key, written where the key first occurs, is what
``docs/specification.md`` says of it. Checked: files under ``tests/malformed``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from lightloom.fields import (
    Bandwidth,
    Count,
    Delay,
    Label,
    Positive,
    Radix,
    Ratio,
    Section,
    Splitting,
)
from lightloom.units import Rate, Time


class FatTree(Section):
    """A fat-tree of two or three tiers; `oversubscription` is at the top-of-rack switches."""

    kind: Literal["fat-tree"]
    """Which fabric; decides which other keys there are."""
    name: Label
    """What results call the fabric; the kind's name unless a preset brings one."""
    link_bandwidth: Bandwidth
    """Rate of every NIC and link, each way. On `mixnet`, `planes`: of parts that do not say.
    On `railx`: of a rail."""
    link_delay: Delay
    """Delay of every link or fibre, with that of a switch behind it. On `mixnet`: of all parts."""
    tiers: Literal[2, 3]
    """Tiers of switches."""
    oversubscription: Ratio
    """Rate down over rate up at the switches next to servers; 1 is non-blocking."""
    radix: Radix | None = None
    """Ports of a switch. Unless given: the smallest with which the cluster fits."""
    splitting: Splitting
    """`ideal`: a flow spreads evenly over paths of equal cost. `ecmp`: a seeded hash picks one, or
    the balancer of the packet engine, which knows no other. Unless given, `ideal` with engine
    `flow` and `ecmp` with `packet`."""


class LeafSpine(Section):
    """Leaf and spine switches: a fat-tree of two tiers."""

    kind: Literal["leaf-spine"]
    name: Label
    link_bandwidth: Bandwidth
    link_delay: Delay
    oversubscription: Ratio
    radix: Radix | None = None
    splitting: Splitting


class RailOptimized(Section):
    """NIC i of every server on the switches of rail i."""

    kind: Literal["rail-optimized"]
    name: Label
    link_bandwidth: Bandwidth
    link_delay: Delay
    tiers: Literal[2, 3]
    oversubscription: Ratio
    radix: Radix | None = None
    splitting: Splitting


class TopoOpt(Section):
    """Circuits set once for the job on a patch panel (TopoOpt, NSDI 2023)."""

    kind: Literal["topoopt"]
    name: Label
    link_bandwidth: Bandwidth
    link_delay: Delay
    degree: Annotated[int, Field(ge=1, le=1024)]
    """NICs of a server that are plugged into the panel."""
    panel: Literal["flat", "multi-tier"]
    """`flat`: one panel, as large as need be. `multi-tier`: panels as leaves and spines."""
    panel_ports: Count
    """Ports of one panel; a flat one may exceed them, and a note says so."""


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
    """The mean."""
    p99: Annotated[Time, Positive, Field(serialization_alias="p99_ps")]
    """The 99th percentile."""


class Ocs(Section):
    """The optical circuit switches of MixNet, one a region."""

    link_bandwidth: Bandwidth
    """Rate of an optical NIC and its circuit, each way."""
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
    predictor: (
        Literal["copilot", "previous-layer", "previous-iteration", "average", "uniform", "auto"]
        | None
    ) = None
    """Who predicts; `auto`: whoever has been best so far. Read with `first_forward = "predict"`
    only, and then `auto` unless given."""


class MixNet(Section):
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
    decision: Literal["algorithm-1", "timed"]
    """How circuits are chosen: `algorithm-1` as printed, or `timed`, by the time of the whole
    all-to-all, packet NICs included."""
    hysteresis: bool
    """`true`: circuits change only where what is gained pays for the dark time."""
    greedy_continue: bool
    """`false`: Algorithm 1 stops at the first pair without a free port. `true`: it goes on."""
    share_eps: bool
    """`true`: a pair with circuits also fills packet NICs, so that both end together."""


class PlaneOcs(Section):
    """The optical circuit switches of planes, one a plane."""

    link_bandwidth: Bandwidth
    link_delay: Delay
    device: Label
    ports: Count
    delay: Annotated[Time, Field(gt=0, le=1 << 62)]


class Planes(Section):
    """NIC i of every server on the optical circuit switch of plane i; no packet switches (SWOT)."""

    kind: Literal["planes"]
    name: Label
    ocs: PlaneOcs


class RailX(Section):
    """Nodes of GPUs in a mesh, rows and columns of nodes on optical switches (RailX)."""

    kind: Literal["railx"]
    name: Label
    link_bandwidth: Bandwidth
    link_delay: Delay
    mesh: Annotated[int, Field(ge=1, le=64)]
    """GPUs along a side of a node (the paper's m); a server of the cluster is a node."""
    ports: Annotated[int, Field(ge=1, le=256)]
    """Rails at a GPU on the edge of its node, for each such edge (the paper's n)."""
    ocs_ports: Radix
    """Ports of an optical switch (the paper's R); it joins half as many nodes."""
    topology: Literal["torus", "hyperx", "dragonfly"]
    """What the rails form: rings, rows and columns all to all, or groups."""
    columns: Count | None = None
    """Nodes in a row. Unless given, the squarest grid of nodes that the topology allows."""
    inside: Annotated[float, Field(gt=0, le=1024, allow_inf_nan=False)]
    """Rate of a mesh link over that of an edge's rails together (the paper's k). The mesh stands in
    place of the scale-up network: `cluster.scale_up_bandwidth` is not read."""
    mesh_delay: Annotated[Time, Field(serialization_alias="mesh_delay_ps")]
    """Delay of a mesh link."""


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
    rate: Annotated[Rate, Positive, Field(serialization_alias="rate_bps")]
    """Rate of each lane, each way."""
    delay: Annotated[Time, Field(serialization_alias="delay_ps")]
    """Delay of the link, with that of the switch behind it."""
    lanes: Count = 1
    """Parallel links; at a server each takes a NIC of its own."""


class Graph(Section):
    """Any other fabric, node by node and link by link."""

    kind: Literal["graph"]
    name: Label
    nodes: Annotated[tuple[GraphNode, ...], Field(min_length=1)]
    """Servers and switches, a table `[[fabric.nodes]]` each."""
    links: tuple[GraphLink, ...]
    """Duplex links, a table `[[fabric.links]]` each."""


Fabric = Annotated[
    FatTree | LeafSpine | RailOptimized | TopoOpt | MixNet | Planes | RailX | Graph,
    Field(discriminator="kind"),
]

# What holds of MixNet's transceivers where neither the device nor anyone else says more, and why.
TRANSCEIVERS: dict[str, tuple[str | bool, str]] = {
    "activation": ("0 s", "MixNet Appendix C leaves it out of training times"),
    "loopback": (False, "chosen here: today's transceivers do not"),
}

# Where each kind of fabric says how equal paths are shared, and what it is unless given, by engine.
SPLITS = {
    "fat-tree": "fabric",
    "leaf-spine": "fabric",
    "rail-optimized": "fabric",
    "mixnet": "fabric.eps",
}
SPLITTING = {
    "flow": ("ideal", "chosen here: equal shares over equal paths, the best that balancing can do"),
    "packet": ("ecmp", "packets take one path each: every link is wired by itself"),
    "flit": ("ideal", "chosen here: a packet takes the one of equal links with the most room"),
}
