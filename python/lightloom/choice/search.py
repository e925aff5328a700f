"""The search: price all, rate those within the budget, run the best few, say what is not excluded.

The order of finalists is the closed form's. Of one fabric no more than `OF_ONE` are finalists, so
that there is a runner-up of another kind; near twins of finalists are told apart by the closed form
alone. After the engine has run the finalists, a candidate is *excluded* if even its bound is worse
than the pick as it ran; how many are not, and rank behind by the closed form only, is told.
Checked: against exhaustive runs in ``tests/test_choose.py`` and ``reproduce/choose.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import TYPE_CHECKING, Any

from lightloom.arguments import names, rates
from lightloom.choice import layouts, rating, reverse
from lightloom.choice.goals import GOALS, Aim, Goal
from lightloom.choice.space import Candidate, space
from lightloom.errors import InputError, Interrupted
from lightloom.presets import guess
from lightloom.progress import OnProgress, displayed
from lightloom.runs import Cache, ScenarioRun, perform, users
from lightloom.runs.run import Run
from lightloom.runs.scenario import in_seconds
from lightloom.scenario import Scenario
from lightloom.units import Rate

if TYPE_CHECKING:
    from lightloom.choice.result import Choice

BANDWIDTHS = ("100 Gbps", "200 Gbps", "400 Gbps", "800 Gbps")
FINALISTS, OF_ONE = 5, 2
# Rates that are 1 % late at most take half the time (docs/choose.md).
_TOLERANCE = 0.01


@dataclass(frozen=True)
class Entry:
    """A candidate, as far as the search went with it."""

    candidate: Candidate
    state: str = "priced"
    """``misfit``, ``unpriced``, ``over budget``, ``rated``, ``excluded`` or ``ran``."""
    why: str = ""
    network_usd: float | None = None
    rated: rating.Rated | None = None
    iteration_s: float | None = None
    """By the engine."""
    summary: Mapping[str, Any] = field(default_factory=dict)

    @property
    def fabric(self) -> str:
        """The preset's name."""
        return self.candidate.fabric

    @property
    def tokens_per_s(self) -> float:
        """By the engine, or else by the closed form."""
        assert self.rated is not None
        return self.rated.tokens / (self.iteration_s or self.rated.about_s)

    def score(self, aim: Aim, iteration_s: float | None = None) -> float:
        """How good it is; with another time of an iteration, if it had that."""
        assert self.rated is not None and self.network_usd is not None
        pace = self.rated.tokens / iteration_s if iteration_s else self.tokens_per_s
        return aim.score(
            tokens_per_s=pace,
            network_usd=self.network_usd,
            cluster_usd=self.rated.cluster_usd,
        )


@dataclass(frozen=True)
class Asked:
    """What was asked for."""

    job: Scenario
    budget_usd: float
    goal: Goal
    within: float
    rates: tuple[Rate, ...]
    fabrics: tuple[str, ...] | None
    own_layout: bool
    finalists: int


def choose(
    job: Scenario | str | PathLike[str],
    *,
    budget: float | str,
    goal: Goal = "tokens-per-dollar",
    within: float = 0.05,
    fabrics: str | Iterable[str] | None = None,
    bandwidths: Rate | float | str | Iterable[Rate | float | str] = BANDWIDTHS,
    parallelism: str = "any",
    finalists: int = FINALISTS,
    reversals: bool = True,
    progress: bool = True,
    command: str = "lightloom.choose",
    on_progress: OnProgress | None = None,
    **overrides: Any,
) -> Choice:
    """Choose a fabric for a job, within a budget.

    Parameters
    ----------
    job
        A `Scenario`, a model preset, or the path of a specification.
    budget
        For the network [US dollars]: a number, or text such as ``"15M"``.
    goal
        ``"tokens-per-dollar"`` of servers, network and energy; ``"time"``; or ``"cost"``: the
        cheapest network that is nearly as fast as the fastest one within the budget.
    within
        How much slower still is nearly as fast, for ``"cost"``.
    fabrics
        Presets; those that say what of them may differ unless given, and the job's own.
    bandwidths
        Link rates: numbers in Gbps, or text such as ``"400 Gbps"``.
    parallelism
        ``"any"``: each candidate has the layout that is fastest on it, with as many tokens an
        iteration; ``"own"``: the job's.
    finalists
        How many candidates the flow engine runs, with all micro-batches.
    reversals
        Whether to find out what would reverse the choice.
    progress, command, on_progress
        As in `lightloom.simulate`.
    **overrides
        Sections as dicts, or values by dotted key, as in `Scenario.with_`.

    Returns
    -------
    Choice
        The pick, the runner-up, every candidate and what became of it.

    Raises
    ------
    InputError
        If the job cannot be, nothing can be bought for the budget, or a price is missing.
    Interrupted
        If the user interrupts; the same call goes on.

    Examples
    --------
    >>> from lightloom import Scenario
    >>> job = Scenario.preset("mixtral-8x7b", gpus=128, training={"micro_batches": 2})
    >>> found = choose(job, budget=3e5, fabrics="topoopt", bandwidths=400, parallelism="own")
    >>> found.pick.fabric
    'topoopt'
    """
    from lightloom.choice.result import Choice

    asked = _asked(
        job, overrides, budget=usd(budget, "budget"), goal=goal, within=within,
        rates=rates(bandwidths, "bandwidths"), parallelism=parallelism, finalists=finalists,
        fabrics=None if fabrics is None else tuple(names(fabrics, "fabrics")),
    )  # fmt: skip
    steps = _Steps(asked, rating.Raters(asked.job), users())
    with displayed(1, progress, on_progress) as report:
        steps.on_progress = report
        entries = steps.price()
        entries = steps.rate(entries)
        aim, entries = steps.run(entries)
        found = Choice.of(asked, aim, entries, command=command)
        if found.runner_up is None or not reversals:
            return found
        said = steps.reverse((found.pick, found.runner_up), aim)
    return replace(found, reversals=tuple(said))


