"""An expert that is hot for a while, again and again another."""

from __future__ import annotations

import numpy as np

from lightloom.trace.synthetic.plug import FACTOR, Generator, Knob, Shape, Values, Weights, one_hot

PERIOD = Knob("period", "from one to the next", 10, 1, 1 << 20)
LENGTH = Knob("length", "its iterations", 2, 1, 1 << 20, at_most="period")


def _weights(shape: Shape, values: Values, rng: np.random.Generator) -> Weights:
    number, within = np.divmod(np.arange(shape.iterations), int(values["period"]))
    hot = rng.integers(shape.experts, size=(int(number[-1]) + 1, shape.layers))[number]
    weights = one_hot(shape, hot, values["factor"])
    weights[within >= values["length"]] = 1.0
    return weights


GENERATOR = Generator(
    "burst",
    "in the first `length` iterations of every `period`: w = factor for one expert, drawn for "
    "each burst and layer; else 1",
    _weights,
    (FACTOR, PERIOD, LENGTH),
)
