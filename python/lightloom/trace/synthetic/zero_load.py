"""Experts without any load."""

from __future__ import annotations

import numpy as np

from lightloom.trace.synthetic.plug import Generator, Knob, Shape, Values, Weights

IDLE = Knob("idle", "share of the experts without load", 0.25, 0, 1)


def _weights(shape: Shape, values: Values, rng: np.random.Generator) -> Weights:
    idle = min(shape.experts - shape.top_k, round(values["idle"] * shape.experts))
    rank = np.stack([rng.permutation(shape.experts) for _ in range(shape.layers)])
    weights: Weights = (rank >= idle).astype(np.float64)[None, :, None, :]
    return weights


GENERATOR = Generator(
    "zero-load",
    "w = 0 for min(E - k, round(idle E)) experts, drawn for each layer; else 1",
    _weights,
    (IDLE,),
)
