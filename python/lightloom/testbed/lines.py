"""Lines for ``ip -batch`` and ``tc -batch``: what all cables and switches have in common."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lightloom.testbed.shape import MTU, Shape
from lightloom.units import Rate


@dataclass(frozen=True)
class Batch:
    """Lines for ``ip`` or ``tc`` in a namespace (none: where the command runs)."""

    tool: str
    namespace: str | None
    lines: tuple[str, ...]


def pair(near: str, ours: str, far: str, theirs: str, mtu: int = MTU) -> str:
    """Return the line for a veth pair, with both ends where they belong.

    Examples
    --------
    >>> pair("eps0", "b-node-00", "node-00-eps0", "b-eps")
    'link add eps0 mtu 1500 netns b-node-00 type veth peer name node-00-eps0 mtu 1500 netns b-eps'
    """
    ends = f"{near} mtu {mtu} netns {ours}", f"{far} mtu {mtu} netns {theirs}"
    return f"link add {ends[0]} type veth peer name {ends[1]}"


def up(names: Iterable[str]) -> Iterator[str]:
    """Yield the lines that turn NICs on."""
    for name in names:
        yield f"link set {name} up"


# What waits in a NIC's queue, in frames: as many as the kernel has by default (txqueuelen). A
# sender's TCP waits there, and loses nothing.
SENDERS_FRAMES = 1000
# A TCP connection has at most so much on its way: what kernels begin with, and it does not grow.
# With larger windows whoever fills a queue first keeps it, and other NICs idle meanwhile.
WINDOW_BYTES = 131_072
LEAST_WINDOW_BYTES = 49_152


def window_bytes(rate: Rate) -> int:
    """Return how much a connection between packet NICs has on its way [B].

    20 ms of their rate, but 48 to 128 KiB; of fast NICs 5 ms.

    Examples
    --------
    >>> [window_bytes(Rate.parse(rate)) for rate in ("5 Mbps", "20 Mbps", "50 Mbps", "1 Gbps")]
    [49152, 50000, 125000, 625000]
    """
    bytes_a_s = int(rate) // 8
    return max(min(max(bytes_a_s // 50, LEAST_WINDOW_BYTES), WINDOW_BYTES), bytes_a_s // 200)


def shaped(names: Iterable[str], rate: Rate, frames: int = 0, mtu: int = MTU) -> Iterator[str]:
    """Yield the lines, for ``tc``, that shape what NICs send to a rate [bit/s].

    At once leaves what a NIC sends in a millisecond, or ten frames; ``frames`` wait, or what it
    sends in 5 ms, or forty frames.

    Examples
    --------
    >>> list(shaped(["eps0"], Rate.parse("100 Mbps")))
    ['qdisc add dev eps0 root tbf rate 100000000bit burst 15000b limit 62500b']
    """
    # Ten frames of 1,500 B, and a jumbo frame with its header.
    burst_bytes = max(10 * MTU, int(rate) // 8 // 1000)
    queue_bytes = max(40 * MTU, int(rate) // 8 // 200, frames * mtu)
    for name in names:
        yield (
            f"qdisc add dev {name} root tbf rate {int(rate)}bit"
            f" burst {burst_bytes}b limit {queue_bytes}b"
        )


def port_frames(shape: Shape) -> int:
    """Return how many frames wait at a switch's port: a window of every other server.

    So a port loses nothing of one connection of each.

    Examples
    --------
    >>> port_frames(Shape()), port_frames(Shape(mtu=9000))
    (264, 45)
    """
    window = max(WINDOW_BYTES, window_bytes(shape.rate))
    return -(-window // shape.mtu) * (shape.servers - 1)
