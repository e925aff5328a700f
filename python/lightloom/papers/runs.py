"""Simulated iterations of figures, each kept under what it was: figures that need one share it.

A run's figures are deterministic; its CPU seconds and the most memory that its process held are
not. Checked: that kept runs are not run again, in ``tests/test_mixnet_reproduce.py``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from lightloom import runs
from lightloom.cost import bill_of, cost_of
from lightloom.errors import InputError
from lightloom.progress import OnProgress
from lightloom.runs.scenario import in_seconds, tokens
from lightloom.scenario import Scenario

# All-to-alls of thousands of flows: rates may be stale for this share of an all-to-all's age.
TOLERANCE = {"qwen-moe-32": 0.005, "deepseek-r1": 0.005, "deepseek-v3": 0.005}
# How all-to-alls travel in the papers' own figures, unless a run says otherwise.
CARRIER = {"fabric.carrier": "paper"}
_SPLIT = ("iteration_s", "compute_s", "exposed_a2a_s", "exposed_other_s", "reconfiguration_s")


class Run(NamedTuple):
    """One iteration to simulate: a preset model on a preset fabric, with some values changed."""

    model: str
    fabric: str
    gpus: int = 1024
    changes: tuple[tuple[str, Any], ...] = ()
    """Dotted keys of a specification and their values."""

    @property
    def key(self) -> str:
        """A text that tells this run from every other.

        >>> Run("mixtral-8x7b", "fat-tree", changes=(("training.micro_batch", 32),)).key
        'mixtral-8x7b fat-tree 1024 training.micro_batch=32'
        """
        extra = [f"{name}={value}" for name, value in self.changes]
        return " ".join([self.model, self.fabric, str(self.gpus), *extra])

    @property
    def name(self) -> str:
        """The key and a digest of what it resolves to, whatever presets say today.

        >>> Run("mixtral-8x7b", "fat-tree").name  # doctest: +ELLIPSIS
        'mixtral-8x7b fat-tree 1024 ...'
        """
        return f"{self.key} {_resolved(self).digest}"

    def scenario(self) -> Scenario:
        """Return what is to be run."""
        changes = {**CARRIER, **dict(self.changes)}
        job = Scenario.preset(self.model, gpus=self.gpus, fabric=self.fabric, **changes)
        if job.engine.kind == "flow" and self.model in TOLERANCE:
            return job.with_(**{"engine.tolerance": TOLERANCE[self.model]})
        return job


@dataclass(frozen=True)
class Outcome:
    """What a run came to: the split of its iteration [s], and what it took."""

    iteration_s: float
    compute_s: float
    exposed_a2a_s: float
    exposed_other_s: float
    reconfiguration_s: float
    reconfigurations: int
    """Changes of a region's circuits."""
    tokens_per_s: float
    cost_usd: float | None
    """None where a rate has no price."""
    cpu_s: float
    peak_bytes: int
    """The most memory that its process held."""

    @property
    def split(self) -> dict[str, float]:
        """The iteration and its parts [s], by name."""
        return {name: getattr(self, name) for name in _SPLIT}


class Store:
    """Runs that are finished, in a directory to which each is added as it ends."""

    def __init__(self, place: Path) -> None:
        """Take a directory; nothing is written yet. Runs of another version count as absent."""
        self.cache = runs.Cache(place)

    def missing(self, wanted: Iterable[Run]) -> list[Run]:
        """Return those that are not finished, once each."""
        return [run for run in dict.fromkeys(wanted) if self._kept(run) is None]

    def of(self, wanted: Iterable[Run]) -> dict[Run, Outcome]:
        """Return those of some runs that are finished."""
        found = {run: self._kept(run) for run in wanted}
        return {run: _outcome(run, kept) for run, kept in found.items() if kept is not None}

    def perform(self, wanted: Iterable[Run], on_progress: OnProgress, jobs: int | None) -> None:
        """Run what is missing in `jobs` processes, keeping each run as it ends.

        Raises
        ------
        RunError, InputError, KeyboardInterrupt
            If a run failed, or `on_progress` raised; what was finished is kept.
        """
        todo = [_resolved(run) for run in self.missing(wanted)]
        # A process each, even for few: what they took is told beside their figures.
        done = runs.perform(
            todo, cache=self.cache, tables=False, executor=runs.Processes(jobs),
            first_failure_stops=True, on_progress=on_progress,
        )  # fmt: skip
        for _, error in done.failures:
            raise error
        if done.interrupted is not None:
            raise done.interrupted
        if done.unkept is not None:
            raise done.unkept

    def _kept(self, run: Run) -> runs.Outcome | None:
        return self.cache.get(_resolved(run).key)


def price(scenario: Scenario) -> float:
    """Return what a network costs [US dollars]."""
    return cost_of(bill_of(scenario), scenario.prices).total_usd


@cache
def _resolved(run: Run) -> runs.ScenarioRun:
    return runs.ScenarioRun.of(run.scenario(), name=run.key)


def _outcome(run: Run, kept: runs.Outcome) -> Outcome:
    job, spent = _resolved(run).scenario, kept.spent
    assert spent is not None
    seconds, counts = in_seconds(kept.figures)
    seconds = {name: round(value, 6) for name, value in seconds.items()}
    return Outcome(
        **seconds,
        reconfigurations=int(counts["reconfigurations"]),
        tokens_per_s=round(tokens(job) / seconds["iteration_s"]),
        cost_usd=_cost(job),
        cpu_s=round(spent.cpu_s, 2),
        peak_bytes=spent.peak_bytes or 0,
    )


def _cost(job: Scenario) -> float | None:
    try:
        return round(price(job), 2)
    except InputError:
        return None
