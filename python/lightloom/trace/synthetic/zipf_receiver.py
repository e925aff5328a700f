"""Experts of uneven load, by Zipf's law."""

from __future__ import annotations

import numpy as np

from lightloom.trace.synthetic.plug import EXPONENT, Generator, Shape, Values, Weights


def _weights(shape: Shape, values: Values, rng: np.random.Generator) -> Weights:
    rank = np.stack([rng.permutation(shape.experts) + 1.0 for _ in range(shape.layers)])
    weights: Weights = (rank ** -values["exponent"])[None, :, None, :]
    return weights


GENERATOR = Generator(
    "zipf-receiver",
    "w = r(e)^-exponent, r a random order of each layer",
    _weights,
    (EXPONENT,),
)