def fitting(make: Callable[[Mapping[str, Any]], Scenario]) -> Scenario:
    """Return a job; in another layout, if its own cannot be on its GPUs or does not fit in them.

    Parameters
    ----------
    make
        Returns the job with values by dotted key on top, and raises InputError for what is none.

    Raises
    ------
    InputError
        If the job cannot be in any layout: what its own was refused for.

    Examples
    --------
    >>> from lightloom.resolve import load_job
    >>> job = fitting(lambda more: load_job("mixtral-8x7b", {"cluster.gpus": 96, **more}).scenario)
    >>> job.cluster.gpus, job.parallelism.pp * job.parallelism.block * job.dp
    (96, 96)
    """
    from lightloom.layouts import choose as layouts_of

    try:
        return make({})
    except InputError as refused:
        try:
            found = layouts_of(make, best=0)
        except InputError:
            raise refused from None
        if found.best is None:
            raise InputError(f"{refused}; and {found.reason}") from None
        return make(found.best.layout.values)


def usd(given: float | str, name: str) -> float:
    """Read US dollars: a number, or text with k, M or G behind it.

    Examples
    --------
    >>> usd("15M", "budget"), usd("2.5 M", "budget"), usd(3e5, "budget")
    (15000000.0, 2500000.0, 300000.0)
    >>> usd("fifteen", "--budget")
    Traceback (most recent call last):
    ...
    lightloom.errors.InputError: --budget fifteen: must be a number of US dollars above 0, such as \
15M, 500k or 2e6
    """
    scales = {"k": 1e3, "M": 1e6, "G": 1e9, "B": 1e9}
    text = str(given).strip().lstrip("$").removesuffix("$").strip()
    scale = scales.get(text[-1:], 1.0)
    try:
        found = float(text[:-1] if text[-1:] in scales else text) * scale
    except ValueError:
        found = float("nan")
    if not 0 < found < float("inf") or "_" in text:
        raise InputError(
            f"{name} {given}: must be a number of US dollars above 0, such as 15M, 500k or 2e6"
        )
    return found


def _asked(
    job: Scenario | str | PathLike[str],
    overrides: Mapping[str, Any],
    *,
    parallelism: str,
    goal: Goal,
    within: float,
    budget: float,
    finalists: int,
    rates: Sequence[Rate],
    fabrics: tuple[str, ...] | None,
) -> Asked:
    from lightloom.resolve import load_job

    if goal not in GOALS:
        raise InputError(f'goal = "{goal}": must be one of {", ".join(GOALS)}{guess(goal, GOALS)}')
    if not 0 <= within < 1:
        raise InputError(f"within = {within}: must be from 0 to less than 1, a share")
    if parallelism not in ("any", "own"):
        raise InputError(f'parallelism = "{parallelism}": must be "any" or "own"')
    if not 1 <= finalists <= 100:
        raise InputError(f"finalists = {finalists}: must be from 1 to 100")
    if isinstance(job, Scenario):
        base = job.with_(**overrides) if overrides else job
    else:
        name = str(job)
        base = fitting(lambda more: load_job(name, {**overrides, **more}).scenario)
    if base.engine.kind != "flow":
        raise InputError(f'engine.kind = "{base.engine.kind}": finalists are run by "flow"')
    if base.failures:
        raise InputError("failures: a choice is made for a cluster in which nothing fails")
    own = parallelism == "own"
    return Asked(base, budget, goal, within, tuple(rates), fabrics, own, finalists)


