"""Plans of collectives, carried out on a testbed of planes and measured beside what they say.

Modelled: how long circuits take to change is measured on the same testbed, and plans are made with
that: a plan of the same algorithm in lockstep, with almost no bytes, says how long a change takes
from the last node's word to the last new connection, and how long a transmission takes beyond its
bytes; the medians are the plans' reconfiguration time and latency. A plane's rate is what TCP's
payload gets of its NIC. Lockstep is carried out the same way, in turn with SWOT. A plan from a file
must fit: kind, size, nodes, planes, in this order. Ignored: ranks.
Checked: ``tests/test_testbed_plan.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from lightloom.errors import InputError
from lightloom.plan import Plan
from lightloom.testbed import record, system
from lightloom.testbed.alone import only_one
from lightloom.testbed.carried import KINDS, Carried, carry_out, need_planes, refuse_misfit
from lightloom.testbed.planning import plan_of, times
from lightloom.testbed.shape import Shape
from lightloom.units import Size, Time

SCHEDULERS = ("swot", "lockstep")
MOST_ROUNDS = 1000


@dataclass(frozen=True)
class Wanted:
    """Collectives that are to be run by plans.

    Attributes
    ----------
    kinds
        In their order: ``alltoall``, ``allreduce``.
    size_bytes
        Buffer of a node [B].
    algorithm
        Of all of them; by kind unless given.
    schedulers
        Who makes plans, in turn.
    rounds
        How often each plan is carried out.
    reconfiguration, latency
        What plans are made with; measured unless given.
    plans
        Plans from files in place of these, one a collective.
    chunk_bytes
        The longest chunk [B]; `Shape.chunk` unless given.

    Raises
    ------
    InputError
        If a value is not allowed.

    Examples
    --------
    >>> Wanted(("alltoall",), schedulers=("slow",))
    Traceback (most recent call last):
    ...
    lightloom.errors.InputError: --scheduler: slow: must be some of swot, lockstep
    """

    kinds: tuple[str, ...]
    size_bytes: int = 2_000_000
    algorithm: str | None = None
    schedulers: tuple[str, ...] = SCHEDULERS
    rounds: int = 5
    reconfiguration: Time | None = None
    latency: Time | None = None
    plans: tuple[Plan, ...] = ()
    chunk_bytes: int | None = None

    def __post_init__(self) -> None:
        """Check every value."""
        for flag, words, allowed in (
            ("KIND", self.kinds, tuple(KINDS)),
            ("--scheduler", self.schedulers, SCHEDULERS),
        ):
            wrong = next((word for word in words if word not in allowed), None)
            if wrong is not None or not words:
                raise InputError(f"{flag}: {wrong or ''}: must be some of {', '.join(allowed)}")
        if not 1 <= self.rounds <= MOST_ROUNDS:
            raise InputError(f"--rounds: {self.rounds}: must be from 1 to {MOST_ROUNDS}")
        if self.chunk_bytes is not None and not 1 <= self.chunk_bytes <= 1 << 24:
            raise InputError(f"--chunk: {self.chunk_bytes}: must be from 1 to {1 << 24} B")
        if self.plans and len(self.plans) != len(self.kinds):
            raise InputError(f"--plan: {len(self.plans)} plans for {len(self.kinds)} collectives")


@dataclass(frozen=True)
class Measured:
    """A collective by one scheduler's plan, several times.

    Attributes
    ----------
    kind, algorithm, scheduler
        What was run, and who planned it.
    size_bytes
        Buffer of a node [B].
    reconfiguration_seconds, latency_seconds
        What the plan was made with [s].
    least_step_seconds
        What the smallest step would take on one plane alone [s].
    runs
        What became of it each time.
    """

    kind: str
    algorithm: str
    scheduler: str
    size_bytes: int
    reconfiguration_seconds: float
    latency_seconds: float
    least_step_seconds: float
    runs: tuple[Carried, ...]

    @property
    def planned_seconds(self) -> float:
        """What the plan says [s]."""
        return self.runs[0].planned_seconds

    @property
    def seconds(self) -> float:
        """The median of what it took [s]."""
        return median(run.seconds for run in self.runs)

    @property
    def without(self) -> tuple[str, ...]:
        """Why circuits were left, each reason once."""
        return tuple(dict.fromkeys(why for run in self.runs for why in run.without))

    def said(self) -> dict[str, Any]:
        """Return it for JSON."""
        return asdict(self) | {
            "planned_seconds": self.planned_seconds, "seconds": self.seconds,
            "of_plan": self.seconds / self.planned_seconds,
        }  # fmt: skip


def carried_plans(
    name: str, wanted: Wanted, told: Callable[[str], None] = lambda line: None
) -> list[Measured]:
    """Plan collectives and carry the plans out, or plans from files.

    Parameters
    ----------
    name
        The testbed's name; it has planes.
    wanted
        What is to be run.
    told
        Is called with what is done next.

    Returns
    -------
    list of Measured
        Collective by collective, scheduler by scheduler.

    Raises
    ------
    InputError
        If there is no such testbed, a job is on it, or a plan does not fit.
    RunError
        If a node fails, or a byte is wrong.
    """
    shape = record.known(name)
    system.check()
    need_planes(shape)
    for at, (kind, plan) in enumerate(zip(wanted.kinds, wanted.plans, strict=False)):
        _refuse(shape, plan, kind, wanted.size_bytes, at)
    # Sizes and algorithms are refused before anything changes.
    known = wanted.reconfiguration or Time.parse("1 ms"), wanted.latency or Time(0)
    if not wanted.plans:
        for kind in wanted.kinds:
            plan_of(shape, kind, wanted.size_bytes, *known, algorithm=wanted.algorithm)
    with only_one(shape):
        measured: list[Measured] = []
        for at, kind in enumerate(wanted.kinds):
            if wanted.plans:
                plans = [wanted.plans[at]]
            else:
                given = wanted.reconfiguration, wanted.latency
                taken = times(shape, kind, wanted.algorithm, given, told)
                plans = [
                    plan_of(
                        shape, kind, wanted.size_bytes, *taken,
                        algorithm=wanted.algorithm, scheduler=one,
                    )
                    for one in wanted.schedulers
                ]  # fmt: skip
            measured += _measured(shape, wanted, kind, plans, told)
        return measured


def _refuse(shape: Shape, plan: Plan, kind: str, size_bytes: int, at: int) -> None:
    """Refuse a plan that is not of the collective that is to be run."""
    try:
        refuse_misfit(shape, plan, kind)
        if plan.task.kind == "collective" and int(plan.task.size_bytes) != size_bytes:
            planned = Size(int(plan.task.size_bytes))
            raise InputError(f"the plan is of {planned}; the job has {Size(size_bytes)}")
    except InputError as error:
        raise InputError(f"--plan: collective {at}, {kind}: {error}") from None


def _measured(
    shape: Shape, wanted: Wanted, kind: str, plans: Sequence[Plan], told: Callable[[str], None]
) -> list[Measured]:
    runs: list[list[Carried]] = [[] for _ in plans]
    for round_ in range(wanted.rounds):
        for plan, own in zip(plans, runs, strict=True):
            own.append(carry_out(shape, plan, wanted.chunk_bytes))
            told(
                f"{kind} by {plan.made.scheduler}, {round_ + 1} of {wanted.rounds}:"
                f" {own[-1].seconds * 1e3:,.0f} ms, planned {own[-1].planned_seconds * 1e3:,.0f}"
                + "".join(f"; without circuits: {why}" for why in own[-1].without)
            )
    return [
        Measured(
            kind, plan.task.algorithm if plan.task.kind == "collective" else "",
            plan.made.scheduler, wanted.size_bytes, plan.machine.reconfiguration_ps / 1e12,
            plan.machine.latency_ps / 1e12,
            min(sum(size for _, size in step) for step in plan.splits())
            / (plan.machine.rate_bps / 8),
            tuple(own),
        )
        for plan, own in zip(plans, runs, strict=True)
    ]  # fmt: skip
