"""A simulated iteration as what a testbed can carry out: computation and all-to-alls, in turn.

Modelled: a job without pipeline stages and with one micro-batch, whose tasks follow one another.
Each all-to-all has its demand, when its circuits may change, and how long servers compute before
it. Time is stretched and bytes are cut, so that an all-to-all takes as many times longer as a
computation does: the proportions of all-to-all, computation and dark time stay the job's. Replicas
are alike, and all of them are there. Ignored: all other communication, which counts as computation;
what GPUs of a server do with each other. Checked: ``tests/test_testbed_replay.py``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lightloom import _core
from lightloom.errors import InputError
from lightloom.runtime.rank import AHEAD
from lightloom.testbed import nics
from lightloom.units import Rate

if TYPE_CHECKING:
    from lightloom.report import Result
    from lightloom.scenario import Scenario

ALLTOALLS = ("dispatch", "combine")
# When circuits may change, as far as ranks can do it: those of `fabric.reconfigure`.
WHEN = ("block", "reuse", "hide")


@dataclass(frozen=True)
class Step:
    """One all-to-all, and the computation before it.

    Attributes
    ----------
    kind, layer, direction
        ``dispatch`` or ``combine``, of which layer, ``forward`` or ``backward``.
    when
        When its circuits may change: ``block``, it waits for them; ``hide``, under the computation
        before it; ``reuse``, not at all.
    ahead
        What lies ahead of it, as `lightloom.runtime.Rank.announce` takes it.
    compute_s
        How long servers compute before it, in the testbed's time [s].
    simulated_s
        How long it takes in the simulation, with what it waits for circuits, in the testbed's
        time [s].
    """

    kind: str
    layer: int
    direction: str
    when: str
    ahead: dict[str, int]
    compute_s: float
    simulated_s: float


@dataclass(frozen=True)
class Iteration:
    """What a testbed carries out.

    Attributes
    ----------
    steps
        In turn.
    demands
        By step, what servers send each other [B]: [step, source, destination].
    after_s
        How long servers compute after the last all-to-all, in the testbed's time [s].
    simulated_s
        How long the iteration takes in the simulation, in the testbed's time [s].
    changes
        How often circuits change in the simulation.
    """

    steps: tuple[Step, ...]
    demands: npt.NDArray[np.uint64]
    after_s: float
    simulated_s: float
    changes: int

    def plan(self) -> dict[str, Any]:
        """Return what ranks read."""
        return {"steps": [asdict(step) for step in self.steps], "after_s": self.after_s}


def iteration(scenario: Scenario, result: Result, rate: Rate, slower: float) -> Iteration:
    """Return the one iteration of a result, for a testbed.

    Parameters
    ----------
    scenario, result
        The job, and its simulation.
    rate
        Of the testbed's NICs. What of it is payload stands for the job's `fabric.link_bandwidth`.
    slower
        How many times longer everything takes than in the simulation.

    Raises
    ------
    InputError
        If it has several stages or micro-batches, other circuits than ranks can ask for, or an
        all-to-all that is not between all servers of a replica.
    """
    _check(scenario)
    servers = scenario.cluster.gpus // scenario.cluster.gpus_per_server
    tasks = sorted(result.tasks.to_pylist(), key=lambda row: (row["start_ps"], row["task"]))
    found = [row for row in tasks if row["kind"] in ALLTOALLS]
    if not found:
        raise InputError("the job has no all-to-all that a testbed could carry")
    matrices = _matrices(result.demand.to_pylist(), servers)
    share = _rate(scenario) / (int(rate) * nics.Framing.of().share)
    steps, demands, ended = [], [], 0
    for row in found:
        span = slower * (row["end_ps"] - row["start_ps"]) / 1e12
        gap = slower * max(0, row["start_ps"] - ended) / 1e12
        steps.append(
            Step(row["kind"], row["layer"], row["pass"], _when(scenario, row), {}, gap, span)
        )
        matrix = matrices[row["layer"]]
        # A combine sends back what was dispatched; the gradients of both go the other way.
        back = (row["kind"] == "combine") != (row["pass"] == "backward")
        demands.append((matrix.T if back else matrix) * (slower / share))
        ended = row["end_ps"]
    if scenario.fabric.kind == "mixnet":
        steps = _with_ahead(steps, slower * int(scenario.fabric.ocs.delay))
    total = float(result.rows[0]["iteration_s"])
    return Iteration(
        tuple(steps),
        np.rint(demands).astype(np.uint64),
        slower * (total - ended / 1e12),
        slower * total,
        int(result.rows[0]["reconfigurations"]),
    )


def _with_ahead(steps: Sequence[Step], dark_ps: float) -> list[Step]:
    """Say of each step what lies ahead of it: demands are those of layers."""
    coming = [
        {"demand": it.layer, "when": it.when, "computed_ps": round(it.compute_s * 1e12)}
        for it in steps
    ]
    request = {"coming": coming, "dark_ps": round(dark_ps)}
    ahead = json.loads(_core.mixnet_ahead(json.dumps(request)))
    return [
        replace(step, ahead={key: row[key] for key in AHEAD})
        for step, row in zip(steps, ahead, strict=True)
    ]


def _check(scenario: Scenario) -> None:
    for key, count in (
        ("parallelism.pp", scenario.parallelism.pp),
        ("training.micro_batches", scenario.training.micro_batches),
    ):
        if count != 1:
            raise InputError(
                f"{key}: {count}: must be 1 for a testbed, which does one thing a time"
            )
    for key, word in policies(scenario).items():
        if word not in WHEN:
            raise InputError(
                f"fabric.reconfigure.{key}: {word}: must be one of {', '.join(WHEN)} for a testbed"
            )


def policies(scenario: Scenario) -> Mapping[str, str]:
    """Return when circuits of a job may change; nothing if it has none."""
    reconfigure = getattr(scenario.fabric, "reconfigure", None)
    if reconfigure is None:
        return {}
    return {
        key: getattr(reconfigure, key) for key in ("first_forward", "second_forward", "backward")
    }


def _when(scenario: Scenario, row: Mapping[str, Any]) -> str:
    words = policies(scenario)
    if row["pass"] in ("backward", "recompute"):
        return words.get("backward", "reuse")
    key = "first_forward" if row["kind"] == "dispatch" else "second_forward"
    return words.get(key, "reuse")


def _rate(scenario: Scenario) -> int:
    """Return the rate of the job's NICs, which must all have the same [bit/s]."""
    from lightloom.cost import link_rate

    return int(link_rate(scenario))


def _matrices(rows: Sequence[Mapping[str, Any]], servers: int) -> dict[int, npt.NDArray[Any]]:
    """Return by layer what servers send each other [B], with all replicas."""
    own = 1 + max(row["source"] for row in rows)
    if servers % own:
        raise InputError(f"cluster.gpus: {servers} servers are no whole replicas of {own}")
    found: dict[int, npt.NDArray[Any]] = {}
    for row in rows:
        matrix = found.setdefault(row["layer"], np.zeros((servers, servers)))
        if row["source"] == row["destination"]:
            continue
        for first in range(0, servers, own):
            matrix[first + row["source"], first + row["destination"]] += row["bytes"]
    return found