@dataclass
class _Steps:
    """The steps of a search, each with runs that are kept."""

    asked: Asked
    raters: rating.Raters
    cache: Cache | None
    on_progress: OnProgress | None = None

    def price(self) -> list[Entry]:
        """Price every candidate."""
        job = self.asked.job
        by_fabric: dict[str, list[Candidate]] = {}
        for one in space(job, self.asked.fabrics, self.asked.rates):
            by_fabric.setdefault(one.fabric, []).append(one)
        groups = list(by_fabric.values())
        outcomes = self._perform([self.raters.prices(group) for group in groups])
        entries = []
        for group, outcome in zip(groups, outcomes, strict=True):
            for one, found in zip(group, rating.prices(outcome), strict=True):
                entries.append(_priced(one, found, self.asked))
        return _affordable(entries, self.asked)

    def rate(self, entries: list[Entry]) -> list[Entry]:
        """Rate those within the budget by the closed form."""
        job = self.asked.job
        if self.asked.own_layout:
            lists = {str(rate): [layouts.own(job)] for rate in self.asked.rates}
        else:
            (outcome,) = self._perform([self.raters.layouts(self.asked.rates)])
            lists = rating.shortlists(outcome)
        if not any(lists.values()):
            raise InputError(
                f"{job.title}: no layout on {job.cluster.gpus} GPUs fits in their memory; "
                "lightloom parallelism lists them"
            )
        left = [one for one in entries if one.state == "priced"]
        runs = [self.raters.rating(one.candidate, lists[str(one.candidate.rate)]) for one in left]
        found = dict(zip((str(one.candidate) for one in left), self._perform(runs), strict=True))
        rated = [
            _rated(one, rating.rating(found[str(one.candidate)]), self.asked)
            if str(one.candidate) in found
            else one
            for one in entries
        ]
        return _affordable(rated, self.asked)

    def run(self, entries: list[Entry]) -> tuple[Aim, list[Entry]]:
        """Run the finalists, and exclude what cannot be better."""
        asked = self.asked
        rated = [one for one in entries if one.state == "rated"]
        fastest = max(one.tokens_per_s for one in rated)
        aim = Aim(asked.goal, fastest, asked.within)
        if asked.goal == "tokens-per-dollar":
            _complete(rated)
        finalists = _finalists(rated, aim, asked)
        jobs = [final_job(asked.job, one) for one in finalists]
        runs: list[Run] = [
            ScenarioRun.of(job, name=str(one.candidate))
            for job, one in zip(jobs, finalists, strict=True)
        ]
        outcomes = self._perform(runs)
        ran = {}
        for one, outcome in zip(finalists, outcomes, strict=True):
            seconds, _ = in_seconds(outcome.figures)
            ran[str(one.candidate)] = replace(
                one, state="ran", iteration_s=seconds["iteration_s"],
                summary={**outcome.figures, **seconds},
            )  # fmt: skip
        if asked.goal == "cost":
            aim = replace(aim, fastest=max(one.tokens_per_s for one in ran.values()))
        most = max(one.score(aim) for one in ran.values())
        return aim, [
            ran[str(one.candidate)] if str(one.candidate) in ran else _excluded(one, aim, most)
            for one in entries
        ]

    def reverse(self, pair: Sequence[Entry], aim: Aim) -> list[reverse.Reversal]:
        """Say what would reverse the choice between pick and runner-up."""
        job = self.asked.job
        said = []
        if self.asked.goal == "tokens-per-dollar":
            said = reverse.prices(pair[0], pair[1], job)
        tried, both = reverse.variants(job, pair)
        outcomes = self._perform([run for runs in both for run in runs])
        ratings = [rating.rating(outcome) for outcome in outcomes]
        rated = [ratings[at : at + 2] for at in range(0, len(ratings), 2)]
        return said + reverse.by_times(tried, rated, pair, aim)

    def _perform(self, runs: Sequence[Run]) -> list[Any]:
        done = perform(
            runs, cache=self.cache, tables=False, first_failure_stops=True,
            on_progress=self.on_progress,
        )  # fmt: skip
        if done.interrupted is not None:
            raise Interrupted("what was found is kept; the same command goes on")
        for _, error in done.failures:
            raise error
        return [outcome for outcome in done.outcomes if outcome is not None]


