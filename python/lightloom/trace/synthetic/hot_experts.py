"""A set of hot experts, side by side or spread."""

from __future__ import annotations

import numpy as np

from lightloom.trace.synthetic.plug import HEAT, Generator, Knob, Shape, Values, Weights, hot_set

WIDTH = Knob("width", "share of the experts that are hot", 0.25, 0, 1)
STRIDE = Knob("stride", "from one hot expert to the next", 1, 1, 1 << 20)


def _weights(shape: Shape, values: Values, rng: np.random.Generator) -> Weights:
    hot = max(shape.top_k, round(values["width"] * shape.experts))
    first = rng.integers(shape.experts, size=shape.layers)
    place = first[:, None] + np.arange(hot) * int(values["stride"])
    return hot_set(shape, place[None] % shape.experts, values["heat"])


GENERATOR = Generator(
    "hot-experts",
    "a share heat of the tokens choose among h = max(k, round(width E)) experts only, every "
    "stride-th from one drawn for each layer, mod E (fewer where they meet); the others among all",
    _weights,
    (HEAT, WIDTH, STRIDE),
)
