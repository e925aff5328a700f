"""How a job may lie on its GPUs, and which of these layouts is fastest.

Legal layouts are found by the rules of ``shapes.py``, with experts laid out by themselves
(``parallelism.etp``), those that do not fit in memory are left out, a closed form
(``crates/workload/src/estimate.rs``) sorts the rest, and the flow engine runs the best few.
Micro-batches are as many as the job says, so that layouts have iterations of different tokens and
are compared by tokens a second. Where the job leaves open what is computed anew, it is the least
that fits, and its time counts. Ignored: degrees that split no server, context parallelism of
sequences that leave a rank fewer than `LEAST_TOKENS`, loads of experts that differ, virtual stages.
Checked: every layout resolves; the order of the closed form against the engine's;
``tests/test_layouts.py``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lightloom import _core
from lightloom.errors import InputError
from lightloom.memory import GIB, core_form, held_in

if TYPE_CHECKING:
    from lightloom.scenario import Scenario

LEAST_TOKENS = 8192
"""Tokens of a sequence that context parallelism leaves a rank at least, chosen here."""
BEST = 10
"""Layouts that the engine runs."""
# Of the engine's runs: even gates need no trace, and rates that are 2 % late sort as exact ones do.
_RUN = {"gating.trace": "uniform", "engine.kind": "flow", "engine.tolerance": 0.02}

Make = Callable[[Mapping[str, Any]], "Scenario"]


@dataclass(frozen=True)
class Layout:
    """Degrees of parallelism; `etp` is None for a model without experts.

    Examples
    --------
    >>> print(Layout(2, 1, 8, 1, 4))
    tp 2, cp 1, ep 8, etp 1, pp 4
    """

    tp: int
    cp: int
    ep: int
    etp: int | None
    pp: int

    def __str__(self) -> str:
        """Name what it has."""
        return ", ".join(f"{name} {degree}" for name, degree in self.degrees.items())

    @property
    def degrees(self) -> dict[str, int]:
        """The keys of ``[parallelism]``."""
        return {name: degree for name, degree in vars(self).items() if degree is not None}

    @property
    def values(self) -> dict[str, int]:
        """The same by dotted key."""
        return {f"parallelism.{name}": degree for name, degree in self.degrees.items()}


@dataclass(frozen=True)
class Rated:
    """A layout, what it holds, and how fast it is."""

    layout: Layout
    recompute: str
    """What is computed anew."""
    memory: int
    """Of the fullest GPU [B]."""
    fits: bool
    estimate_s: float
    """Of an iteration, by the closed form."""
    tokens: int
    """Of an iteration."""
    iteration_s: float | None = None
    """By the flow engine; None if it did not run it."""
    exposed_a2a: float = 0.0
    """Share of the iteration that all-to-alls are on the critical path."""
    exposed_other: float = 0.0
    """The same of other communication."""

    @property
    def pace(self) -> float:
        """Tokens a second, by the engine or else by the closed form."""
        return self.tokens / (self.iteration_s or self.estimate_s)


@dataclass(frozen=True)
class Chosen:
    """Layouts, the best first: those that the engine ran, then those by the closed form alone."""

    rated: tuple[Rated, ...]
    legal: int
    """Layouts that there are."""
    fitting: int
    """Of these, those that fit."""
    gpus: int
    capacity: int | None
    """Memory of a GPU [B], if it is known."""
    utilisation_s: float = 0.0
    """Model FLOPs utilisation at one token a second and GPU [s]."""

    def mfu(self, one: Rated) -> float:
        """Model FLOPs utilisation of a layout, with a causal mask (`lightloom.runs.scenario`)."""
        return self.utilisation_s * one.pace / self.gpus

    @property
    def best(self) -> Rated | None:
        """The best one that fits, if any does."""
        return next((one for one in self.rated if one.fits), None)

    @property
    def reason(self) -> str:
        """Why the best one is."""
        room = "" if self.capacity is None else f" in {self.capacity / GIB:.0f} GiB"
        best = self.best
        if best is None:
            return f"none of {self.legal} legal layouts fits{room}"
        ran = [one for one in self.rated if one.iteration_s is not None]
        by = f"the flow engine, of {len(ran)} that it ran" if ran else "the closed form"
        said = (
            f"{best.layout}: {best.pace / self.gpus:.0f} tokens/s a GPU by {by} ({self.legal} "
            f"layouts are legal, {self.fitting} fit{room}; {best.memory / GIB:.1f} GiB with "
            f'recompute "{best.recompute}")'
        )
        if ran:
            said += (
                f"; all-to-alls are {100 * best.exposed_a2a:.0f} % of its critical path, other "
                f"communication {100 * best.exposed_other:.0f} %"
            )
        if len(ran) > 1:
            said += f"; {100 * (best.pace / ran[1].pace - 1):.1f} % ahead of {ran[1].layout}"
        return said


def legal(scenario: Scenario) -> Iterator[Layout]:
    """Yield the layouts of a job on its GPUs, whatever its own is.

    Examples
    --------
    >>> from lightloom import Scenario
    >>> job = Scenario.preset("mixtral-8x7b", gpus=128)
    >>> found = list(legal(job))
    >>> Layout(4, 1, 8, 4, 4) in found, Layout(2, 1, 8, 1, 1) in found
    (True, True)
    >>> Layout(16, 1, 8, 1, 1) in found  # more than a server's GPUs share matrices
    False
    """
    model, cluster, training = scenario.model, scenario.cluster, scenario.training
    gpus, length = cluster.gpus, training.sequence_length
    one_token = training.mode == "decode"
    for tp in _divisors(math.gcd(cluster.gpus_per_server, model.attention.heads)):
        for cp in _divisors(gpus // tp if gpus % tp == 0 else 1):
            short = cp > 1 and (one_token or length // cp < LEAST_TOKENS)
            if short or gpus % (tp * cp) or (not one_token and length % (tp * cp)):
                continue
            for pp in _divisors(gpus // (tp * cp)):
                if pp > model.layers:
                    continue
                stage = gpus // pp
                if not model.experts:
                    yield Layout(tp, cp, 1, None, pp)
                    continue
                for ep in _divisors(math.gcd(model.experts, stage)):
                    for etp in _divisors(tp):
                        if stage % (ep * etp) == 0:
                            yield Layout(tp, cp, ep, etp, pp)


def choose(
    make: Make, *, best: int = BEST, on_run: Callable[[int, int], None] | None = None
) -> Chosen:
    """Rate the layouts of a job, the best first.

    Parameters
    ----------
    make
        Returns the job with values by dotted key on top, and raises InputError for what is none.
    best
        How many of those that fit the flow engine runs.
    on_run
        Called with how many runs are done, and how many there are.

    Raises
    ------
    InputError
        If the job cannot be, whatever its layout.
    """
    from lightloom.runs.scenario import speed

    base, run = _base(make)
    layouts = list(legal(base))
    rated = sorted(_rated(base, layouts), key=lambda one: (not one.fits, -one.pace))
    fitting = [one for one in rated if one.fits]
    ran: list[Rated] = []
    tried = 0
    for tried, one in enumerate(fitting, 1):
        if len(ran) == best:
            tried -= 1
            break
        found = _ran(make, base, run, one)
        ran += [found] if found else []
        if on_run:
            on_run(len(ran), min(best, len(fitting)))
    ran.sort(key=lambda one: -one.pace)
    rest = fitting[tried:] + [one for one in rated if not one.fits]
    capacity = base.compute.memory
    return Chosen(
        tuple(ran + rest), len(layouts), len(fitting), base.cluster.gpus,
        None if capacity is None else int(capacity),
        # Tokens and GPUs leave the ratio of the two, which no layout changes.
        (of_one := speed(base, 1.0))["mfu"] / of_one["tokens_per_s_per_gpu"],
    )  # fmt: skip


def _base(make: Make) -> tuple[Scenario, Mapping[str, Any]]:
    """Return the job in a layout that may be, and what engine runs change besides layouts.

    Orders of a pipeline need stages, and overlap needs all-to-alls. A job that says how its gates
    choose keeps that.
    """
    refused: InputError | None = None
    own = {key: value for key, value in _RUN.items() if key != "gating.trace"}
    for run in (_RUN, own):
        for layout in (Layout(1, 1, 1, None, 1), Layout(1, 1, 2, None, 2)):
            try:
                return make({**layout.values, "memory.oversize": "allow", **run}), run
            except InputError as error:
                refused = refused or error
    assert refused is not None
    raise refused


def _rated(base: Scenario, layouts: list[Layout]) -> Iterator[Rated]:
    """Rate by memory and closed form."""
    from lightloom.cost import link_rate
    from lightloom.runs.scenario import tokens

    core, cluster = core_form(base), base.cluster
    of_one = tokens(base) * base.parallelism.pp // cluster.gpus
    far = float(link_rate(base)) * cluster.nics_per_server / cluster.gpus_per_server
    near = float(base.to_core()["cluster"]["scale_up_bps"])
    for layout in layouts:
        job = laid_out(core, layout, cluster.gpus)
        try:
            held = held_in(job)
            job["training"]["recompute"] = held.recompute
            estimate = _core.job_estimate(json.dumps(job), cluster.gpus_per_server, near, far)
        except ValueError:
            continue  # a rule of the core's
        ranks = cluster.gpus // (layout.tp * layout.cp * layout.pp)
        yield Rated(layout, held.recompute, held.fullest.total, held.fits, estimate, of_one * ranks)


def laid_out(core: Mapping[str, Any], layout: Layout, gpus: int) -> dict[str, Any]:
    """Return the core's form of a job in another layout; its training may be changed."""
    from lightloom.sections import block_size

    block = block_size(layout.tp, layout.cp, layout.ep, layout.etp)
    degrees = {**layout.degrees, "dp": gpus // (block * layout.pp)}
    return {**core, "parallelism": degrees, "training": dict(core["training"])}


def _ran(make: Make, base: Scenario, run: Mapping[str, Any], one: Rated) -> Rated | None:
    """Let the flow engine run a layout; None if it is refused after all."""
    from dataclasses import replace

    from lightloom.simulation import run_all

    values: dict[str, Any] = {**run, **one.layout.values}
    if base.training.recompute == "untimed":
        values["training.recompute"] = one.recompute
    try:
        done = run_all([make(values)], priced=False)
    except InputError:
        return None
    if done.stopped is not None:
        raise done.stopped
    summary = done.finished[0].summary
    whole = int(summary["iteration_ps"])
    return replace(
        one, iteration_s=whole / 1e12, exposed_a2a=int(summary["exposed_a2a_ps"]) / whole,
        exposed_other=int(summary["exposed_other_ps"]) / whole,
    )  # fmt: skip


def _divisors(number: int) -> list[int]:
    """Return the divisors of a number, rising.

    >>> _divisors(12)
    [1, 2, 3, 4, 6, 12]
    """
    small = [n for n in range(1, math.isqrt(number) + 1) if number % n == 0]
    return small + [number // n for n in reversed(small) if n * n != number]
