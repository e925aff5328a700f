"""The gating trace that a job runs on: shipped, from a file, or generated for the job.

`builtin` is the shipped recording for the model's experts and top-k; where none is shipped, or its
source ranks cannot be summed into the job's, it is generated as `calibrated` on recordings, and
`unrecorded` says so. A generated
trace has the model's experts and MoE layers, and the job's expert-parallel ranks and seed; one
that is `calibrated` has the job's sequences of a micro-batch, too. Another fits if it was recorded
for as many experts as the model has, and its source ranks can be summed into the job's
expert-parallel ranks; nothing is ever stretched or wrapped around. A shorter trace (fewer layers)
fits: the workload reuses its layers and says so.
Checked: each refusal, and that whoever has `place_of` a trace reads the same one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from lightloom.errors import InputError

if TYPE_CHECKING:
    from lightloom.scenario import Scenario
    from lightloom.trace import GatingTrace
    from lightloom.trace.synthetic import Shape

# Of the trace of a model without experts: it holds one count, and no layer draws from it.
_NO_EXPERTS = dict.fromkeys(("experts", "sources", "top_k", "layers", "iterations", "seed"), 1)
STAND_IN = "calibrated"
"""The kind of generated trace that a job gets if no recording is shipped for its shape."""
ITERATIONS = 8
"""Of a trace that is generated for a job; micro-batches draw among them."""


def load_trace(scenario: Scenario) -> GatingTrace:
    """Load the trace that a scenario names, and refuse one that does not fit.

    Raises
    ------
    InputError
        If the trace named does not fit; the message says how to get one that does.
    """
    model, ep, name = scenario.model, scenario.parallelism.ep, scenario.gating.trace
    place = place_of(scenario)
    try:
        trace = load(place)
    except InputError as error:
        raise InputError(f"{scenario.title}: {error}" if "shape" in place else str(error)) from None
    if not model.experts:
        return trace
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


def place_of(scenario: Scenario) -> dict[str, Any]:
    """Return where the trace of a scenario is to be had, as data that `load` reads.

    Raises
    ------
    InputError
        If knobs are given of a trace that is not generated.

    Examples
    --------
    >>> from lightloom import Scenario
    >>> job = Scenario.preset("mixtral-8x7b")
    >>> place_of(job)
    {'trace': 'e8k2'}
    >>> place_of(job.with_(gating={"trace": "hot-rank", "knobs": {"factor": 4}}))["knobs"]
    {'factor': 4.0}
    >>> place_of(Scenario.preset("glm-4.5"))["knobs"]
    {'sequences': 8.0}
    """
    from lightloom.trace.synthetic import KINDS

    model, gating = scenario.model, scenario.gating
    name, knobs = gating.trace, dict(sorted(gating.knobs.items()))
    if not model.experts:
        return {"trace": "uniform", "shape": _NO_EXPERTS, "knobs": {}}
    if name in KINDS or (unrecorded(scenario) and not knobs):
        shape = {
            "experts": model.experts,
            "sources": scenario.parallelism.ep,
            "top_k": model.top_k,
            "layers": model.moe_layers,
            "iterations": ITERATIONS,
            "seed": scenario.seed,
        }
        kind = name if name in KINDS else STAND_IN
        if kind == STAND_IN:
            knobs = {"sequences": float(scenario.training.micro_batch)} | knobs
        return {"trace": kind, "shape": shape, "knobs": knobs}
    if knobs:
        raise InputError(
            f'{scenario.title}: gating.knobs.{next(iter(knobs))}: gating.trace = "{name}" is not '
            f"generated; allowed: a trace of {', '.join(KINDS)}"
        )
    if name == "builtin":
        return {"trace": _recording(scenario)}
    return {"trace": os.path.abspath(name) if os.path.exists(name) else name}


def unrecorded(scenario: Scenario) -> str | None:
    """Say that no recording fits a job that asks for a shipped one: its loads are generated.

    Examples
    --------
    >>> from lightloom import Scenario
    >>> unrecorded(Scenario.preset("mixtral-8x7b"))
    >>> unrecorded(Scenario.preset("glm-4.5"))  # doctest: +ELLIPSIS
    'no recorded gates are shipped for 160 experts, top-8: loads are generated, calibrated on ...
    >>> wide = {"tp": 1, "ep": 64, "pp": 2}
    >>> job = Scenario.preset("qwen3-30b-a3b", gpus=256, parallelism=wide)
    >>> unrecorded(job)  # doctest: +ELLIPSIS
    'the recorded gates of 128 experts, top-8, have 32 source ranks, no multiple of ...
    """
    from lightloom.trace import builtin_names
    from lightloom.trace.synthetic.calibrated import FITTED

    model = scenario.model
    if scenario.gating.trace != "builtin" or not model.experts:
        return None
    missing = f"no recorded gates are shipped for {model.experts} experts, top-{model.top_k}"
    if (name := _recording(scenario)) in builtin_names():
        sources, ep = load({"trace": name}).sources, scenario.parallelism.ep
        if not sources % ep:
            return None
        missing = (
            f"the recorded gates of {model.experts} experts, top-{model.top_k}, have {sources} "
            f"source ranks, no multiple of parallelism.ep = {ep}"
        )
    return (
        f"{missing}: loads are generated, calibrated on recordings of other shapes "
        f"({', '.join(FITTED)}); gating.trace chooses another"
    )


def _recording(scenario: Scenario) -> str:
    return f"e{scenario.model.experts}k{scenario.model.top_k}"


def load(place: Mapping[str, Any]) -> GatingTrace:
    """Load or generate the trace of a `place_of`; the last few are remembered."""
    if "shape" in place:
        from lightloom.trace.synthetic import Shape

        knobs = tuple(place["knobs"].items())
        return _generated(place["trace"], Shape(**place["shape"]), knobs)
    return _read(place["trace"], _mark(place["trace"]))


@lru_cache(maxsize=4)
def _generated(kind: str, shape: Shape, knobs: tuple[tuple[str, float], ...]) -> GatingTrace:
    from lightloom.trace.synthetic import generate

    return generate(kind, shape, dict(knobs), key="gating.knobs.{} =")


@lru_cache(maxsize=4)
def _read(name: str, _mark: tuple[int, ...] | None) -> GatingTrace:
    from lightloom.trace import GatingTrace

    return GatingTrace.load(name)


def _mark(name: str) -> tuple[int, ...] | None:
    """Return what changes with a file; of a shipped trace nothing does."""
    try:
        status = os.stat(name)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size


def _how_to(scenario: Scenario) -> str:
    model = scenario.model
    return (
        f"lightloom trace record --experts {model.experts} --top-k {model.top_k} "
        f"--sources {scenario.parallelism.ep} makes one, and so does lightloom trace generate"
    )
