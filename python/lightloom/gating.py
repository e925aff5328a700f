"""The gating trace that a job runs on.

A trace is shipped, a file, or generated for the job: of its experts, its MoE layers, its
expert-parallel ranks and its seed. A trace fits if it was recorded for as many experts as the model has, and its source ranks can be
summed into the job's expert-parallel ranks; nothing is ever stretched or wrapped around. A shorter
trace (fewer layers) fits: the workload reuses its layers and says so. Checked: each refusal.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING

from lightloom.errors import InputError

if TYPE_CHECKING:
    from lightloom.scenario import Scenario
    from lightloom.trace import GatingTrace
    from lightloom.trace.synthetic import Shape

ITERATIONS = 8
"""Of a trace that is generated for a job; micro-batches draw among them."""


def load_trace(scenario: Scenario) -> GatingTrace:
    """Load the trace that a scenario names, and refuse one that does not fit.

    Raises
    ------
    InputError
        If there is no trace for the model's experts and top-k, or the trace named does not fit;
        the message says how to get one that does.
    """
    from lightloom.trace.synthetic import KINDS

    model, ep, name = scenario.model, scenario.parallelism.ep, scenario.gating.trace
    if name in KINDS:
        return _generated(scenario)
    if scenario.gating.knobs:
        knob = next(iter(scenario.gating.knobs))
        raise InputError(
            f'{scenario.title}: gating.knobs.{knob}: gating.trace = "{name}" is not generated; '
            f"allowed: a trace of {', '.join(KINDS)}"
        )
    named = source(scenario)
    trace = _loaded(named, _mark(named))
    if trace.experts != model.experts:
        raise InputError(
            f'{scenario.title}: gating.trace = "{name}": has {trace.experts} experts; must have '
            f"model.experts = {model.experts}: {_how_to(scenario)}"
        )
    if trace.sources % ep:
        raise InputError(
            f'{scenario.title}: gating.trace = "{name}": has {trace.sources} source ranks; must be '
            f"a multiple of parallelism.ep = {ep}: {_how_to(scenario)}"
        )
    return trace


def _generated(scenario: Scenario) -> GatingTrace:
    from lightloom.trace.synthetic import Shape

    model, gating = scenario.model, scenario.gating
    shape = Shape(
        experts=model.experts,
        sources=scenario.parallelism.ep,
        top_k=model.top_k,
        layers=model.layers - model.dense_layers,
        iterations=ITERATIONS,
        seed=scenario.seed,
    )
    try:
        return _made(gating.trace, shape, tuple(sorted(gating.knobs.items())))
    except InputError as error:
        raise InputError(f"{scenario.title}: {error}") from None


@lru_cache(maxsize=4)
def _made(kind: str, shape: Shape, knobs: tuple[tuple[str, float], ...]) -> GatingTrace:
    """Generate a trace, but not again for the next points of a sweep."""
    from lightloom.trace.synthetic import generate

    return generate(kind, shape, dict(knobs), key="gating.knobs.{} =")


def source(scenario: Scenario) -> str:
    """Return the name of a shipped trace, the path of a file, or the kind of a generated trace.

    >>> from lightloom import Scenario
    >>> source(Scenario.preset("mixtral-8x7b"))
    'e8k2'
    """
    from lightloom.trace import find_builtin

    if scenario.gating.trace == "builtin":
        return find_builtin(scenario.model.experts, scenario.model.top_k).stem
    return scenario.gating.trace


def _mark(source: str) -> tuple[int, ...] | None:
    """Return what changes with a file; of a shipped trace nothing does."""
    try:
        status = os.stat(source)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size


@lru_cache(maxsize=4)
def _loaded(source: str, _mark: tuple[int, ...] | None) -> GatingTrace:
    """Load a trace, but not again for the next points of a sweep."""
    from lightloom.trace import GatingTrace

    return GatingTrace.load(source)


def _how_to(scenario: Scenario) -> str:
    model = scenario.model
    return (
        f"lightloom trace record --experts {model.experts} --top-k {model.top_k} "
        f"--sources {scenario.parallelism.ep} makes one, and so does lightloom trace generate"
    )
