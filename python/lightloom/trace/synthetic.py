"""Gating traces made from a formula: known skew for tests and what-if questions.

Modelled: S sources, E experts, T tokens a source and step, k experts a token. A kind gives every
source s its assignments A(s) (T x k unless it says otherwise) and every expert e a weight w(s, e).
The counts are A(s) x w(s, e) / sum of w, except that no expert gets more than A(s) / k (a token
chooses an expert at most once): what is above goes to the others in proportion. Rounding is by
largest remainder, so that rows sum exactly; the seed only decides who is hot.

======================  ===========================================================================
kind                    formula
======================  ===========================================================================
``uniform``             w = 1
``zipf-sender``         A(s) = S T k x r(s)^-exponent / sum of r^-exponent, in whole tokens, at
                        least one each; r: a random order of the sources; w = 1
``zipf-receiver``       w = r(e)^-exponent; r: a random order of the experts, one a layer
``sparse``              w = 1 for max(k, round((1 - sparsity) E)) experts, 0 for the others; drawn
                        for each iteration, layer and source
``rotating-hotspot``    w = factor for expert (h + iteration // period) mod E, 1 for the others; h
                        drawn a layer
``burst``               w = 1, but in the first `length` iterations of every `period` w = factor
                        for one expert, drawn for each burst and layer
``hot-rank``            w = factor for the experts of one rank (rank x E // S and the E // S - 1
                        after it), 1 for the others; the rank is drawn once
``zero-load``           w = 0 for min(E - k, round(idle x E)) experts, 1 for the others; drawn a
                        layer
======================  ===========================================================================

Ignored: sampling noise. Checked: each formula against counts by hand and by property
(``tests/test_trace_synthetic.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from lightloom import __version__
from lightloom.errors import InputError
from lightloom.trace.gating_trace import GatingTrace
from lightloom.trace.parquet_file import MAX_VALUES

Weights = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Shape:
    """What every kind has; the names are flags of ``lightloom trace generate``.

    Attributes
    ----------
    experts, sources, top_k, layers, iterations
        Of the trace.
    tokens
        Of one source rank in one iteration, before each chooses `top_k` experts.
    seed
        Decides which ranks or experts are hot.
    """

    experts: int = 8
    sources: int = 8
    top_k: int = 2
    layers: int = 8
    iterations: int = 20
    tokens: int = 4096
    seed: int = 1

    def __post_init__(self) -> None:
        """Refuse what is not a trace."""
        for item in fields(self):
            value = getattr(self, item.name)
            low, high = (0, 1 << 63) if item.name == "seed" else (1, 1 << 20)
            if not low <= value <= high:
                flag = item.name.replace("_", "-")
                raise InputError(f"--{flag} {value}: must be {low} to {high}")
        if self.top_k > self.experts:
            raise InputError(f"--top-k {self.top_k}: must be at most --experts {self.experts}")
        size = self.iterations * self.layers * self.sources * self.experts
        if size > MAX_VALUES:
            raise InputError(f"a trace of {size} counts: must be at most {MAX_VALUES}")


@dataclass(frozen=True)
class Knobs:
    """What some kinds read; giving one to a kind that does not read it is an error.

    Attributes
    ----------
    exponent
        Zipf's, at least 0 (0: even); 1.0 if not given.
    sparsity
        Share of the experts that a source does not reach, 0 to 1; 0.5 if not given.
    factor
        Weight of a hot expert beside an ordinary one, at least 1; 8.0 if not given.
    period
        Iterations until the hotspot moves (1 if not given), or from burst to burst (10).
    length
        Iterations of a burst, at most the period; 2 if not given.
    idle
        Share of the experts without load, 0 to 1; 0.25 if not given.
    """

    exponent: float | None = None
    sparsity: float | None = None
    factor: float | None = None
    period: int | None = None
    length: int | None = None
    idle: float | None = None


DEFAULTS: dict[str, dict[str, float]] = {
    "uniform": {},
    "zipf-sender": {"exponent": 1.0},
    "zipf-receiver": {"exponent": 1.0},
    "sparse": {"sparsity": 0.5},
    "rotating-hotspot": {"factor": 8.0, "period": 1},
    "burst": {"factor": 8.0, "period": 10, "length": 2},
    "hot-rank": {"factor": 8.0},
    "zero-load": {"idle": 0.25},
}
KINDS = tuple(DEFAULTS)
_RANGE = {
    "exponent": (0, 100),
    "sparsity": (0, 1),
    "factor": (1, 1_000_000),
    "period": (1, 1 << 20),
    "length": (1, 1 << 20),
    "idle": (0, 1),
}


def generate(kind: str, shape: Shape | None = None, knobs: Knobs | None = None) -> GatingTrace:
    """Make a trace of one of the kinds that the module lists.

    Parameters
    ----------
    kind
        One of `KINDS`.
    shape
        Size and seed.
    knobs
        What the kind reads.

    Raises
    ------
    InputError
        If there is no such kind, or it does not read a knob that is given, or a value is out of
        range.

    Examples
    --------
    >>> trace = generate("zero-load", Shape(experts=4, sources=2, tokens=6), Knobs(idle=0.5))
    >>> sorted(trace.counts[0, 0, 0].tolist())
    [0, 0, 6, 6]
    """
    shape = shape or Shape()
    values = _values(kind, knobs or Knobs())
    rng = np.random.default_rng(shape.seed)
    weights = _WEIGHTS[kind](shape, values, rng)
    tokens = np.full(shape.sources, shape.tokens, dtype=np.int64)
    if kind == "zipf-sender":
        rank = rng.permutation(shape.sources) + 1
        share: Weights = rank.astype(np.float64) ** -values["exponent"]
        # One token each first: a source without any would not be a rank of the job.
        tokens = 1 + apportion(share[None], np.array([shape.sources * (shape.tokens - 1)]))[0]
    full = np.broadcast_to(
        weights, (shape.iterations, shape.layers, shape.sources, shape.experts)
    ).reshape(-1, shape.experts)
    each = np.tile(tokens, shape.iterations * shape.layers)
    counts = apportion(full, each * shape.top_k, each)
    return GatingTrace(
        counts.reshape(shape.iterations, shape.layers, shape.sources, shape.experts),
        shape.top_k,
        _meta(kind, shape, values),
    )


def apportion(weights: Weights, totals: Ints, caps: Ints | None = None) -> Ints:
    """Share out whole totals by weight, nobody above the cap; rows sum exactly.

    Parameters
    ----------
    weights
        Not negative, [row, column].
    totals
        What to share out, [row].
    caps
        The most for one column, [row]; the columns with a weight must be able to hold the total.

    Returns
    -------
    numpy.ndarray
        int64 [row, column]. Remainders go to the largest fractions, the first column at a tie.

    Examples
    --------
    >>> apportion(np.array([[3.0, 1.0, 1.0]]), np.array([7]), np.array([3])).tolist()
    [[3, 2, 2]]
    """
    limits = (totals if caps is None else caps)[:, None].astype(np.float64)
    shares = np.zeros_like(weights, dtype=np.float64)
    capped = np.zeros(weights.shape, dtype=bool)
    while True:
        left = totals - (capped * limits).sum(axis=1)
        free = np.where(capped, 0.0, weights)
        sums = free.sum(axis=1)
        scale = np.divide(left, sums, out=np.zeros_like(sums), where=sums > 0)
        shares = np.where(capped, limits, free * scale[:, None])
        over = (shares > limits) & ~capped
        if not over.any():
            break
        capped |= over
    whole = np.floor(shares).astype(np.int64)
    rest = np.asarray(totals - whole.sum(axis=1))
    # Only a column below its cap and with a weight may take a remainder.
    room = (weights > 0) & (whole < limits)
    order = np.argsort(np.where(room, whole - shares, 1.0), axis=1, kind="stable")
    position = np.empty_like(order)
    np.put_along_axis(position, order, np.arange(weights.shape[1])[None], axis=1)
    return whole + (position < rest[:, None])


def _values(kind: str, knobs: Knobs) -> dict[str, float]:
    if kind not in DEFAULTS:
        raise InputError(f"kind {kind!r}: must be one of {', '.join(KINDS)}")
    values = dict(DEFAULTS[kind])
    for item in fields(knobs):
        value = getattr(knobs, item.name)
        if value is None:
            continue
        if item.name not in values:
            read = ", ".join(f"--{name}" for name in values) or "nothing but the shape"
            raise InputError(f"--{item.name} {value}: {kind} reads {read}")
        low, high = _RANGE[item.name]
        if not low <= value <= high:
            raise InputError(f"--{item.name} {value}: must be {low} to {high}")
        values[item.name] = value
    if values.get("length", 0) > values.get("period", values.get("length", 0)):
        raise InputError(
            f"--length {values['length']}: must be at most --period {values['period']}"
        )
    return values


def _even(shape: Shape, values: dict[str, float], rng: np.random.Generator) -> Weights:
    return np.ones((1, 1, 1, shape.experts))


def _zipf_receiver(shape: Shape, values: dict[str, float], rng: np.random.Generator) -> Weights:
    rank = np.stack([rng.permutation(shape.experts) + 1.0 for _ in range(shape.layers)])
    weights: Weights = (rank ** -values["exponent"])[None, :, None, :]
    return weights


def _sparse(shape: Shape, values: dict[str, float], rng: np.random.Generator) -> Weights:
    reached = max(shape.top_k, round((1 - values["sparsity"]) * shape.experts))
    draw = rng.random((shape.iterations, shape.layers, shape.sources, shape.experts))
    weights: Weights = (draw.argsort(axis=-1).argsort(axis=-1) < reached).astype(np.float64)
    return weights


def _rotating(shape: Shape, values: dict[str, float], rng: np.random.Generator) -> Weights:
    first = rng.integers(shape.experts, size=shape.layers)
    turn = np.arange(shape.iterations) // int(values["period"])
    hot = (first[None, :] + turn[:, None]) % shape.experts
    return _one_hot(shape, hot, values["factor"])


def _burst(shape: Shape, values: dict[str, float], rng: np.random.Generator) -> Weights:
    number, within = np.divmod(np.arange(shape.iterations), int(values["period"]))
    hot = rng.integers(shape.experts, size=(int(number[-1]) + 1, shape.layers))[number]
    weights = _one_hot(shape, hot, values["factor"])
    weights[within >= values["length"]] = 1.0
    return weights


def _hot_rank(shape: Shape, values: dict[str, float], rng: np.random.Generator) -> Weights:
    first = int(rng.integers(shape.sources)) * shape.experts // shape.sources
    weights = _even(shape, values, rng)
    weights[..., first : first + max(1, shape.experts // shape.sources)] = values["factor"]
    return weights


def _zero_load(shape: Shape, values: dict[str, float], rng: np.random.Generator) -> Weights:
    idle = min(shape.experts - shape.top_k, round(values["idle"] * shape.experts))
    rank = np.stack([rng.permutation(shape.experts) for _ in range(shape.layers)])
    weights: Weights = (rank >= idle).astype(np.float64)[None, :, None, :]
    return weights


def _one_hot(shape: Shape, hot: Ints, factor: float) -> Weights:
    """Return weights [iteration, layer, 1, expert]; hot is the expert, [iteration, layer]."""
    weights = np.where(np.arange(shape.experts) == hot[..., None], factor, 1.0)
    return weights[:, :, None, :]


_WEIGHTS: dict[str, Callable[[Shape, dict[str, float], np.random.Generator], Weights]] = {
    "uniform": _even,
    "zipf-sender": _even,
    "zipf-receiver": _zipf_receiver,
    "sparse": _sparse,
    "rotating-hotspot": _rotating,
    "burst": _burst,
    "hot-rank": _hot_rank,
    "zero-load": _zero_load,
}


def _meta(kind: str, shape: Shape, values: dict[str, float]) -> dict[str, Any]:
    flags = {item.name: getattr(shape, item.name) for item in fields(shape)} | values
    words = [f"--{name.replace('_', '-')} {value}" for name, value in flags.items()]
    return {
        "origin": "synthetic",
        "command": f"lightloom trace generate {kind} {' '.join(words)}",
        "kind": kind,
        "seed": shape.seed,
        "tokens_per_source": shape.tokens,
        "sources": "as the formula says",
        "lightloom": __version__,
    }
