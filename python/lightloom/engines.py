"""The table ``[engine]`` of a specification: one class an engine, a transport.

Balancers describe themselves (`lightloom.kinds`). A key that nothing reads for the chosen kind is
an unknown key; what values must satisfy together is in `shapes.py`, what they are unless given in
``presets/engines``, ``transports``, ``balancers`` and ``overflows``. The text under a key, written
where the key first occurs, is what ``docs/specification.md`` says of it. Checked: files under
``tests/malformed``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from lightloom.fields import Positive, Section, Share, one_of
from lightloom.units import Rate, Size, Time

# The engine keeps a packet's size, headers included, in 16 bits.
_Payload = Annotated[Size, Field(ge=256, le=60 << 10)]
_Bytes = Annotated[Size, Field(gt=0, le=1 << 40)]
# What is shorter than a packet's time costs events and decides nothing.
_Span = Annotated[Time, Field(ge=100_000, le=10**15)]
_Gain = Share


class FlowEngine(Section):
    """Max-min fair rates, solved at every change; `tolerance` 0 is exact."""

    kind: Literal["flow"]
    """`flow`: max-min fair rates of flows. `packet`: every packet over every link. `flit`: routers
    with virtual channels and credits, cycle by cycle."""
    tolerance: Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)]
    """0 is exact; t lets a flow end about t of its duration late, for a quicker run."""


class Dcqcn(Section):
    """RoCEv2 with go-back-N and DCQCN (Zhu et al., SIGCOMM 2015)."""

    kind: Literal["dcqcn"]
    """What the hosts speak; decides the defaults of the balancer and of the switches."""
    window: _Bytes | None = None
    """The most bytes of a flow under way at first. Unless given: without limit for `dcqcn` and
    `roce`, else one and a half times the path's bandwidth-delay product."""
    gain: _Gain
    """`dcqcn`: g, the gain of alpha. `dctcp`: the gain of the estimate of the marked share."""
    notification_interval: _Span
    """N: a receiver sends at most one congestion notification a flow in this time."""
    alpha_timer: _Span
    """K: alpha decays after this time without a notification."""
    rate_timer: _Span
    """T: the rate rises after this time."""
    byte_counter: _Bytes
    """B: the rate rises after so many bytes."""
    fast_recovery: Annotated[int, Field(ge=1, le=1000)]
    """F: rises towards the target before the target itself rises."""
    additive_increase: Annotated[Rate, Positive]
    """R_AI: by how much the target rises."""
    hyper_increase: Annotated[Rate, Positive]
    """R_HAI: by how much it rises once timer and counter have both passed F."""
    minimum_rate: Annotated[Rate, Positive]
    """A flow's rate never falls below this."""
    retransmit_after: _Span
    """Silence after which everything not acknowledged is sent again."""


class Roce(Section):
    """RoCEv2 with go-back-N at line rate, held back by priority flow control alone."""

    kind: Literal["roce"]
    window: _Bytes | None = None
    retransmit_after: _Span


class Ndp(Section):
    """Receiver-driven, on trimmed packets (NDP, Handley et al., SIGCOMM 2017)."""

    kind: Literal["ndp"]
    window: _Bytes | None = None
    retransmit_after: _Span


class Spray(Section):
    """A sender's window over sprayed packets, in the spirit of Ultra Ethernet's NSCC."""

    kind: Literal["spray"]
    window: _Bytes | None = None
    target_delay: _Span | None = None
    """Queueing delay aimed at. Unless given: half of the path's round trip."""
    increase: Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False)]
    """Packets by which the window grows in a round trip without congestion."""
    decrease: Share
    """The most of its window that a flow gives up in a round trip."""
    least_window: Share
    """The least window, in packets: below 1 it is one packet in more than a round trip."""
    retransmit_after: _Span


class Dctcp(Section):
    """DCTCP (Alizadeh et al., SIGCOMM 2010; RFC 8257), with selective acknowledgements."""

    kind: Literal["dctcp"]
    window: _Bytes | None = None
    gain: _Gain
    retransmit_after: _Span


