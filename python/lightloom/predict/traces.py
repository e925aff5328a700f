"""Traces for predictors, by one text: a shipped name, a file of any kind, or a formula.

``synthetic:KIND`` is a kind of `lightloom.trace.synthetic`, 60 iterations of its default shape.
``synthetic:drift`` is made here: every source's tokens walk from expert to expert by one transition
matrix a layer, which turns slowly into another one. It is what Copilot assumes, with noise: a check
that it works, and no claim about gates.

Examples
--------
>>> open_trace("synthetic:drift").counts.shape
(120, 6, 8, 8)
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lightloom.errors import InputError
from lightloom.trace import KINDS, GatingTrace, Options, Shape, generate, import_trace

SYNTHETIC = "synthetic:"
_ITERATIONS = 60


def open_trace(name: str) -> GatingTrace:
    """Return the trace that `name` means.

    Raises
    ------
    InputError
        If there is none; the message says what is allowed.
    """
    if name.startswith(SYNTHETIC):
        kind = name.removeprefix(SYNTHETIC)
        if kind == "drift":
            return drift()
        if kind not in KINDS:
            raise InputError(f"{name}: must be {SYNTHETIC}drift or {SYNTHETIC}one of {_kinds()}")
        return generate(kind, Shape(iterations=_ITERATIONS))
    if Path(name).suffix.lower() in {".csv", ".npz"}:
        return import_trace(name, options=Options())
    return GatingTrace.load(name)


def _kinds() -> str:
    return ", ".join(KINDS)


def drift(
    experts: int = 8,
    sources: int = 8,
    layers: int = 6,
    iterations: int = 120,
    tokens: int = 4096,
    seed: int = 1,
) -> GatingTrace:
    """Return a trace whose layers follow each other by slowly turning transition matrices.

    Parameters
    ----------
    experts, sources, layers, iterations
        Its shape.
    tokens
        Tokens of a source and iteration; each chooses one expert.
    seed
        Of the matrices and the draws.

    Examples
    --------
    >>> trace = drift(iterations=3)
    >>> int(trace.counts[0, 0, 0].sum()), trace.top_k
    (4096, 1)
    """
    rng = np.random.default_rng(seed)
    # A few destinations for each expert, others for the matrix at the end.
    first, last = rng.dirichlet(np.full(experts, 0.2), size=(2, layers, experts))
    habits = rng.dirichlet(np.full(experts, 2.0), size=sources)
    counts = np.zeros((iterations, layers, sources, experts), np.uint32)
    for iteration in range(iterations):
        turned = iteration / max(1, iterations - 1)
        matrix = (1 - turned) * first + turned * last
        for source in range(sources):
            mood = 0.5 * habits[source] + 0.5 * rng.dirichlet(np.full(experts, 1.0))
            here = rng.multinomial(tokens, mood)
            for layer in range(layers):
                if layer:
                    moved = [rng.multinomial(n, matrix[layer, e]) for e, n in enumerate(here)]
                    here = np.sum(moved, axis=0)
                counts[iteration, layer, source] = here
    meta: dict[str, str | int | float | bool] = {
        "origin": "synthetic",
        "command": f"lightloom predict evaluate {SYNTHETIC}drift",
        "kind": "drift",
        "seed": seed,
        "sources": "as the formula says",
    }
    return GatingTrace(counts, 1, meta)
