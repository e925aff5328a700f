"""The table ``[engine]`` of a specification: one class an engine.

Transports, balancers and overflows describe themselves (`lightloom.kinds`). A key that nothing
reads for the chosen kind is an unknown key; what values must satisfy together is in `shapes.py`,
what they are unless given in ``presets/engines``, ``transports``, ``balancers`` and ``overflows``.
The text under a key, written where the key first occurs, is what ``docs/specification.md`` says of
it. Checked: files under ``tests/malformed``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from lightloom.fields import Section, one_of
from lightloom.units import Size, Time

# The engine keeps a packet's size, headers included, in 16 bits.
_Payload = Annotated[Size, Field(ge=256, le=60 << 10)]
_Bytes = Annotated[Size, Field(gt=0, le=1 << 40)]


class FlowEngine(Section):
    """Max-min fair rates, solved at every change; `tolerance` 0 is exact."""

    kind: Literal["flow"]
    """`flow`: max-min fair rates of flows. `packet`: every packet over every link. `flit`: routers
    with virtual channels and credits, cycle by cycle."""
    tolerance: Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)]
    """0 is exact; t lets a flow end about t of its duration late, for a quicker run."""


if TYPE_CHECKING:
    Transport = Any
    Balancer = Any
    Overflow = Any
else:
    Transport, Balancer, Overflow = map(one_of, ("transport", "balancer", "overflow"))


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
    train: Annotated[int, Field(ge=1, le=255)]
    """A flow's packets that may travel as one event, with one acknowledgement; 1 is exact. At most
    64 KiB in all between servers; for what larger ones leave out see docs/performance.md."""
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
