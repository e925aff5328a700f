"""What the simulator says of a testbed's NICs: which carry which bytes, and how long that takes.

Modelled: an all-to-all's bytes are given to NICs by the decisions that the simulator's media ask
(`lightloom._core.alltoall_nics`). What one NIC sends another is a flow, in bytes as a shaper counts
them: full frames, and for every two of them an acknowledgement the other way (RFC 5681, 4.2). All
flows begin at once, and the flow engine shares NICs among them fairly (max-min), behind one switch
that holds nothing up: what rails and circuits are to flows that keep to them. Ignored: bytes that
stay in a server, what chunks add (32 B), acknowledgements that ride on data; TCP's start, queues
and losses; spines: no chunk crosses rails. Checked: ``tests/test_chunk_nics.py``, against a capture
on the NICs; ``tests/test_testbed_compare.py``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lightloom import _core
from lightloom.testbed.shape import MTU, Shape

Matrix = npt.NDArray[np.uint64]
# The two ends of a circuit, each a server and its optical port.
Join = tuple[tuple[int, int], tuple[int, int]]
# By path: the rule that the simulator knows it by.
RULES = {
    "delegate": "delegate", "rails": "lpt", "stripe": "round-robin",
    "hash": "hash", "pxn": "pxn", "source": "source",
}  # fmt: skip
# IPv4, TCP and its timestamps; and what a shaper counts besides, Ethernet's header [B].
HEADERS, ETHERNET = 20 + 20 + 12, 14


class Framing(NamedTuple):
    """A full frame as a shaper counts it, its payload, and an acknowledgement of two [B].

    Examples
    --------
    >>> Framing.of(1500)
    Framing(frame=1514, payload=1448, acknowledgement=66)
    >>> round(Framing.of(1500).share, 3), round(Framing.of(9000).share, 3)
    (0.936, 0.989)
    """

    frame: int
    payload: int
    acknowledgement: int

    @classmethod
    def of(cls, mtu: int = MTU) -> Framing:
        """Return those of what a frame may hold [B]."""
        return cls(mtu + ETHERNET, mtu - HEADERS, HEADERS + ETHERNET)

    @property
    def share(self) -> float:
        """The part of a NIC's rate that is payload, if as much comes as goes."""
        return 2 * self.payload / (2 * self.frame + self.acknowledgement)


class Part(NamedTuple):
    """Bytes from one rank to another, and the NICs that carry them, by number in their servers."""

    source: int
    destination: int
    offset: int
    bytes: int
    nic: int
    peer_nic: int


def circuits(ports: Sequence[Sequence[Sequence[int] | None]]) -> list[Join]:
    """Return each circuit once.

    Parameters
    ----------
    ports
        By server and optical port: the server and the port at the other end, or none.

    Examples
    --------
    >>> circuits([[[1, 1], None], [None, [0, 0]]])
    [((0, 0), (1, 1))]
    """
    ends = {
        (server, port): (end[0], end[1])
        for server, row in enumerate(ports)
        for port, end in enumerate(row)
        if end is not None
    }
    return sorted((one, other) for one, other in ends.items() if one < other)


def parts(
    shape: Shape, path: str, matrix: Matrix, chunk_bytes: int | None, joins: Sequence[Join] = ()
) -> list[Part]:
    """Return which NICs the simulator's decisions give which bytes to carry.

    Parameters
    ----------
    shape
        The testbed.
    path
        One of `RULES`.
    matrix
        What ranks send each other [B]: [source rank, destination rank].
    chunk_bytes
        What is dealt to a rail as one piece [B], `Shape.chunk` unless given; ``delegate`` deals
        none.
    joins
        The circuits that stand.

    Raises
    ------
    ValueError
        If they do not fit together; with the key.

    Examples
    --------
    >>> shape = Shape(servers=2, ranks_per_server=1, eps_nics=2, ocs_nics=1)
    >>> matrix = np.array([[0, 250], [0, 0]], dtype=np.uint64)
    >>> [(part.offset, part.nic) for part in parts(shape, "stripe", matrix, 100)]
    [(0, 0), (100, 1), (200, 0)]
    >>> parts(shape, "delegate", matrix, 100, [((0, 0), (1, 0))])
    [Part(source=0, destination=1, offset=0, bytes=250, nic=2, peer_nic=2)]
    """
    request = {
        "servers": shape.servers, "gpus_per_server": shape.ranks_per_server,
        "packet_nics": shape.eps_nics, "optical_nics": shape.ocs_nics,
        "rule": RULES[path], "chunk": shape.chunk(chunk_bytes),
        "circuits": joins if path == "delegate" else [],
    }  # fmt: skip
    demand = np.ascontiguousarray(matrix, dtype=np.uint64)
    return [Part(*row) for row in _core.alltoall_nics(json.dumps(request), demand)]


def flows(shape: Shape, carried: Sequence[Part]) -> Matrix:
    """Return what NICs send each other [B]: [sending NIC, receiving NIC], server by server.

    Examples
    --------
    >>> shape = Shape(servers=2, ranks_per_server=1, eps_nics=1, ocs_nics=1)
    >>> flows(shape, [Part(0, 1, 0, 5, 0, 0), Part(0, 1, 5, 7, 0, 0)])[0].tolist()
    [0, 0, 12, 0]
    """
    ranks, nics = shape.ranks_per_server, shape.eps_nics + shape.ocs_nics
    sums = np.zeros((shape.servers * nics, shape.servers * nics), dtype=np.uint64)
    for part in carried:
        near = part.source // ranks * nics + part.nic
        far = part.destination // ranks * nics + part.peer_nic
        sums[near, far] += np.uint64(part.bytes)
    return sums


def framed(sums: Matrix, mtu: int = MTU) -> Matrix:
    """Return what a shaper counts of payload [B]: frames, and acknowledgements the other way.

    Examples
    --------
    >>> framed(np.array([[0, 2 * 1448], [0, 0]], dtype=np.uint64)).tolist()
    [[0, 3028], [66, 0]]
    """
    framing = Framing.of(mtu)
    frames = sums.astype(np.float64) / framing.payload
    counted = frames * framing.frame + frames.T * (framing.acknowledgement / 2)
    return np.ceil(counted.round(6)).astype(np.uint64)


def seconds(shape: Shape, sums: Matrix) -> float:
    """Return how long the flow engine takes for what NICs send each other [s].

    Parameters
    ----------
    shape
        The testbed: its NICs' rate and frames.
    sums
        Of `flows`.

    Examples
    --------
    >>> shape = Shape(servers=2, ranks_per_server=1, eps_nics=1, ocs_nics=1)
    >>> two = flows(shape, [Part(0, 1, 0, 12_500_000, 0, 0), Part(0, 1, 0, 6_250_000, 1, 1)])
    >>> round(seconds(shape, two), 4)  # 12.5 MB over 100 Mbps, as frames
    1.0456
    """
    from lightloom.collectives import collective

    nics = len(sums)
    if not sums.any():
        return 0.0
    spec = {
        "cluster": {"gpus_per_server": 1, "nics_per_server": 1, "numa_nodes": 1},
        "fabric": {
            "kind": "leaf-spine", "link_bandwidth": str(shape.rate), "link_delay": "1 us",
            "radix": max(64, 2 * nics), "oversubscription": 1.0,
        },
        "engine": {"kind": "flow", "tolerance": 0.0},
    }  # fmt: skip
    result = collective("all-to-all", spec=spec, matrix=framed(sums, shape.mtu), progress=False)
    return float(result.rows[0]["time_s"])
