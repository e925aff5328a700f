"""One rank whose experts are all hot."""

from __future__ import annotations

import numpy as np

from lightloom.trace.synthetic.plug import FACTOR, Generator, Shape, Values, Weights, even


def _weights(shape: Shape, values: Values, rng: np.random.Generator) -> Weights:
    first = int(rng.integers(shape.sources)) * shape.experts // shape.sources
    weights = even(shape, values, rng)
    weights[..., first : first + max(1, shape.experts // shape.sources)] = values["factor"]
    return weights


GENERATOR = Generator(
    "hot-rank",
    "w = factor for the experts of one rank (rank x E // S and the E // S - 1 after it), drawn "
    "once; else 1",
    _weights,
    (FACTOR,),
)