class Drop(Section):
    """A packet that finds the queue full is lost."""

    kind: Literal["drop"]
    """What happens when a queue is full."""


class Trim(Section):
    """A packet that finds the queue full loses its payload; its header goes on with priority."""

    kind: Literal["trim"]


class Pfc(Section):
    """Queues do not fill up: an input port pauses its sender (IEEE 802.1Qbb)."""

    kind: Literal["pfc"]
    xoff: _Bytes
    """Bytes from one input port that cause a pause."""
    xon: _Bytes
    """Bytes from one input port at which it ends."""
    headroom: _Bytes
    """Bytes above `xoff` for what is on the wire when a pause is sent; more is lost."""


Transport = Annotated[Dcqcn | Roce | Ndp | Spray | Dctcp, Field(discriminator="kind")]
Overflow = Annotated[Drop | Trim | Pfc, Field(discriminator="kind")]

# Those whose receivers take packets in order only.
IN_ORDER = ("dcqcn", "roce")

if TYPE_CHECKING:
    Balancer = Any
else:
    Balancer = one_of("balancer")


class Switch(Section):
    """What a port of a switch does with its queue."""

    queue: _Bytes | None = None
    """Bytes that the queue of an output port holds; not with overflow `pfc`, whose `xoff` and
    `headroom` limit what an input port may bring."""
    ecn_low: _Bytes
    """No packet is marked that finds fewer bytes than this in the queue."""
    ecn_high: _Bytes
    """Every packet is marked that finds this many or more."""
    ecn_probability: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
    """Share of packets marked just below `ecn_high`; linear in between."""
    overflow: Overflow


class PacketEngine(Section):
    """Every packet over every link: queues, marks, pauses, losses, reordering."""

    kind: Literal["packet"]
    mtu: _Payload
    """Payload of a full packet on the network between servers."""
    header: Annotated[Size, Field(ge=1, le=1 << 10)]
    """Headers of a packet; the whole of an acknowledgement, a pull or a trimmed packet."""
    scale_up_mtu: _Payload
    """Payload of a full packet on a path that stays inside a server."""
    ack_every: Annotated[int, Field(ge=1, le=1 << 14)]
    """An acknowledgement for every so many packets in order."""
    dark: Literal["hold", "lose"]
    """Packets whose circuit is dark: the NIC holds them until there is light, or loses them."""
    sample_period: Annotated[Time, Field(le=1 << 62)]
    """Queues are sampled this often, into the table `queues`; `0 s`: never."""
    transport: Transport
    balancer: Balancer
    switch: Switch


class FlitEngine(Section):
    """Routers with virtual channels and credits, cycle by cycle; nothing is lost."""

    kind: Literal["flit"]
    flit_size: Annotated[Size, Field(ge=1, le=1 << 20)]
    """Size of a flit. A cycle is its time on the slowest link."""
    packet: Annotated[int, Field(ge=1, le=255)] | None = None
    """Flits of a packet; what the widest link carries in four cycles, unless given."""
    vcs: Annotated[int, Field(ge=2, le=16, multiple_of=2)]
    """Virtual channels of a port, two a class: a packet rises a class where its path falls in the
    order of links, so that none wait in a circle."""
    buffer: Annotated[int, Field(ge=1, le=1 << 14)] | None = None
    """Flits that a virtual channel holds; what the longest link needs, unless given."""
    credits: Literal["ideal", "link"]
    """Buffer space counts as free a cycle after a flit has left, or after the link's delay."""
    arbitration: Literal["round-robin", "oldest"]
    """Whose turn it is at a port: whoever follows the last, or the packet that is oldest."""
    pipeline: Annotated[int, Field(ge=0, le=1_000)]
    """Cycles that a flit spends in a router beyond allocation and switching."""


Engine = Annotated[FlowEngine | PacketEngine | FlitEngine, Field(discriminator="kind")]
