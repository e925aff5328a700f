"""What the GPUs of a job hold, and whether a job fits.

`crates/workload/src/memory.rs` counts; here a job is given to it, and what does not fit is told
with its largest parts and with what would make it fit. Where the memory of a GPU is not known
(``compute.memory``), nothing is checked. Checked: published measurements in ``docs/data``,
PyTorch's own tensors in ``tests/pytorch``, ``tests/test_memory.py``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lightloom import _core
from lightloom.model import Misfit
from lightloom.sections import block_size

if TYPE_CHECKING:
    from lightloom.scenario import Scenario

GIB = 1 << 30
# What components are called in messages and tables.
NAMES = {
    "weights": "weights",
    "gradients": "gradients",
    "optimizer": "optimizer",
    "layer_inputs": "layers' inputs",
    "norms": "norms",
    "attention": "attention",
    "mlp": "MLPs",
    "experts": "experts",
    "router": "router",
    "head": "head",
    "all_to_all": "all-to-alls",
    "working": "working memory",
    "cache": "keys and values",
    "overhead": "overhead",
}


class RefusedError(ValueError):
    """The core does not count a job's memory: it refuses the job, with a key and a reason."""


@dataclass(frozen=True)
class Stage:
    """What a GPU of a stage holds at the fullest moment [B]."""

    stage: int
    in_flight: int
    """Chunks of layers whose activations it holds, a micro-batch each."""
    total: int
    parts: Mapping[str, int]
    """By component, those of `NAMES`."""


@dataclass(frozen=True)
class Held:
    """What the GPUs of a job hold.

    Examples
    --------
    >>> from lightloom import Scenario
    >>> found = held(Scenario.preset("mixtral-8x7b", gpus=128))
    >>> found.recompute, found.fits, len(found.stages)
    ('full', True, 4)
    """

    recompute: str
    """What is computed anew; where the job leaves that open, the least that fits."""
    fits: bool
    """Whether it fits; true where the memory of a GPU is not known."""
    capacity: int | None
    """Memory of a GPU [B], if it is known."""
    fullest: Stage
    stages: tuple[Stage, ...]


def held(scenario: Scenario, recompute: str | None = None) -> Held:
    """Return what the GPUs of a job hold, if `recompute` is computed anew [as the job says].

    Raises
    ------
    RefusedError
        If the core refuses the job.
    """
    core = core_form(scenario)
    if recompute is not None:
        core["training"]["recompute"] = recompute
    return held_in(core)


def misfits(scenario: Scenario) -> Iterator[Misfit]:
    """Yield what does not fit in the memory of a GPU, unless that is allowed."""
    try:
        found = None if scenario.memory.oversize == "allow" else _checked(scenario)
    except RefusedError as error:
        # Nothing runs that was not counted: what the core refuses here is an error, not a pass.
        key, _, reason = str(error).partition(": ")
        yield key.partition(" = ")[0], reason or str(error)
        return
    if found is None:
        return
    if found.fits:
        return
    cures = " or ".join(_cures(scenario)) or "no one change of recompute, micro-batch or split"
    yield (
        "compute.memory",
        f"{shortage(found, scenario)}; what would fit: {cures}; or --allow-oversize "
        '(memory.oversize = "allow")',
    )


def warnings(scenario: Scenario) -> Iterator[str]:
    """Yield that a job does not fit, where that is allowed."""
    found = _checked(scenario)
    if found is not None and not found.fits:
        yield f"the job is oversize: {shortage(found, scenario)}"


def notes(scenario: Scenario) -> Iterator[str]:
    """Yield with what a job fits that takes no time in its run."""
    found = _checked(scenario)
    untimed = scenario.training.recompute == "untimed"
    if found is not None and found.capacity and found.fits and untimed:
        if found.recompute == "none":
            return
        needed = held(scenario, "none").fullest.total
        yield (
            f'the job fits with training.recompute = "{found.recompute}" '
            f"({found.fullest.total / GIB:.1f} of {found.capacity / GIB:.1f} GiB; without, "
            f"{needed / GIB:.1f} GiB); its time is not counted"
        )


def _checked(scenario: Scenario) -> Held | None:
    """Return what a job's GPUs hold, if there is something to compare it with."""
    return None if scenario.compute.memory is None else held(scenario)


def shortage(found: Held, scenario: Scenario) -> str:
    """Say what a job needs, and of what most."""
    at = found.fullest
    largest = sorted(at.parts.items(), key=lambda item: -item[1])[:3]
    parts = ", ".join(f"{NAMES[name]} {size / GIB:.1f}" for name, size in largest if size)
    trains = scenario.training.mode == "train"
    anew = f' with training.recompute = "{found.recompute}"' if trains else ""
    return (
        f"stage {at.stage} of {len(found.stages)} needs {at.total / GIB:.1f} GiB a GPU{anew} "
        f"({parts})"
    )


