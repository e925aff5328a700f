"""Rating a candidate without an engine: what it costs, about how fast it is, and at most how fast.

Modelled: of each layout of a shortlist the bound and the closed form of
``crates/sim/src/outline.rs``; the fastest layout counts. Closed forms are found in the order of the
bounds, until a bound is slower than what was found. Three kinds of run, each kept in the cache: the
shortlist of a job, the prices of its candidates, and the rating of one candidate. Checked:
``tests/test_choose.py``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

import numpy as np

from lightloom import _core
from lightloom.choice import layouts
from lightloom.choice.space import Candidate
from lightloom.errors import InputError
from lightloom.fabrics import can
from lightloom.gating import load_trace, place_of
from lightloom.resolve import load_scenario
from lightloom.runs.outcome import Outcome
from lightloom.runs.run import Memo, OnShare, Run, digest_of
from lightloom.runs.scenario import sizes, tokens, trace_digest
from lightloom.scenario import Scenario
from lightloom.units import Rate

Values = Mapping[str, Any]

# A candidate's rating [CPU s]; about as told by 2,048 GPUs, whose fabrics take 0.03 to 3.
_RATING_S = 0.5
_PRICES_S, _SHORTLIST_S = 0.2, 3.0


@dataclass(frozen=True)
class Priced:
    """What a candidate costs with the job's own layout; `misfit` says why it cannot be.

    `least_usd` is what it costs at least with any: how many optical switches there are follows from
    the regions, which a layout makes.
    """

    network_usd: float | None = None
    least_usd: float | None = None
    misfit: str | None = None
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rated:
    """A candidate with its fastest layout.

    Attributes
    ----------
    layout
        Values by dotted key.
    about_s, least_s, compute_s
        An iteration by closed form, no less than, and if nothing that is sent took time [s].
    least_of_all_s
        The least bound of all layouts, rated or not [s].
    tokens
        Of an iteration.
    network_usd, servers_usd, energy_usd, cluster_usd
        With that layout; None where a price is missing.
    """

    layout: Values
    about_s: float
    least_s: float
    least_of_all_s: float
    compute_s: float
    tokens: int
    network_usd: float | None
    servers_usd: float | None
    energy_usd: float | None
    cluster_usd: float | None
    missing: tuple[str, ...] = ()

    @property
    def tokens_per_s(self) -> float:
        """By the closed form."""
        return self.tokens / self.about_s


class Raters:
    """Makes the runs that rate candidates of one job.

    Examples
    --------
    >>> raters = Raters(Scenario.preset("mixtral-8x7b", gpus=128))
    >>> raters.layouts([Rate.parse("400 Gbps")]).name
    'layouts of mixtral-8x7b'
    """

    def __init__(self, job: Scenario) -> None:
        """Read the job's trace, unless it is generated."""
        self.job = job
        self._tree: dict[str, Any] = json.loads(json.dumps(job.to_open_tree()))
        self._place = place_of(job)
        self._trace: dict[str, Any] = self._place  # what is generated is what made it
        if "shape" not in self._place:
            trace = load_trace(job)
            self._trace = {"sha256": trace_digest(trace), "shape": list(trace.counts.shape)}
        self._tasks, _ = sizes(job.to_core())

    def layouts(self, rates: Iterable[Rate]) -> Run:
        """Return the run that finds layouts at each rate."""
        payload = {"what": "layouts", "job": self._tree, "rates": [str(rate) for rate in rates]}
        return self._run(f"layouts of {self.job.model.name}", payload, weight=_SHORTLIST_S)

    def prices(self, candidates: Sequence[Candidate]) -> Run:
        """Return the run that prices candidates of one fabric."""
        overrides = [one.overrides for one in candidates]
        payload = {"what": "prices", "job": self._tree, "candidates": overrides}
        return self._run(f"prices of {candidates[0].fabric}", payload, weight=_PRICES_S)

    def rating(
        self, candidate: Candidate, shortlist: Sequence[Values], *, name: str | None = None
    ) -> Run:
        """Return the run that rates one candidate with every layout of a shortlist."""
        payload = {
            "what": "rating",
            "overrides": candidate.overrides,
            "job": self._tree,
            "layouts": list(shortlist),
            "trace": self._trace,
        }
        return replace(
            self._run(name or str(candidate), payload, _RATING_S * (0.05 + self._tasks / 4e4)),
            where=self._place,
            memory=(300 << 20) + int(len(shortlist) * self._tasks * 400),
            group=digest_of([self._tree, payload["layouts"], self._trace]),
        )

    def _run(self, name: str, payload: Values, weight: float) -> Run:
        return Run(_KIND, name, payload, weight=weight, title=name)


def shortlists(outcome: Outcome) -> dict[str, list[dict[str, Any]]]:
    """Return what a run of layouts found."""
    found: dict[str, list[dict[str, Any]]] = json.loads(str(outcome.figures["layouts"]))
    return found


