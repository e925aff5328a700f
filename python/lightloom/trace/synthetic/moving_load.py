"""A load that drifts from expert to expert."""

from __future__ import annotations

import numpy as np

from lightloom.trace.synthetic.plug import Generator, Knob, Shape, Values, Weights

BUMP = Knob("bump", "share of the assignments that moves", 0.25, 0, 1)
PERIOD = Knob("period", "iterations from one expert to the next", 5, 1, 1 << 20)


def _weights(shape: Shape, values: Values, rng: np.random.Generator) -> Weights:
    first = rng.integers(shape.experts, size=shape.layers)
    whole, part = np.divmod(np.arange(shape.iterations), int(values["period"]))
    here = (first[None, :] + whole[:, None]) % shape.experts
    moved = (part / values["period"])[:, None, None]
    at = np.arange(shape.experts)
    leaves = at == here[..., None]
    enters = at == (here[..., None] + 1) % shape.experts
    bump = values["bump"] * (leaves * (1 - moved) + enters * moved)
    weights: Weights = bump + (1 - values["bump"]) / shape.experts
    return weights[:, :, None, :]


GENERATOR = Generator(
    "moving-load",
    "a share bump goes from expert i to i + 1 in `period` equal steps, then on, the first drawn "
    "for each layer; the rest is even: drift is bump / period, where no expert is above its cap",
    _weights,
    (BUMP, PERIOD),
)