def final_job(job: Scenario, entry: Entry, more: Mapping[str, Any] | None = None) -> Scenario:
    """Return the job as the engine runs it on a candidate."""
    assert entry.rated is not None
    late = {} if job.engine.tolerance else {"engine.tolerance": _TOLERANCE}  # type: ignore[union-attr]
    return job.with_({**entry.candidate.overrides, **entry.rated.layout, **late, **(more or {})})


def _priced(candidate: Candidate, found: rating.Priced, asked: Asked) -> Entry:
    one = Entry(candidate, network_usd=found.network_usd)
    if found.misfit is not None:
        return replace(one, state="misfit", why=found.misfit)
    if found.network_usd is None or found.least_usd is None:
        return replace(one, state="unpriced", why=", ".join(found.missing))
    usd = found.network_usd if asked.own_layout else found.least_usd
    return replace(one, state="over budget") if usd > asked.budget_usd else one


def _rated(entry: Entry, found: rating.Rated | str, asked: Asked) -> Entry:
    if isinstance(found, str):
        return replace(entry, state="misfit", why=found)
    one = replace(entry, state="rated", rated=found, network_usd=found.network_usd)
    if found.network_usd is None:
        return replace(one, state="unpriced", why=", ".join(found.missing))
    return replace(one, state="over budget") if found.network_usd > asked.budget_usd else one


def _affordable(entries: list[Entry], asked: Asked) -> list[Entry]:
    """Refuse a search of which nothing is left."""
    if any(one.state in ("priced", "rated") for one in entries):
        return entries
    over = [one for one in entries if one.state == "over budget"]
    if over:
        least = min(over, key=lambda one: one.network_usd or 0.0)
        raise InputError(
            f"budget {asked.budget_usd:,.0f}: below every network of {asked.job.cluster.gpus} "
            f"GPUs; the cheapest, {least.candidate}, costs {least.network_usd:,.0f} US dollars"
        )
    one = entries[0]
    word = "has no price: " if one.state == "unpriced" else ""
    raise InputError(
        f"{asked.job.title}: no candidate can be had; {one.candidate}: {word}{one.why}"
    )


def _complete(rated: Sequence[Entry]) -> None:
    """Refuse to judge by dollars of the cluster if some are not known."""
    for one in rated:
        assert one.rated is not None
        if one.rated.cluster_usd is None:
            raise InputError(
                f"goal tokens-per-dollar: {one.candidate} has no "
                f"{' and no '.join(one.rated.missing)}; give it under [money], or choose goal time"
            )


def _finalists(rated: Sequence[Entry], aim: Aim, asked: Asked) -> list[Entry]:
    """Return the best by the closed form, few of each fabric."""
    found: list[Entry] = []
    for one in _ordered(rated, aim):
        same = [other for other in found if other.fabric == one.fabric]
        twin = any(_twins(one, other) for other in same)
        if len(found) < asked.finalists and len(same) < OF_ONE and not twin:
            found.append(one)
    if aim.goal == "cost":  # what is nearly as fast is told by the fastest
        fastest = max(rated, key=lambda one: one.tokens_per_s)
        if fastest not in found:
            found = [*found[: asked.finalists - 1], fastest]
    return found


def _ordered(entries: Iterable[Entry], aim: Aim) -> Iterator[Entry]:
    """Yield the best first; for ``time`` what is as fast within the tolerance by its price."""
    left = sorted(entries, key=lambda one: (-one.score(aim), one.network_usd))
    while left:
        least = aim.least(left[0].score(aim))
        ties = [one for one in left if one.score(aim) >= least]
        one = min(ties, key=lambda each: each.network_usd or 0.0)
        left.remove(one)
        yield one


def best(entries: Iterable[Entry], aim: Aim) -> list[Entry]:
    """Return those that the engine ran, the best first."""
    return list(_ordered((one for one in entries if one.state == "ran"), aim))


def _twins(one: Entry, other: Entry) -> bool:
    """Whether two candidates differ in nothing that is rated: a radix that is not used up, say."""
    assert one.rated is not None and other.rated is not None
    return (one.network_usd, one.rated.about_s) == (other.network_usd, other.rated.about_s)


def _excluded(entry: Entry, aim: Aim, most: float) -> Entry:
    """Say of a candidate that was rated whether it can be better than the best that ran."""
    if entry.state != "rated":
        return entry
    assert entry.rated is not None
    bound = entry.score(aim, entry.rated.least_of_all_s)
    return replace(entry, state="excluded") if bound <= most else entry
