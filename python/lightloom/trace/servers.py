"""Skew between servers: how far some pairs of servers send each other more than others.

This is what circuits feel. What stays inside a server does not count, so experts may be hot and
pairs of servers even. Modelled: ranks and experts lie on servers in order, so many on each.
Ignored: tensor parallelism, which only makes a rank larger. Checked: closed forms of
`trace.synthetic`, and an oracle of loops (``tests/test_trace_servers.py``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lightloom.errors import InputError
from lightloom.trace.gating_trace import GatingTrace

Floats = npt.NDArray[np.float64]
MOST_SERVERS = 8


@dataclass(frozen=True, eq=False)
class ServerSkew:
    """Measures of the demand between servers, each of shape [layer], mean over iterations.

    Attributes
    ----------
    servers
        On how many the sources and experts lie.
    pair_skew
        Demand of the heaviest pair of servers (one direction) over the mean of all pairs. 1 when
        even, servers x (servers - 1) when one pair has all.
    top_share
        Share of the demand that as many of the heaviest pairs have as there are servers: what one
        circuit from each server could carry at best. 1 / (servers - 1) when even, 1 at most.
    """

    servers: int
    pair_skew: Floats
    top_share: Floats

    def as_dict(self) -> dict[str, Any]:
        """Return the means and layers as plain values."""
        measures = {"pair_skew": self.pair_skew, "top_share": self.top_share}
        return {
            "servers": self.servers,
            **{name: round(float(values.mean()), 6) for name, values in measures.items()},
            "per_layer": {
                name: [round(float(value), 6) for value in values]
                for name, values in measures.items()
            },
        }


def between_servers(counts: npt.NDArray[Any], servers: int) -> Floats:
    """Return the demand from server to server, [..., server, server], its diagonal 0.

    Parameters
    ----------
    counts
        Assignments, [..., source, expert]; both are shared evenly by the servers.
    servers
        How many.

    Examples
    --------
    >>> between_servers(np.arange(16).reshape(4, 4), 2).tolist()
    [[0.0, 18.0], [42.0, 0.0]]
    """
    *outer, sources, experts = counts.shape
    blocks = counts.reshape(*outer, servers, sources // servers, servers, experts // servers)
    demand: Floats = blocks.sum(axis=(-3, -1), dtype=np.float64)
    demand[..., np.arange(servers), np.arange(servers)] = 0.0
    return demand


def server_skew(trace: GatingTrace, servers: int | None = None) -> ServerSkew | None:
    """Measure the skew between servers; ``None`` if fewer than two can share the trace evenly.

    Parameters
    ----------
    trace
        What to measure.
    servers
        How many; by default the most, up to eight, that share sources and experts evenly.

    Raises
    ------
    InputError
        If so many cannot.

    Examples
    --------
    >>> skew = server_skew(GatingTrace.load("e8k2"))
    >>> skew.servers, float(skew.pair_skew.mean().round(2))
    (8, 1.55)
    """
    shared = math.gcd(trace.sources, trace.experts)
    if servers is None:
        servers = max(n for n in range(1, MOST_SERVERS + 1) if shared % n == 0)
        if servers < 2:
            return None
    if servers < 2 or shared % servers:
        raise InputError(
            f"--servers {servers}: must be at least 2 and share the trace's {trace.sources} "
            f"sources and {trace.experts} experts evenly"
        )
    skew = np.empty((trace.iterations, trace.layers))
    share = np.empty_like(skew)
    off = ~np.eye(servers, dtype=bool)
    for iteration, counts in enumerate(trace.counts):
        pairs = np.sort(between_servers(counts, servers)[:, off], axis=1)
        total = pairs.sum(axis=1)
        # Where nothing leaves a server, no pair has more than another.
        pairs[total == 0] = 1.0
        total[total == 0] = pairs.shape[1]
        skew[iteration] = pairs[:, -1] * pairs.shape[1] / total
        share[iteration] = pairs[:, -servers:].sum(axis=1) / total
    return ServerSkew(servers, skew.mean(axis=0), share.mean(axis=0))
