"""Loads as trained gates have them, drawn: calibrated on recordings.

Modelled: of each layer, how popular its experts are (a gamma distribution of mean 1, so that their
shares are Dirichlet's); how popularity drifts from iteration to iteration (a log-normal factor,
its logarithm a stationary AR(1) process); that tokens of one sequence are alike, so that sources
of few sequences differ (a gamma factor for each source and iteration); what sampling so many
tokens scatters (by the normal approximation). Each coefficient of variation is a power of experts
/ top-k; `LAWS` holds the laws, as `lightloom.trace.calibration` fits them to some of the shipped
recordings. Beyond the range of experts / top-k of these, the nearest end stands in.
Ignored: that a source's own text stays with it, correlation between experts and between layers.
Checked: on recordings that were not fitted (``tests/test_trace_calibrated.py``; the page
traces.md): busiest expert, ranks and frequencies, drift, sources, pairs of servers. What it cannot
know: models of real size on one kind of text are far more uneven; the knob `spread` is there for
that.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lightloom.trace.synthetic.plug import Generator, Knob, Shape, Values, Weights


class Law(NamedTuple):
    """A coefficient of variation: `at_one` x (experts / top-k) ^ `power`."""

    at_one: float
    power: float

    def at(self, sparsity: float) -> float:
        """Evaluate it, within the range of `LAWS`."""
        low, high = RANGE
        return float(self.at_one * min(max(sparsity, low), high) ** self.power)


class Laws(NamedTuple):
    """What recordings come to: laws of variation, and the memory of the drift.

    Attributes
    ----------
    popularity
        Of experts of a layer, averaged over iterations.
    drift
        Of an expert from iteration to iteration, all sources together.
    sequence
        Of an expert's share from sequence to sequence.
    memory
        Correlation of the drift with that of the iteration before.
    """

    popularity: Law
    drift: Law
    sequence: Law
    memory: float


FITTED = ("e8k2", "e32k4", "e256k8")
"""The shipped recordings that laws are fitted to: the ends of the range, and its middle."""
# Experts / top-k of these.
RANGE = (4.0, 32.0)
# python -m lightloom.trace.calibration
LAWS = Laws(Law(0.0499, 0.666), Law(0.0504, 0.420), Law(0.2910, 0.355), 0.874)

SPREAD = Knob("spread", "times the popularity's variation of the recordings", 1.0, 0, 100)
DRIFT = Knob("drift", "times the drift of the recordings", 1.0, 0, 10)
VARIETY = Knob("variety", "times the variation between sequences of the recordings", 1.0, 0, 10)
SEQUENCES = Knob("sequences", "of a source in an iteration; tokens of one are alike", 8, 1, 1 << 20)


def _weights(shape: Shape, values: Values, rng: np.random.Generator) -> Weights:
    iterations, layers, experts = shape.iterations, shape.layers, shape.experts
    sparsity = experts / shape.top_k
    popularity = LAWS.popularity.at(sparsity) * values["spread"]
    drift = LAWS.drift.at(sparsity) * values["drift"]
    sequence = LAWS.sequence.at(sparsity) * values["variety"] / np.sqrt(values["sequences"])

    base = _gamma(popularity, (layers, experts), rng)
    sigma = np.sqrt(np.log1p(drift**2))
    walk = np.empty((iterations, layers, experts))
    step = rng.standard_normal((iterations, layers, experts))
    walk[0] = step[0]
    for at in range(1, iterations):
        walk[at] = LAWS.memory * walk[at - 1] + np.sqrt(1 - LAWS.memory**2) * step[at]
    popular = base * np.exp(sigma * walk - sigma**2 / 2)

    weights: Weights = np.empty((iterations, layers, shape.sources, experts))
    for at, shares in zip(weights, popular, strict=True):
        at[:] = _gamma(sequence, at.shape, rng)
        at *= shares[:, None, :]
        at /= at.sum(axis=2, keepdims=True)
        # How often a token chooses each expert, and how far so many tokens scatter around that.
        chosen = np.clip(shape.top_k * at, 1e-12, 1.0)
        scatter = np.sqrt((1 - chosen) / (shape.tokens * chosen))
        at *= np.maximum(1 + scatter * rng.standard_normal(at.shape), 0.0)
        # Every source chooses k experts, whatever was drawn.
        np.maximum(at, 1e-12, out=at)
    return weights


def _gamma(
    variation: float, size: tuple[int, ...], rng: np.random.Generator
) -> npt.NDArray[np.float64]:
    """Draw factors of mean 1 with a coefficient of variation."""
    if variation == 0:
        return np.ones(size)
    form = variation**-2.0
    drawn: npt.NDArray[np.float64] = rng.standard_gamma(form, size) / form
    return np.maximum(drawn, 1e-12)


GENERATOR = Generator(
    "calibrated",
    "as recorded: w = a gamma variable for each layer and expert x a log-normal AR(1) drift over "
    "iterations x a gamma variable for each source, with variations that recordings have at this "
    "E / k, times the knobs; and what sampling T tokens scatters",
    _weights,
    (SPREAD, DRIFT, VARIETY, SEQUENCES),
    origin=f"generated, calibrated on {', '.join(FITTED)}",
)