def prices(outcome: Outcome) -> list[Priced]:
    """Return what a run of prices found."""
    rows = json.loads(str(outcome.figures["prices"]))
    return [Priced(**{**row, "missing": tuple(row.get("missing", ()))}) for row in rows]


def rating(outcome: Outcome) -> Rated | str:
    """Return what a run of a rating found; why it cannot be, if no layout fits the candidate."""
    found = json.loads(str(outcome.figures["rating"]))
    return str(found) if isinstance(found, str) else Rated(
        **{**found, "missing": tuple(found["missing"])}
    )  # fmt: skip


def perform(run: Run, on_progress: OnShare, memo: Memo, *, tables: bool) -> Outcome:
    """Find layouts, prices, or a rating."""
    payload = run.payload
    what = payload["what"]
    on_progress(0.0)

    def job() -> Scenario:
        return load_scenario(payload["job"], {}, label="job").scenario

    if what == "layouts":
        rates = [Rate.parse(text) for text in payload["rates"]]
        found: Any = layouts.shortlist(job(), rates)
    elif what == "prices":
        whole = job()
        found = [_priced(whole, overrides) for overrides in payload["candidates"]]
    else:
        of_all = digest_of([payload["job"], payload["trace"]])  # shortlists may share layouts
        found = _rated(run, memo.get(of_all, lambda: _Kept(job())))
    return Outcome({what: json.dumps(found)}, {} if tables else None)


def _priced(job: Scenario, overrides: Values) -> dict[str, Any]:
    from lightloom.money import money_of

    try:
        there = job.with_(overrides)
        money = money_of(there)
    except InputError as error:
        return {"misfit": _why(error)}
    usd = least = money.network_usd
    if usd is not None and can(there.fabric.kind, "regions"):
        lines = [line for line in money.lines if line.item == "optical switch"]
        least = usd - sum(line.total_usd or 0.0 for line in lines)
    return {"network_usd": usd, "least_usd": least, "missing": list(money.missing)}


class _Kept:
    """What a process keeps of a job from one candidate to the next: each layout's workload."""

    def __init__(self, job: Scenario) -> None:
        self.job = job
        self._workloads: dict[str, _core.Workload] = {}

    def only(self, shortlist: Sequence[Values]) -> None:
        """Keep no workload of another layout."""
        names = [digest_of(values) for values in shortlist]
        self._workloads = {each: one for each, one in self._workloads.items() if each in names}

    def workload(self, layout: Values) -> _core.Workload:
        """Return that of a layout, built once."""
        name = digest_of(layout)
        built = self._workloads.get(name)
        if built is None:
            built = self._workloads[name] = _built(self.job.with_(layout))
        return built


def _rated(run: Run, kept: _Kept) -> Any:
    """Rate a candidate with its fastest layout: the bounds of all leave few to be looked at."""
    overrides, shortlist = run.payload["overrides"], run.payload["layouts"]
    kept.only(shortlist)
    misfit = "no layout fits"
    bounds: list[tuple[int, int, Scenario]] = []
    for number, layout in enumerate(shortlist):
        try:
            there = kept.job.with_({**overrides, **layout})
            bound = kept.workload(layout).outline(there.to_core_json(), 0)
        except (InputError, ValueError) as error:
            misfit = _why(error)
        else:
            bounds.append((bound["least_ps"] or 0, number, there))
    found: list[tuple[int, int, Scenario, Mapping[str, int | None]]] = []
    for least, number, there in sorted(bounds, key=itemgetter(0, 1)):
        if any(about < least for about, *_ in found):
            break
        try:
            one = kept.workload(shortlist[number]).outline(there.to_core_json())
        except ValueError as error:
            misfit = _why(error)
        else:
            assert one["about_ps"] is not None
            found.append((one["about_ps"], number, there, one))
    if not found:
        return misfit
    _, number, there, fastest = min(found, key=itemgetter(0, 1))
    return _as_row(there, shortlist[number], fastest, min(least for least, *_ in bounds))


def _as_row(
    job: Scenario, layout: Values, outline: Mapping[str, Any], least_of_all: float
) -> dict[str, Any]:
    from lightloom.money import money_of

    money = money_of(job)
    return {
        "layout": layout,
        "about_s": outline["about_ps"] / 1e12,
        "least_s": outline["least_ps"] / 1e12,
        "least_of_all_s": least_of_all / 1e12,
        "compute_s": outline["compute_ps"] / 1e12,
        "tokens": tokens(job),
        "network_usd": money.network_usd,
        "servers_usd": money.servers_usd,
        "energy_usd": money.energy_usd,
        "cluster_usd": money.cluster_usd,
        "missing": list(money.missing),
    }


def _built(job: Scenario) -> _core.Workload:
    trace = load_trace(job)
    counts = np.ascontiguousarray(trace.counts, dtype=np.uint32)
    return _core.Workload(job.to_core_json(), counts.reshape(-1), counts.shape)


def _why(error: ValueError | InputError) -> str:
    """Return a message without what only says which job it is of."""
    return str(error).partition(": ")[2] or str(error)


_KIND = __name__
