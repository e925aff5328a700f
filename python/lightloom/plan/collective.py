"""Plans of a collective: what each scheduler answers, and the best algorithm for a size.

The schedulers are those of the paper: one-shot (planes set in advance), lockstep (its
Strawman-ICR), ideal, SWOT; and the mixed-integer program by HiGHS. Checked: the core replays every
answer; the best of all algorithms is compared with each.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lightloom import __version__, _core, kinds
from lightloom.errors import CoreErrors
from lightloom.plan.file import FORMAT, VERSION, CollectiveTask, Made, Plan, parse
from lightloom.plan.grid import every, text
from lightloom.plan.job import Job, algorithms

SCHEDULERS = ("swot", "lockstep", "one-shot", "milp")
# What is compared, in the order of the table.
COMPARED = ("one-shot", "lockstep", "ideal", "swot")


@dataclass(frozen=True)
class Row:
    """What one scheduler answered; times in ps."""

    scheduler: str
    completion_ps: int | None
    """None if there is no schedule."""
    bound_ps: int | None
    """No schedule of the same problem completes before; None where the problem is another."""
    gap: float | None
    """(completion - bound) / completion."""
    infeasible: str | None
    """Why there is no schedule."""
    switches: int
    """Reconfigurations, of planes or, in an all-to-all on ports, of circuits."""
    dark_ps: int
    """How long planes (ports) are dark, summed."""
    exposed_ps: int
    """How long of that nothing is sent on any plane (by the node that waits)."""
    algorithm: str = ""
    """The one whose order of the messages it took."""

    @property
    def exposed(self) -> float | None:
        """Share of the dark time during which nothing is sent; None without dark time."""
        return self.exposed_ps / self.dark_ps if self.dark_ps else None


@dataclass(frozen=True)
class Outcome:
    """The schedulers' answers to one job, and the plan of one of them."""

    job: Job
    steps: int
    configurations: int
    rows: tuple[Row, ...]
    plan: Plan | None

    def row(self, scheduler: str) -> Row:
        """Return the answer of a scheduler that was asked."""
        return next(row for row in self.rows if row.scheduler == scheduler)


def plan_collective(
    job: Job,
    *,
    schedulers: Sequence[str] = COMPARED,
    plan: str | None = None,
    seconds: float = 120.0,
) -> Outcome:
    """Ask schedulers for a collective's schedule; each answer has been replayed.

    Where another algorithm sends the same messages in another order, each scheduler takes the order
    that is best for it, and its row says which.

    Parameters
    ----------
    job
        What to plan.
    schedulers
        ``one-shot``, ``lockstep``, ``ideal``, ``swot``, ``milp``.
    plan
        The scheduler whose plan is wanted; it is asked in any case.
    seconds
        How long HiGHS may take, if it is asked.

    Raises
    ------
    InputError
        If the collective cannot be built, or does not fit the planes.
    RunError
        If the solver fails, or a schedule fails its replay.
    """
    asked = list(schedulers)
    if plan is not None and plan not in asked:
        asked.append(plan)
    given = None
    if "milp" in asked:
        given = _solved(job, seconds)
    answer, tracks = _asked(job.request(asked, plan, given))
    rows = tuple(Row(**row) for row in answer["rows"])
    made = None
    if tracks is not None and plan is not None:
        order = next(row.algorithm for row in rows if row.scheduler == plan)
        task = CollectiveTask(kind="collective", algorithm=order, size_bytes=int(job.size))
        how = Made(lightloom=__version__, scheduler=plan, initial=job.initial, demand=None)
        made = assembled(tracks, how, task, VERSION if job.planes.grid else 1)
    return Outcome(job, answer["steps"], answer["configurations"], rows, made)


def candidates(job: Job, primitive: str | None, grid: bool) -> list[Job]:
    """Return the same collective by every algorithm of a primitive, and over every grid.

    Parameters
    ----------
    job
        The collective.
    primitive
        Whose algorithms, Bruck's with every radix up to 64; None: the job's own only.
    grid
        Whether to try every grid, and every way to share its planes out; if not, the job's own.
    """
    nodes, place = job.planes.nodes, job.planes
    found = []
    for lines in [(), *every(nodes, place.planes)] if grid else [place.grid]:
        if primitive is None:
            own = kinds.family("collective").kinds[job.algorithm.partition(":")[0]]
            able = algorithms(own.capabilities["primitive"], nodes, lines) if lines else ()
            names: Sequence[str] = [job.algorithm] if not lines or job.algorithm in able else []
        else:
            names = algorithms(primitive, nodes, lines)
        found += [replace(job, algorithm=name, planes=replace(place, grid=lines)) for name in names]
    return found


