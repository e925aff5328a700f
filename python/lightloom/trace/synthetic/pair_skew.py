"""Pairs of servers of which some send more: what circuits are for."""

from __future__ import annotations

import numpy as np

from lightloom.errors import InputError
from lightloom.trace.synthetic.plug import Generator, Knob, Shape, Values, Weights

SERVERS = Knob("servers", "servers that share sources and experts evenly", 4, 2, 1 << 20)
MUTUAL = Knob("mutual", "1: partners exchange; 0: each sends to the next", 0, 0, 1)
SKEW = Knob("skew", "demand of the heaviest pair over the mean", 2.0, 1, 1 << 20)


def _weights(shape: Shape, values: Values, rng: np.random.Generator) -> Weights:
    servers, skew, mutual = int(values["servers"]), values["skew"], bool(values["mutual"])
    if shape.sources % servers or shape.experts % servers:
        raise InputError(
            f"--servers {servers}: must share --sources {shape.sources} and --experts "
            f"{shape.experts} evenly"
        )
    if mutual and servers % 2:
        raise InputError(f"--servers {servers}: must be even with --mutual 1: partners are two")
    # A token chooses an expert once, so its partner takes at most E / N of its k choices.
    most = min(servers - 1, shape.experts / shape.top_k)
    if skew > most:
        raise InputError(
            f"--skew {skew}: must be at most {most:g}, the least of the other servers "
            f"({servers - 1}) and experts over top-k ({shape.experts} / {shape.top_k})"
        )
    # By server: its own 1 / N, its partner's skew / N, the rest evenly to the others.
    rest = (servers - 1 - skew) / max(1, servers - 2)
    share = np.full((shape.layers, servers, servers), rest)
    for layer in share:
        drawn = rng.permutation(servers)
        partners = drawn.reshape(-1, 2)[:, ::-1].ravel() if mutual else np.roll(drawn, -1)
        layer[drawn, partners] = skew
        np.fill_diagonal(layer, 1.0)
    by_source = share.repeat(shape.sources // servers, axis=1)
    return by_source.repeat(shape.experts // servers, axis=2)[None]


GENERATOR = Generator(
    "pair-skew",
    "N servers in a circle, or in twos if mutual, drawn for each layer: from each, w = skew for "
    "the experts of the next, 1 for its own, (N - 1 - skew) / (N - 2) for all others; experts are "
    "even",
    _weights,
    (SERVERS, SKEW, MUTUAL),
)
