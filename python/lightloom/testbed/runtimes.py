"""What the runtimes of a job on a testbed are told."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass

from lightloom.testbed.shape import Shape
from lightloom.testbed.team import Place, Team, team

# Where runtimes listen, at each NIC.
PORT = 9100
# A server that says nothing for so long is lost.
LOST_MS = 15_000


@dataclass(frozen=True)
class Settings:
    """How a job's runtimes move bytes.

    Attributes
    ----------
    path
        How bytes are shared over NICs, unless an all-to-all says otherwise.
    algorithm
        ``direct``, or ``ring``: how collectives that are no all-to-all go. ``hierarchical`` is
        ``ring`` to runtimes, and ``hyperx`` is ``direct``: rings of rows and columns, or these all
        at once.
    chunk_bytes
        The longest chunk [B]; `Shape.chunk` unless given.
    parts
        Parts of an all-reduce, and of a ring's slices, that are under way at a time; 4 and 2 unless
        given.
    lost_ms
        A server that says nothing for so long is lost [ms].
    spread
        For comparing schemes: ``ways``, ``window`` and ``balancers``, as the job's file has them
        (``crates/runtime/src/ranks/job.rs``).
    filter, fence, relays
        For tests that show what they are for: whether the lease's end is in a filter at optical
        NICs, whether runtimes wait for what is under way before they say that ports are drained,
        and whether they hand on what a server cannot send by itself.
    """

    path: str = "delegate"
    algorithm: str = "direct"
    chunk_bytes: int | None = None
    parts: int | None = None
    lost_ms: int = LOST_MS
    spread: Mapping[str, object] | None = None
    filter: bool = True
    fence: bool = True
    relays: bool = True


# What runtimes are told of algorithms that ranks make of several collectives.
WITHIN = {"hierarchical": "ring", "hyperx": "direct"}


def description(shape: Shape, settings: Settings, members: Team | None = None) -> dict[str, object]:
    """Return a job's file, for ``lightloomd runtime serve``.

    Parameters
    ----------
    shape
        The testbed.
    settings
        How bytes are moved.
    members
        Who takes part; all servers unless given.

    Examples
    --------
    >>> job = description(Shape(servers=2, ocs_nics=1), Settings())
    >>> [nic["address"] for nic in job["servers"][1]["nics"]]
    ['10.64.1.1:9100', '10.96.1.1:9100']
    """
    members = team(shape) if members is None else members

    def place(nic: Place) -> dict[str, str | None]:
        return {"address": f"{nic[0]}:{PORT}", "device": nic[1]}

    servers = [
        {"name": shape.nodes[server], "life": 1, "nics": [place(nic) for nic in nics]}
        for server, nics in zip(members.servers, members.nics, strict=True)
    ]
    return {
        "job": secrets.randbits(63),
        "secret": secrets.token_hex(32),
        "servers": servers,
        "ranks_per_server": shape.ranks_per_server,
        "packet_nics": members.packet_nics,
        "optical_nics": members.optical_nics,
        "path": settings.path,
        "algorithm": WITHIN.get(settings.algorithm, settings.algorithm),
        **({"rings": members.rings} if members.rings else {}),
        # Later than any round of a job before.
        "round": time.time_ns() // 1_000_000,
        "chunk": shape.chunk(settings.chunk_bytes),
        "unsent": shape.unsent_bytes,
        "parts": settings.parts,
        "lost_ms": settings.lost_ms,
        "relays": settings.relays,
        **(
            {"spread": settings.spread}
            if settings.spread
            else {
                "nic_window": shape.nic_window_bytes(settings.chunk_bytes),
                "nic_rate": int(shape.rate) // 8,
            }
        ),
    }
