"""Runs a simulated job's iteration on a testbed: real bytes, real circuits, slept computation.

Modelled: `lightloom.testbed.iteration` says what is carried out. The testbed is built for the job:
as many servers, NICs on packet switches and on circuits, and a switch as slow as the job's in the
testbed's time; the controller decides by the job's rule. A server is one rank. Without circuits
every pair's bytes are shared over all packet NICs. Ignored: see `lightloom.testbed.iteration`; the
control path takes its own time, not a stretched one. Checked: ``tests/test_testbed_replay.py``.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lightloom.errors import InputError
from lightloom.testbed.commands import down, up
from lightloom.testbed.iteration import Iteration, iteration
from lightloom.testbed.job import Job
from lightloom.testbed.runtimes import Settings
from lightloom.testbed.shape import Shape
from lightloom.units import Rate, Time

if TYPE_CHECKING:
    from lightloom.scenario import Scenario

NAME = "replay"
# Of the demand for which circuits stand at first [B].
EVEN = 1_000_000
# Of fabrics without circuits, those that a bridge stands for: non-blocking.
PACKETS = ("fat-tree", "rail-optimized")


@dataclass(frozen=True)
class Replay:
    """What came of it. Times are the testbed's [s].

    Attributes
    ----------
    name, shape
        The job's title, and the testbed's.
    slower
        How many times longer everything takes than in the simulation.
    iteration_s
        By iteration, how long it took.
    simulated_s
        How long the simulator says.
    compute_s, waited_s, exchange_s
        Of the median iteration: computation (slept), waiting for circuits, and all-to-alls; of the
        server that took longest, step by step.
    simulated_exchange_s
        All-to-alls in the simulation, with what they wait for circuits.
    changes, simulated_changes
        How often circuits changed in an iteration, on average, and in the simulation.
    late
        Demands, in all iterations, that the controller had not answered after 5 s.
    """

    name: str
    shape: Shape
    slower: float
    iteration_s: tuple[float, ...]
    simulated_s: float
    compute_s: float
    waited_s: float
    exchange_s: float
    simulated_exchange_s: float
    changes: float
    simulated_changes: int
    late: int

    @property
    def median_s(self) -> float:
        """The median iteration [s]."""
        return statistics.median(self.iteration_s)

    @property
    def ratio(self) -> float:
        """The median iteration over the simulated one."""
        return self.median_s / self.simulated_s

    def said(self) -> dict[str, Any]:
        """Return it for JSON."""
        return asdict(self) | {"shape": self.shape.said(), "ratio": self.ratio}


def shape_of(scenario: Scenario, rate: Rate, slower: float, name: str = NAME) -> Shape:
    """Return the testbed for a job.

    Parameters
    ----------
    scenario
        The job.
    rate
        Of the testbed's NICs.
    slower
        How many times longer everything takes than in the simulation.
    name
        The testbed's name.

    Raises
    ------
    InputError
        If it cannot be built here, or the switch's delay is not the same each time.

    Examples
    --------
    >>> from lightloom import Scenario
    >>> whole = {"pp": 1}
    >>> job = Scenario.preset("mixtral-8x7b", gpus=32, fabric="mixnet", parallelism=whole)
    >>> found = shape_of(job, Rate(20_000_000), 10)
    >>> found.servers, found.eps_nics, found.ocs_nics, str(found.delay)
    (4, 2, 6, '250 ms')
    """
    cluster, fabric = scenario.cluster, scenario.fabric
    values: dict[str, Any] = {
        "name": name, "servers": cluster.gpus // cluster.gpus_per_server, "ranks_per_server": 1,
        "rate": rate, "eps_nics": cluster.nics_per_server, "ocs_nics": 1,
    }  # fmt: skip
    if fabric.kind == "mixnet":
        values |= _circuits(scenario, slower)
    elif fabric.kind not in PACKETS:
        raise InputError(
            f"fabric.kind: {fabric.kind}: must be one of mixnet, {', '.join(PACKETS)} for a testbed"
        )
    else:
        _must_be("oversubscription", fabric.oversubscription, 1.0)
    return Shape(**values)


def _must_be(key: str, value: object, allowed: object) -> None:
    if value != allowed:
        raise InputError(f"fabric.{key}: {value}: must be {allowed} for a testbed")


def _circuits(scenario: Scenario, slower: float) -> dict[str, Any]:
    """Return what a testbed has of MixNet's circuits."""
    fabric = scenario.fabric
    ocs, packet = fabric.ocs, fabric.eps
    for key, value, allowed in (
        ("eps.link_bandwidth", packet.link_bandwidth, ocs.link_bandwidth),
        ("ocs.breakout", ocs.breakout, 1), ("ocs.circulators", ocs.circulators, False),
        ("co_packaged", fabric.co_packaged, False), ("share_eps", fabric.share_eps, False),
        ("eps.oversubscription", packet.oversubscription, 1.0),
        ("reconfigure.start", fabric.reconfigure.start, "even"),
        ("reconfigure.gradients", fabric.reconfigure.gradients, "off"),
    ):  # fmt: skip
        _must_be(key, value, allowed)
    for key, time in (("delay", ocs.delay), ("activation", ocs.activation)):
        if not isinstance(time, Time):
            raise InputError(
                f"fabric.ocs.{key}: must be one time for a testbed, whose parts always take as long"
            )
    return {
        "eps_nics": scenario.cluster.nics_per_server - fabric.optical_nics,
        "ocs_nics": fabric.optical_nics, "delay": Time(round(int(ocs.delay) * slower)),
        "activation": Time(round(int(ocs.activation) * slower)),
        "decision": fabric.decision, "hysteresis": fabric.hysteresis,
    }  # fmt: skip


