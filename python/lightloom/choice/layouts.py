"""Layouts of a job that are worth rating on candidates: the fastest few at each rate.

The tokens of an iteration stay what they are: a layout with more replicas has fewer micro-batches,
and one that cannot share them out evenly is left out. What is computed anew is the least that fits,
and its time counts, where the job leaves it open.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from lightloom import _core, layouts
from lightloom.memory import core_form, held_in
from lightloom.units import Rate

if TYPE_CHECKING:
    from lightloom.scenario import Scenario

BEST = 3
"""Layouts at each rate, besides the job's own."""


def shortlist(job: Scenario, rates: Iterable[Rate]) -> dict[str, list[dict[str, Any]]]:
    """Return the layouts to rate at each link rate, as values by dotted key, the fastest first.

    The job's own layout is among them if it fits in memory.

    Examples
    --------
    >>> from lightloom import Scenario
    >>> job = Scenario.preset("mixtral-8x7b", gpus=128)
    >>> found = shortlist(job, [Rate.parse("400 Gbps")])["400 Gbps"]
    >>> len(found) <= BEST + 1, found[0]["parallelism.ep"]
    (True, 8)
    """
    legal = list(_legal(job))
    found = {}
    for rate in rates:
        rated = sorted(_rated(job, legal, float(rate)), key=lambda pair: pair[0])
        mine = own(job)
        best = [values for _, values in rated[:BEST]]
        held = [values for _, values in rated if _same(values, mine)]
        found[str(rate)] = best + [values for values in held if values not in best]
    return found


def own(job: Scenario) -> dict[str, Any]:
    """Return a job's own layout as values by dotted key."""
    degrees = job.parallelism
    named = {name: getattr(degrees, name) for name in ("tp", "cp", "ep", "etp", "pp")}
    values = {f"parallelism.{name}": degree for name, degree in named.items() if degree is not None}
    return {**values, "training.micro_batches": job.training.micro_batches}


def _same(values: Mapping[str, Any], mine: Mapping[str, Any]) -> bool:
    """Whether a layout is the job's own; experts with as much TP as all else may say so or not."""
    tp = values["parallelism.tp"]

    def full(of: Mapping[str, Any]) -> dict[str, Any]:
        degrees = {key: value for key, value in of.items() if key != "training.recompute"}
        return {"parallelism.etp": tp, **degrees}

    return full(values) == full(mine)


def _legal(job: Scenario) -> Iterator[tuple[layouts.Layout, int]]:
    """Yield layouts, with the micro-batches that keep the tokens of an iteration."""
    from lightloom.sections import block_size

    gpus, training = job.cluster.gpus, job.training
    sequences = training.micro_batches * job.parallelism.data_ranks * job.dp
    for layout in layouts.legal(job):
        block = block_size(layout.tp, layout.cp, layout.ep, layout.etp)
        if gpus % (block * layout.pp):
            continue
        ranks = gpus // (layout.tp * layout.cp * layout.pp)
        count, left = divmod(sequences, ranks)
        if count and not left:
            yield layout, count


def _rated(
    job: Scenario, legal: Iterable[tuple[layouts.Layout, int]], rate: float
) -> Iterator[tuple[float, dict[str, Any]]]:
    """Yield time by closed form [s] and values of the layouts that fit, at a rate [bit/s]."""
    core, cluster = core_form(job), job.cluster
    far = rate * cluster.nics_per_server / cluster.gpus_per_server
    near = float(job.to_core()["cluster"]["scale_up_bps"])
    for layout, count in legal:
        form = layouts.laid_out(core, layout, cluster.gpus)
        form["training"]["micro_batches"] = count
        try:
            held = held_in(form)
            if not held.fits:
                continue
            form["training"]["recompute"] = held.recompute
            text = json.dumps(form)
            time = _core.job_estimate(text, cluster.gpus_per_server, near, far)
        except ValueError:
            continue  # a rule of the core's
        values: dict[str, Any] = {**layout.values, "training.micro_batches": count}
        if job.training.recompute == "untimed":
            values["training.recompute"] = held.recompute
        yield time, values
