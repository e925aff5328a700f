"""A hot expert that moves on."""

from __future__ import annotations

import numpy as np

from lightloom.trace.synthetic.plug import FACTOR, Generator, Knob, Shape, Values, Weights, one_hot

PERIOD = Knob("period", "iterations until it moves", 1, 1, 1 << 20)


def _weights(shape: Shape, values: Values, rng: np.random.Generator) -> Weights:
    first = rng.integers(shape.experts, size=shape.layers)
    turn = np.arange(shape.iterations) // int(values["period"])
    hot = (first[None, :] + turn[:, None]) % shape.experts
    return one_hot(shape, hot, values["factor"])


GENERATOR = Generator(
    "rotating-hotspot",
    "w = factor for expert (h + iteration // period) mod E, h drawn for each layer; else 1",
    _weights,
    (FACTOR, PERIOD),
)
