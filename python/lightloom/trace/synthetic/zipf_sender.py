"""Sources of uneven size, by Zipf's law."""

from __future__ import annotations

import numpy as np

from lightloom.trace.synthetic.apportion import apportion
from lightloom.trace.synthetic.plug import EXPONENT, Generator, Ints, Shape, Values, Weights, even


def _tokens(shape: Shape, values: Values, rng: np.random.Generator) -> Ints:
    rank = rng.permutation(shape.sources) + 1
    share: Weights = rank.astype(np.float64) ** -values["exponent"]
    # One token each first: a source without any would not be a rank of the job.
    rest = np.array([shape.sources * (shape.tokens - 1)])
    tokens: Ints = 1 + apportion(share[None], rest)[0]
    return tokens


GENERATOR = Generator(
    "zipf-sender",
    "A(s) proportional to r(s)^-exponent, r a random order; at least one token each",
    even,
    (EXPONENT,),
    _tokens,
)