def best(
    jobs: Sequence[Job],
    *,
    scheduler: str = "swot",
    on_progress: Callable[[float], None] = lambda _: None,
) -> tuple[dict[str, Row], Job | None]:
    """Find, for each scheduler, the job whose schedule completes first.

    Parameters
    ----------
    jobs
        The same collective by several algorithms or over several grids.
    scheduler
        Whose best job is returned.
    on_progress
        Given the share that is done.

    Returns
    -------
    tuple
        The best answer of each scheduler, with its algorithm and grid, and the job of
        `scheduler`'s, if any has a schedule. SWOT is not asked where even the ideal is slower
        than the best so far.
    """
    plain = [s for s in COMPARED if s != "swot"]
    found: dict[str, Row] = {}
    chosen: dict[str, Job] = {}
    ideals: list[tuple[int, int]] = []

    def keep(job: Job, rows: Sequence[Row]) -> None:
        for row in rows:
            now = found.get(row.scheduler)
            if row.completion_ps is not None and (
                now is None or now.completion_ps is None or row.completion_ps < now.completion_ps
            ):
                chosen[row.scheduler] = job
                # The bound is that of one algorithm, and a quick one.
                found[row.scheduler] = replace(named(row, job), bound_ps=None, gap=None)
            elif now is None:
                reason = "one-shot: each algorithm that there is needs more planes"
                found[row.scheduler] = replace(row, algorithm="", infeasible=reason)

    for at, job in enumerate(jobs):
        outcome = plan_collective(replace(job, effort="quick"), schedulers=plain)
        keep(job, outcome.rows)
        ideals.append((outcome.row("ideal").completion_ps or 0, at))
        on_progress(0.2 * (at + 1) / len(jobs))
    # The most promising first: the others are then known to be slower without being planned.
    for done, (ideal_ps, at) in enumerate(sorted(ideals)):
        least = found["swot"].completion_ps if "swot" in found else None
        if least is None or ideal_ps < least:
            quick = replace(jobs[at], effort="quick")
            keep(jobs[at], plan_collective(quick, schedulers=["swot"]).rows)
        on_progress(0.2 + 0.8 * (done + 1) / len(jobs))
    return found, chosen.get("swot" if scheduler == "milp" else scheduler)


def named(row: Row, job: Job) -> Row:
    """Return a row whose algorithm has its grid."""
    where = job.planes.grid
    return replace(row, algorithm=f"{row.algorithm}, {text(where)}") if where else row


def assembled(tracks: str, made: Made, task: Any, version: int = 1) -> Plan:
    """Return the plan that the compiled core made, with how it was made."""
    head = f'{{"format": "{FORMAT}", "version": {version}, "made": {made.model_dump_json()}, '
    head += f'"task": {task.model_dump_json()}, '
    return parse((head + tracks.removeprefix("{")).encode())


def _asked(request: Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
    with CoreErrors():
        answer, tracks = _core.plan_collective(json.dumps(request))
    return json.loads(answer), tracks


def _solved(job: Job, seconds: float) -> dict[str, Any] | None:
    """Return what HiGHS finds of a job in so many seconds; none if its program does not apply."""
    from lightloom.oracle import swot

    with CoreErrors():
        posed = json.loads(_core.plan_problem(json.dumps(job.request([]))))
    if any(step["together"] for step in posed["steps"]):
        return None  # the core says why
    held = {"dark": None, "free": "free"}
    planes = posed["planes"]
    found = swot.solve(
        [(step["configuration"], step["volume_bytes"]) for step in posed["steps"]],
        [one["configuration"] if isinstance(one, dict) else held[one] for one in posed["initial"]],
        planes["rate_bps"], planes["reconfiguration_ps"], planes["latency_ps"], seconds,
        posed["dimensions"], [(step["dimension"], step["part"]) for step in posed["steps"]],
    )  # fmt: skip
    return {"parts": found.parts, "bound_ps": int(found.bound_ps)}
