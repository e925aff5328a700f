"""Simulated iterations, each kept under what it was: figures that need the same one share it.

Every run has a process to itself, so that its CPU seconds and the most memory that it held are its
own. A run's figures are deterministic, its CPU seconds and memory are not. Checked: that kept runs
are not run again, that an interrupt keeps what is finished, in ``tests/test_mixnet_reproduce.py``.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import resource
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lightloom import __version__, _core
from lightloom.cost import bill_of, cost_of
from lightloom.errors import InputError, RunError
from lightloom.gating import load_trace
from lightloom.scenario import Scenario
from lightloom.trace import GatingTrace, synthetic

# All-to-alls of thousands of flows: rates may be stale for this share of an all-to-all's age.
TOLERANCE = {"qwen-moe-32": 0.005, "deepseek-r1": 0.005, "deepseek-v3": 0.005}
_SECONDS = ("iteration", "compute", "exposed_a2a", "exposed_other", "reconfiguration")


class Run(NamedTuple):
    """One iteration to simulate: a preset model on a preset fabric, with some values changed."""

    model: str
    fabric: str
    gpus: int = 1024
    changes: tuple[tuple[str, Any], ...] = ()
    """Dotted keys of a specification and their values."""
    sparsity: float | None = None
    """Share of the experts that a source does not reach, in a made-up trace; None: the trace that
    the scenario names."""

    @property
    def key(self) -> str:
        """A text that tells this run from every other.

        >>> Run("mixtral-8x7b", "fat-tree", changes=(("training.micro_batch", 32),)).key
        'mixtral-8x7b fat-tree 1024 training.micro_batch=32'
        """
        extra = [f"{name}={value}" for name, value in self.changes]
        if self.sparsity is not None:
            extra.append(f"sparsity={self.sparsity}")
        return " ".join([self.model, self.fabric, str(self.gpus), *extra])

    @property
    def digest(self) -> str:
        """Tell the resolved specification from every other, whatever presets say today.

        >>> len(Run("mixtral-8x7b", "fat-tree").digest)
        16
        """
        return _digest(self)

    @property
    def name(self) -> str:
        """Key and digest: what the run is kept under."""
        return f"{self.key} {self.digest}"

    def scenario(self) -> Scenario:
        """Return what is to be run."""
        job = Scenario.preset(self.model, gpus=self.gpus, fabric=self.fabric, **dict(self.changes))
        if job.engine.kind == "flow" and self.model in TOLERANCE:
            return job.with_(**{"engine.tolerance": TOLERANCE[self.model]})
        return job

    @property
    def weight(self) -> float:
        """About how long it takes, in no unit: long runs begin first."""
        heavy = {"deepseek-r1": 15.0, "deepseek-v3": 15.0, "qwen-moe-32": 5.0}
        return self.gpus * heavy.get(self.model, 1.0) * (2.0 if "rail" in self.fabric else 1.0)


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
        return {f"{name}_s": getattr(self, f"{name}_s") for name in _SECONDS}


def perform(run: Run, on_progress: Callable[[float], None] | None = None) -> Outcome:
    """Simulate a run in this process.

    >>> perform(Run("mixtral-8x7b", "mixnet", 128, (("training.micro_batches", 4),))).cost_usd
    605984.0
    """
    began = time.process_time()
    job = run.scenario()
    counts = np.ascontiguousarray(_trace(run, job).counts, dtype=np.uint32)
    try:
        workload = _core.Workload(job.to_core_json(), counts.reshape(-1), counts.shape)
        summary = workload.run(job.to_core_json(), on_progress)["summary"]
    except (ValueError, RuntimeError) as error:
        raise RunError(f"{run.key}: {error}") from None
    seconds = {f"{name}_s": round(summary[f"{name}_ps"] / 1e12, 6) for name in _SECONDS}
    training = job.training
    tokens = training.sequence_length * training.micro_batch * training.micro_batches
    rate = tokens * job.parallelism.ep * job.dp / seconds["iteration_s"]
    return Outcome(
        **seconds,
        reconfigurations=int(summary["reconfigurations"]),
        tokens_per_s=round(rate),
        cost_usd=_cost(job),
        cpu_s=round(time.process_time() - began, 2),
        peak_bytes=_peak_bytes(),
    )


@cache
def _digest(run: Run) -> str:
    return hashlib.sha256(run.scenario().to_toml().encode()).hexdigest()[:16]


class Store:
    """Runs that are finished, in a file to which each is added as it ends."""

    def __init__(self, place: Path) -> None:
        """Read what is there; lines of another version, or cut short, count as absent.

        So do runs of what is another specification today: a preset may have changed.
        """
        self.place = place
        self.outcomes: dict[str, Outcome] = {}
        if place.exists():
            for line in place.read_text(encoding="utf-8").splitlines():
                try:
                    kept = json.loads(line)
                    version, key = kept.pop("lightloom"), kept.pop("run")
                    digest = kept.pop("digest")
                    if version == __version__:
                        self.outcomes[f"{key} {digest}"] = Outcome(**kept)
                except (ValueError, KeyError, TypeError, AttributeError):
                    continue

    def missing(self, runs: Iterable[Run]) -> list[Run]:
        """Return those that are not finished, once each, the longest first."""
        todo = [run for run in dict.fromkeys(runs) if run.name not in self.outcomes]
        return sorted(todo, key=lambda run: -run.weight)

    def of(self, runs: Iterable[Run]) -> dict[Run, Outcome]:
        """Return those of some runs that are finished."""
        return {run: self.outcomes[run.name] for run in runs if run.name in self.outcomes}

    def keep(self, run: Run, ran: Outcome) -> None:
        """Add a finished run."""
        self.outcomes[run.name] = ran
        named = {"lightloom": __version__, "run": run.key, "digest": run.digest}
        line = json.dumps(named | asdict(ran))
        with self.place.open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def perform(
        self, runs: Iterable[Run], on_progress: Callable[[str, float], None], jobs: int
    ) -> None:
        """Run what is missing in `jobs` processes, keeping each run as it ends.

        Raises
        ------
        RunError, InputError, KeyboardInterrupt
            If a run failed, or `on_progress` raised; what was finished is kept.
        """
        todo = self.missing(runs)
        if not todo:
            return
        context = multiprocessing.get_context("spawn")
        shares = context.Array("d", len(todo))
        with ProcessPoolExecutor(
            jobs, context, initializer=_adopt, initargs=(shares,), max_tasks_per_child=1
        ) as pool:
            running: dict[Future[Outcome], int] = {}
            try:
                waiting = list(enumerate(todo))[::-1]
                while waiting or running:
                    # No more in flight than there are processes: an interrupt waits for few.
                    while waiting and len(running) < jobs:
                        at, run = waiting.pop()
                        running[pool.submit(_perform, at, run)] = at
                    # A timeout, so that progress and an interrupt are seen between ends.
                    done, _ = wait(running, timeout=0.5, return_when=FIRST_COMPLETED)
                    for future in done:
                        at = running.pop(future)
                        self.keep(todo[at], _result(future, todo[at]))
                        on_progress(todo[at].key, 1.0)
                    for at in running.values():
                        on_progress(todo[at].key, min(shares[at], 0.999))
            except BaseException:
                shares[:] = [-1.0] * len(todo)  # tells runs under way to stop
                pool.shutdown(cancel_futures=True)
                raise


def price(scenario: Scenario) -> float:
    """Return what a network costs [US dollars]."""
    return cost_of(bill_of(scenario), scenario.prices).total_usd


_shares: Any = None


def _adopt(shares: Any) -> None:
    global _shares
    _shares = shares


def _perform(at: int, run: Run) -> Outcome:
    def report(share: float) -> None:
        if _shares[at] < 0:
            raise KeyboardInterrupt
        _shares[at] = share

    return perform(run, report)


def _result(future: Future[Outcome], run: Run) -> Outcome:
    try:
        return future.result()
    except BrokenProcessPool:
        raise RunError(f"{run.key}: its process was ended; memory may have run out") from None


def _cost(job: Scenario) -> float | None:
    try:
        return round(price(job), 2)
    except InputError:
        return None


def _peak_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * (1 if sys.platform == "darwin" else 1024)


def _trace(run: Run, job: Scenario) -> GatingTrace:
    if run.sparsity is None:
        return load_trace(job)
    shape = synthetic.Shape(
        iterations=50,
        layers=8,
        sources=job.parallelism.ep,
        experts=job.model.experts,
        top_k=job.model.top_k,
        tokens=4096,
        seed=1,
    )
    return synthetic.generate("sparse", shape, synthetic.Knobs(sparsity=run.sparsity))


def cpus() -> int:
    """Return how many processes to run beside each other.

    >>> cpus() >= 1
    True
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