def replay(
    scenario: Scenario,
    rate: Rate,
    slower: float = 10.0,
    iterations: int = 1,
    told: Callable[[str], None] = lambda line: None,
) -> Replay:
    """Simulate a job, and run its iteration on a testbed that is built for it, and taken down.

    Parameters
    ----------
    scenario
        The job: no pipeline stages, one micro-batch.
    rate
        Of the testbed's NICs.
    slower
        How many times longer everything takes than in the simulation.
    iterations
        How often the same iteration is run.
    told
        Is called with what is done next.

    Raises
    ------
    InputError
        If the job does not fit a testbed, or one cannot be built here.
    RunError
        If a rank fails, or a byte is wrong.
    """
    from lightloom.simulation import simulate

    if not 1 <= slower <= 10_000:
        raise InputError(f"--slower: {slower:g}: must be from 1 to 10000")
    if not 1 <= iterations <= 1000:
        raise InputError(f"--iterations: {iterations}: must be from 1 to 1000")
    shape = shape_of(scenario, rate, slower)
    plan = iteration(scenario, simulate(scenario), rate, slower)
    circuits = scenario.fabric.kind == "mixnet"
    told(
        f"{scenario.title}: {len(plan.steps)} all-to-alls, {iterations} x {plan.simulated_s:.0f} s"
    )
    up(shape)
    try:
        path = "delegate" if circuits else "rails"
        with Job(shape.name, Settings(path=path)) as job:
            # As much to each server of the same replica.
            even = (plan.demands.sum(axis=0) > 0).astype(int) * EVEN
            what = {"circuits": circuits, "path": path, "iterations": iterations}
            what["even"] = even.tolist()
            (job.directory / "plan.json").write_text(json.dumps(plan.plan() | what))
            np.save(job.directory / "demands.npy", plan.demands)
            job.run(
                [sys.executable, "-m", "lightloom.ranks.replay", str(job.directory)],
                {"OMP_NUM_THREADS": "1"},
            )
            ranks = [
                json.loads((job.directory / f"rank-{rank}.json").read_text())
                for rank in range(shape.servers)
            ]
    finally:
        down(shape.name)
    return _summed(scenario.title, shape, slower, plan, ranks)


def _summed(
    name: str, shape: Shape, slower: float, plan: Iteration, ranks: list[list[dict[str, Any]]]
) -> Replay:
    took = [max(one["iteration_s"] for one in each) for each in zip(*ranks, strict=True)]
    median = min(range(len(took)), key=lambda at: abs(took[at] - statistics.median(took)))

    def of(key: str, at: int) -> float:
        rows = zip(*(rank[at]["steps"] for rank in ranks), strict=True)
        return float(sum(max(row[key] for row in each) for each in rows))

    return Replay(
        name=name, shape=shape, slower=slower, iteration_s=tuple(took),
        simulated_s=plan.simulated_s,
        compute_s=of("compute_s", median) + plan.after_s, waited_s=of("waited_s", median),
        exchange_s=of("exchange_s", median),
        simulated_exchange_s=sum(step.simulated_s for step in plan.steps),
        changes=statistics.fmean(of("changed", at) for at in range(len(took))),
        simulated_changes=plan.changes,
        late=int(sum(of("late", at) for at in range(len(took)))),
    )  # fmt: skip
