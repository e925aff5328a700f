"""A load balancer written in Python, for `lightloom.simulate` with the packet engine.

The engine asks the function for the path of every packet that several paths can take: the function
stands where ``engine.balancer`` would choose. All else that the engine takes from
``engine.balancer`` stays: whether a gap in what arrives is a loss (``plb``, ``flowlets``) or says
nothing (``round-robin``, ``reps``), and over which NICs an all-to-all leaves on a fabric of rails.

It is slow: a call costs some 3 us beside what the function computes. Mixtral 8x7B of two layers on
128 GPUs and a fat-tree sends 11.0 million packets that have a choice: 30 s of CPU with round robin
of the core, 66 s with the same in Python; on 32 GPUs 0.42 million, 0.6 s and 1.7 s.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import index
from typing import Any, NamedTuple

from lightloom.decision import name
from lightloom.errors import InputError


class Heard(NamedTuple):
    """An acknowledgement.

    Attributes
    ----------
    path
        The path of the packet that it answers.
    marked
        Whether a switch marked that packet (ECN).
    round_trip_ps
        How long both were in flight [ps].
    time_ps
        When it came [ps].
    """

    path: int
    marked: bool
    round_trip_ps: int
    time_ps: int


class Packet(NamedTuple):
    """A packet about to be sent, and what is known then.

    Attributes
    ----------
    time_ps
        Now [ps].
    flow
        The sub-flow: a new number for each, and for one that has to leave its path.
    source, destination
        The NICs that the paths join.
    queues
        By path: bytes that wait now in the queues of its links. No NIC knows them; a balancer that
        uses them shows what could be gained at most.
    heard
        Acknowledgements that came to the sub-flow since its last packet, in order.
    in_flight
        Packets of the sub-flow that are in flight.
    turn
        Packets that the NIC has sent, of all flows, from a start of its own.
    """

    time_ps: int
    flow: int
    source: int
    destination: int
    queues: list[int]
    heard: list[Heard]
    in_flight: int
    turn: int


Balancer = Callable[[Packet], int]
"""``f(packet)`` returns the index of a path: a whole number below ``len(packet.queues)``. It may
keep what it knows of a flow by ``packet.flow``."""


def prepared(balancer: Balancer | None) -> Callable[..., int] | None:
    """Return what the core calls for a balancer."""
    if balancer is None:
        return None

    def asked(*packet: Any) -> int:
        seen = Packet(*packet)
        if seen.heard:
            seen = seen._replace(heard=[Heard(*heard) for heard in seen.heard])
        path = balancer(seen)
        try:
            return index(path)
        except TypeError:
            last = len(seen.queues) - 1
            raise InputError(
                f"balancer: {name(balancer)} must return a path, 0 to {last}; it returned {path!r}"
            ) from None

    return asked
