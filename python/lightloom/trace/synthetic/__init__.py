"""Gating traces made from a formula: known skew for tests and what-if questions.

Modelled: S sources, E experts, T tokens a source and step, k experts a token. A kind gives every
source s its assignments A(s) (T x k unless it says otherwise) and every expert e a weight w(s, e).
The counts are A(s) x w(s, e) / sum of w, except that no expert gets more than A(s) / k (a token
chooses an expert at most once): what is above goes to the others in proportion. Rounding is by
largest remainder, so that rows sum exactly; the seed only decides who is hot. A kind is a file
beside this one, which says its formula, and a line in the list.

Ignored: sampling noise. Checked: each formula against counts by hand and by property
(``tests/test_trace_synthetic.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from importlib import import_module
from typing import Any

import numpy as np

from lightloom import __version__
from lightloom.errors import InputError
from lightloom.presets import guess
from lightloom.trace.gating_trace import GatingTrace
from lightloom.trace.synthetic.apportion import apportion
from lightloom.trace.synthetic.plug import Generator, Shape, Values

__all__ = ["GENERATORS", "KINDS", "Generator", "Knobs", "Shape", "apportion", "generate"]

_FILES = (
    "uniform",
    "zipf_sender",
    "zipf_receiver",
    "hot_experts",
    "moving_load",
    "sparse",
    "pair_skew",
    "rotating_hotspot",
    "burst",
    "hot_rank",
    "zero_load",
    "megatron",
    "calibrated",
)
_LISTED: list[Generator] = [import_module(f"{__name__}.{file}").GENERATOR for file in _FILES]
GENERATORS: Mapping[str, Generator] = {generator.name: generator for generator in _LISTED}
KINDS = tuple(GENERATORS)


class Knobs(dict[str, float]):
    """Knobs by name, such as ``Knobs(factor=4.0)``; one that the kind does not read is an error."""


def generate(
    kind: str, shape: Shape | None = None, knobs: Values | None = None, *, key: str = "--{}"
) -> GatingTrace:
    """Make a trace of one of the kinds.

    Parameters
    ----------
    kind
        One of `KINDS`.
    shape
        Size and seed.
    knobs
        What the kind reads.
    key
        How messages spell a knob's name.

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
    values = _values(kind, knobs or {}, key)
    rng = np.random.default_rng(shape.seed)
    weights = GENERATORS[kind].weights(shape, values, rng)
    tokens = GENERATORS[kind].tokens(shape, values, rng)
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


def _values(kind: str, knobs: Values, key: str) -> dict[str, float]:
    if kind not in GENERATORS:
        raise InputError(f"kind {kind!r}: must be one of {', '.join(KINDS)}{guess(kind, KINDS)}")
    spelled = key.format
    read = {knob.name: knob for knob in GENERATORS[kind].knobs}
    values = {name: knob.default for name, knob in read.items()}
    for name, value in knobs.items():
        if name not in read:
            allowed = ", ".join(map(spelled, read)) or "nothing but the shape"
            raise InputError(f"{spelled(name)} {value}: {kind} reads {allowed}")
        if not read[name].low <= value <= read[name].high:
            low, high = read[name].low, read[name].high
            raise InputError(f"{spelled(name)} {value}: must be {low} to {high}")
        values[name] = value
    for name, knob in read.items():
        if knob.at_most and values[name] > values[knob.at_most]:
            most = f"{spelled(knob.at_most)} {values[knob.at_most]}"
            raise InputError(f"{spelled(name)} {values[name]}: must be at most {most}")
    return values


def _meta(kind: str, shape: Shape, values: Values) -> dict[str, Any]:
    flags = {item.name: getattr(shape, item.name) for item in fields(shape)} | dict(values)
    words = [f"--{name.replace('_', '-')} {value}" for name, value in flags.items()]
    return {
        "origin": GENERATORS[kind].origin,
        "command": f"lightloom trace generate {kind} {' '.join(words)}",
        "kind": kind,
        "seed": shape.seed,
        "tokens_per_source": shape.tokens,
        "sources": "as the formula says",
        "lightloom": __version__,
    }
