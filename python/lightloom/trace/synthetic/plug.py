"""What a generator of gating traces is: how it weighs the experts, and the knobs that it reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from lightloom.errors import InputError
from lightloom.trace.parquet_file import MAX_VALUES

Weights = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Values = Mapping[str, float]


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
class Knob:
    """A figure that a generator reads besides the shape.

    Attributes
    ----------
    name
        A flag of ``lightloom trace generate``; knobs of one name are of one type.
    text
        What it means, without the default.
    default
        Its value unless given; whole numbers only where this is one.
    low, high
        The least and the most.
    at_most
        Another knob that it must not exceed.
    """

    name: str
    text: str
    default: float
    low: float
    high: float
    at_most: str = ""


FACTOR = Knob("factor", "weight of the hot beside the others", 8.0, 1, 1_000_000)
HEAT = Knob("heat", "share of the tokens that are hot", 0.75, 0, 1)
EXPONENT = Knob("exponent", "0 is even", 1.0, 0, 100)


def same_tokens(shape: Shape, values: Values, rng: np.random.Generator) -> Ints:
    """Return the tokens of each source: the same for all."""
    return np.full(shape.sources, shape.tokens, dtype=np.int64)


@dataclass(frozen=True)
class Generator:
    """A kind of generator.

    Attributes
    ----------
    name
        As written.
    formula
        Its weights w, or its assignments A(s), in the words of ``docs/traces.md``.
    weights
        Weights w(iteration, layer, source, expert), any of them 1 long if it does not matter.
    knobs
        What it reads.
    tokens
        Tokens of each source; drawn after the weights.
    origin
        What traces, and Results, say of where they come from.
    """

    name: str
    formula: str
    weights: Callable[[Shape, Values, np.random.Generator], Weights]
    knobs: tuple[Knob, ...] = ()
    tokens: Callable[[Shape, Values, np.random.Generator], Ints] = same_tokens
    origin: str = "synthetic"


def even(shape: Shape, values: Values, rng: np.random.Generator) -> Weights:
    """Return the same weight for every expert."""
    return np.ones((1, 1, 1, shape.experts))


def one_hot(shape: Shape, hot: Ints, factor: float) -> Weights:
    """Return weights [iteration, layer, 1, expert]; hot is the expert, [iteration, layer]."""
    weights = np.where(np.arange(shape.experts) == hot[..., None], factor, 1.0)
    return weights[:, :, None, :]


def hot_set(shape: Shape, hot: Ints, heat: float | Weights) -> Weights:
    """Return what is expected if a share of the tokens choose among some experts only.

    Parameters
    ----------
    shape
        Of the trace.
    hot
        The experts, [iteration, layer, place]; one that is there twice counts once.
    heat
        The share, or one for each iteration and layer, [iteration, layer].

    Returns
    -------
    numpy.ndarray
        [iteration, layer, 1, expert], each iteration and layer sums to 1.
    """
    chosen = (hot[..., None] == np.arange(shape.experts)).any(axis=2)
    share = np.asarray(heat, dtype=np.float64)[..., None]
    weights: Weights = share * chosen / chosen.sum(axis=2, keepdims=True)
    weights = weights + (1 - share) / shape.experts
    return weights[:, :, None, :]