def core_form(scenario: Scenario) -> dict[str, Any]:
    """Return of `Scenario.to_core` what memory depends on."""
    by_alias: dict[str, Any] = {"mode": "json", "by_alias": True}
    compute = scenario.compute.model_copy(update={"measured": (), "matmul": (), "attention": ()})
    parallelism = scenario.parallelism.model_dump(**by_alias)
    training = scenario.training.model_dump(**by_alias)
    training["sequence_parallel"] = parallelism.pop("sequence_parallel")
    memory = scenario.memory.model_dump(**by_alias)
    del memory["oversize"]
    memory["swiglu_bytes"] = memory["swiglu_bytes"] or 0
    plain = compute.to_core(compute.model_dump(**by_alias))
    if "products" in plain:
        plain["products"]["efficiency"] = "share"  # which needs no times
    return {
        "model": scenario.model.to_core(),
        "parallelism": {**parallelism, "dp": scenario.dp},
        "training": training,
        "compute": plain,
        "memory": {**memory, "capacity_bytes": int(scenario.compute.memory or 0)},
    }


def held_in(core: Mapping[str, Any]) -> Held:
    """Return what the GPUs of a job hold, as `core_form` has it; RefusedError if it is none."""
    asked = json.dumps(core)
    try:
        text = _core.job_memory(asked)
    except ValueError as error:
        raise RefusedError(str(error)) from None
    answer = json.loads(text)
    stages = tuple(Stage(**stage) for stage in answer["stages"])
    capacity = core["memory"]["capacity_bytes"] or None
    fullest = stages[answer["fullest"]]
    return Held(answer["recompute"], answer["fits"], capacity, fullest, stages)


def _cures(scenario: Scenario) -> Iterator[str]:
    """Yield what makes the job fit: the least of each change alone, or with whole layers anew."""
    core, gpus = core_form(scenario), scenario.cluster.gpus
    alone = [text for text in (_least(core, gpus, key) for key in _CHANGES) if text]
    if alone:
        yield from alone
        return
    training = {**core["training"], "micro_batch": 1}
    name = "training.micro_batch = 1"
    whole = training["recompute"] in ("full", "untimed")  # which may be all that is possible
    if not whole and training["mode"] == "train" and training["overlap"] == "none":
        training["recompute"] = "full"
        name = f'training.recompute = "full", {name}'
    small = {**core, "training": training}
    if _fits(small):
        yield name
        return
    for key in ("pp", "tp", "ep"):
        if text := _least(small, gpus, key):
            yield f"{name}, {text}"


# Changes that are tried: recomputation, smaller micro-batches, finer splits.
_CHANGES = ("recompute", "micro_batch", "shard", "pp", "tp", "ep")


def _least(core: Mapping[str, Any], gpus: int, key: str) -> str | None:
    """Return the least change of a key that makes the job fit, as text."""
    training, split = core["training"], core["parallelism"]
    if key == "recompute":
        for value in {"none": ("selective", "full"), "selective": ("full",)}.get(
            training["recompute"], ()
        ):
            if _fits({**core, "training": {**training, "recompute": value}}):
                return f'training.recompute = "{value}"'
        return None
    if key == "micro_batch":
        size = training["micro_batch"]
        while size > 1:
            size //= 2
            if _fits({**core, "training": {**training, "micro_batch": size}}):
                return f"training.micro_batch = {size}"
        return None
    if key == "shard":
        if core["memory"]["shard"] == "full" or training["mode"] != "train":
            return None
        whole = {**core, "memory": {**core["memory"], "shard": "full"}}
        return 'memory.shard = "full"' if _fits(whole) else None
    degree = split[key]
    for _ in range(10):
        degree *= 2
        block = {**split, key: degree}
        names = ("tp", "cp", "ep", "etp")
        job = block_size(*(block[name] for name in names)) * block["pp"]
        enough = -(-gpus // job) * job
        finer = {**core, "parallelism": {**block, "dp": enough // job}}
        if _fits(finer):
            more = "" if enough == gpus else f" on cluster.gpus = {enough}"
            return f"parallelism.{key} = {degree}{more}"
    return None


def _fits(core: Mapping[str, Any]) -> bool:
    try:
        return held_in(core).fits
    except RefusedError:  # a change that makes no job is no cure
        return False
