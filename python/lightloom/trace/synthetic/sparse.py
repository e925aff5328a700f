"""Sources that reach few experts."""

from __future__ import annotations

import numpy as np

from lightloom.trace.synthetic.plug import Generator, Knob, Shape, Values, Weights

SPARSITY = Knob("sparsity", "share of the experts a source does not reach", 0.5, 0, 1)


def _weights(shape: Shape, values: Values, rng: np.random.Generator) -> Weights:
    reached = max(shape.top_k, round((1 - values["sparsity"]) * shape.experts))
    draw = rng.random((shape.iterations, shape.layers, shape.sources, shape.experts))
    weights: Weights = (draw.argsort(axis=-1).argsort(axis=-1) < reached).astype(np.float64)
    return weights


GENERATOR = Generator(
    "sparse",
    "w = 1 for max(k, round((1 - sparsity) E)) experts, drawn for each iteration, layer and "
    "source; else 0",
    _weights,
    (SPARSITY,),
)
