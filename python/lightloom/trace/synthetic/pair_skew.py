"""Pairs of servers of which some send more: what circuits are for."""

from __future__ import annotations

import numpy as np

from lightloom.errors import InputError
from lightloom.trace.synthetic.plug import Generator, Knob, Shape, Values, Weights

SERVERS = Knob("servers", "servers that share sources and experts evenly", 4, 2, 1 << 20)
SKEW = Knob("skew", "demand of the heaviest pair over the mean", 2.0, 1, 1 << 20)


def _weights(shape: Shape, values: Values, rng: np.random.Generator) -> Weights:
    servers, skew = int(values["servers"]), values["skew"]
    if shape.sources % servers or shape.experts % servers:
        raise InputError(
            f"--servers {servers}: must share --sources {shape.sources} and --experts "
            f"{shape.experts} evenly"
        )
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
        circle = rng.permutation(servers)
        layer[circle, np.roll(circle, -1)] = skew
        np.fill_diagonal(layer, 1.0)
    by_source = share.repeat(shape.sources // servers, axis=1)
    return by_source.repeat(shape.experts // servers, axis=2)[None]


GENERATOR = Generator(
    "pair-skew",
    "N servers in a circle, drawn for each layer: from each, w = skew for the experts of the next, "
    "1 for its own, (N - 1 - skew) / (N - 2) for all others; experts are even",
    _weights,
    (SERVERS, SKEW),
)
