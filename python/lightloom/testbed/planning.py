"""Plans for a testbed of planes, by what was measured there.

Modelled: a plane's rate is what TCP's payload gets of its NIC. How long a change takes and what a
transmission takes beyond its bytes are the medians of a plan of the same algorithm, in lockstep,
with almost no bytes: from the last node's word that it has done until the last new connection is
up, and from a transmission's beginning to its acknowledgement. Ignored: that later ones take
longer. Checked: ``tests/test_testbed_plan.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

from lightloom.errors import InputError, RunError
from lightloom.plan import Job, Plan, algorithms, plan_collective
from lightloom.testbed.carried import KINDS, carry_out, refuse_misfit
from lightloom.testbed.nics import Framing
from lightloom.testbed.shape import Shape
from lightloom.units import Rate, Time

# Unless another algorithm is asked for.
ALGORITHMS = {"alltoall": "pairwise-alltoall", "allreduce": "rabenseifner-allreduce"}
# What a node's part of a step has on each plane where changes are measured, or somewhat more [B].
FEW_BYTES = 250


def plan_of(
    shape: Shape,
    kind: str,
    size_bytes: int,
    changes: Time,
    latency: Time,
    *,
    algorithm: str | None = None,
    scheduler: str = "swot",
) -> Plan:
    """Plan a collective of all servers of a testbed.

    Parameters
    ----------
    shape
        The testbed's, with planes.
    kind
        ``alltoall`` or ``allreduce``.
    size_bytes
        Buffer of a node [B].
    changes, latency
        How long a plane that changes is dark; what a transmission takes beyond its bytes.
    algorithm
        `ALGORITHMS` has those that are taken unless this is given.
    scheduler
        ``swot`` or ``lockstep``.

    Raises
    ------
    InputError
        If there is no such algorithm of that kind, or no plan.

    Examples
    --------
    >>> shape, none = Shape(servers=3, planes=2), Time(0)
    >>> plan_of(shape, "alltoall", 300, Time.parse("1 ms"), none).task.algorithm
    'pairwise-alltoall'
    >>> plan_of(shape, "alltoall", 300, none, none, algorithm="ring-allreduce")
    Traceback (most recent call last):
    ...
    lightloom.errors.InputError: --algorithm: ring-allreduce: must be one of pairwise-alltoall
    """
    name = algorithm or ALGORITHMS[kind]
    known = algorithms(KINDS[kind], shape.servers)
    if name.partition(":")[0] not in {one.partition(":")[0] for one in known}:
        raise InputError(f"--algorithm: {name}: must be one of {', '.join(known)}")
    frame, payload_bytes, _ = Framing.of(shape.mtu)
    payload = Rate(int(shape.rate) * payload_bytes // frame * (shape.planes or 0))
    job = Job.of(
        name, nodes=shape.servers, size=f"{size_bytes} B", planes=shape.planes or 0,
        node_bandwidth=f"{int(payload)} bps", reconfiguration=str(changes), latency=str(latency),
    )  # fmt: skip
    outcome = plan_collective(job, schedulers=[scheduler], plan=scheduler)
    if outcome.plan is None:
        raise InputError(f"--scheduler: {scheduler}: {outcome.row(scheduler).infeasible}")
    refuse_misfit(shape, outcome.plan, kind)
    return outcome.plan


def times(
    shape: Shape,
    kind: str,
    algorithm: str | None,
    given: tuple[Time | None, Time | None],
    told: Callable[[str], None] = lambda line: None,
) -> tuple[Time, Time]:
    """Measure how long a change, and a transmission of no bytes, take on a testbed.

    Parameters
    ----------
    shape, kind, algorithm
        As in `plan_of`.
    given
        What is not to be measured.
    told
        Is called with what is done next.

    Raises
    ------
    InputError
        If the algorithm changes no circuit.
    RunError
        If circuits cannot be had.
    """
    changes, latency = given
    if changes is not None and latency is not None:
        return changes, latency
    told(f"{kind}: how long circuits take to change")
    few = FEW_BYTES * shape.servers * (shape.planes or 0)
    plan = plan_of(
        shape, kind, few, Time.parse("1 us"), Time(0), algorithm=algorithm, scheduler="lockstep"
    )
    found = carry_out(shape, plan)
    if found.without:
        raise RunError(f"circuits cannot be measured: {'; '.join(found.without)}")
    if not found.turnaround_seconds and changes is None:
        raise InputError(f"{kind}: its plan changes no circuit: --reconfiguration says a time")
    taken = median(found.turnaround_seconds or (0.0,))
    beyond = max(0.0, median(found.latency_seconds))
    return (
        Time(round(taken * 1e12)) if changes is None else changes,
        Time(round(beyond * 1e12)) if latency is None else latency,
    )
