"""Runs of scenarios, and the Result that they leave.

How they are performed, and what is kept of them, is told in `lightloom.runs`; what a run gives does
not depend on how many run beside it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lightloom import _core, memory, shapes, store
from lightloom import balancer as balancers
from lightloom import decision as decisions
from lightloom.balancer import Balancer
from lightloom.cost import Cost, bill_of, cost_of, link_rate
from lightloom.decision import Decision
from lightloom.errors import InputError, Interrupted
from lightloom.gating import load_trace, unrecorded
from lightloom.money import Money, money_of, usd_per_trillion_tokens
from lightloom.progress import OnProgress, displayed
from lightloom.runs import Cache, ScenarioRun, perform
from lightloom.runs.run import allow_threads
from lightloom.runs.scenario import ORIGINS, TABLES, in_seconds, speed, trace_digest
from lightloom.scenario import Scenario
from lightloom.trace import GatingTrace

if TYPE_CHECKING:
    from lightloom.report import Result


@dataclass(frozen=True)
class Runs:
    """Runs of one workload, in order, and what they share."""

    finished: tuple[Finished, ...]
    # What kept the others from being finished, if anything did.
    stopped: BaseException | None
    trace: GatingTrace
    # Where each compute time comes from.
    origins: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class Finished:
    """One run: its figures, its tables and its cost."""

    name: str
    scenario: Scenario
    summary: Mapping[str, Any]
    tables: Mapping[str, pa.Table]
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    # None where a price is missing.
    cost: Cost | None
    money: Money

    @property
    def row(self) -> dict[str, Any]:
        """The run as a row of ``runs``, without what only a comparison can say."""
        seconds, counts = in_seconds(self.summary)
        fast = speed(self.scenario, seconds["iteration_s"])
        money = self.money
        return {
            "run": self.name,
            "model": self.scenario.model.name,
            "fabric": self.scenario.fabric.name,
            "bandwidth_gbps": float(link_rate(self.scenario).gbps),
            "gpus": self.scenario.cluster.gpus,
            **seconds,
            "cost_usd": self.cost.total_usd if self.cost else None,
            "perf_per_dollar_vs_fat_tree": None,
            "pareto": None,
            "network_usd": money.network_usd,
            "servers_usd": money.servers_usd,
            "energy_usd": money.energy_usd,
            "cluster_usd": money.cluster_usd,
            "watts": money.watts,
            "perf_per_network_dollar_vs_fat_tree": None,
            "perf_per_cluster_dollar_vs_fat_tree": None,
            "usd_per_trillion_tokens": usd_per_trillion_tokens(money, fast.get("tokens_per_s")),
            "missing": "; ".join(money.missing),
            **fast,
            **counts,
        }


def simulate(
    scenario: Scenario | str | PathLike[str],
    *,
    out: str | PathLike[str] | None = None,
    force: bool = False,
    progress: bool = True,
    command: str = "lightloom.simulate",
    reduced_from: int | None = None,
    on_progress: OnProgress | None = None,
    decision: Decision | None = None,
    balancer: Balancer | None = None,
    threads: int = 1,
) -> Result:
    """Simulate one training iteration.

    Parameters
    ----------
    scenario
        A `Scenario`, the name of a model preset, or the path of a specification.
    out
        Directory to write the Result to. Without one it is only in memory, and `Result.save`
        writes it.
    force
        Replace the files of a Result in `out`; what others put there stays.
    progress
        Show how far the run is, on a terminal and in a notebook; elsewhere nothing is shown.
    command
        What the Result names as its origin.
    reduced_from
        How many micro-batches the job has, if fewer are run: the Result says so first.
    on_progress
        Called with a run's name and the share of it that is done, instead of showing it; may raise
        to stop.
    decision
        A function that chooses circuits in place of the rule of ``fabric.decision``: see
        `lightloom.decision`. The Result names it among its notes.
    balancer
        A function that chooses the paths of packets in place of ``engine.balancer``: see
        `lightloom.balancer`. The Result names it among its notes.
    threads
        CPU threads of the flow or packet engine; the result is the same for any number.

    Returns
    -------
    Result
        Its tables are Arrow tables; its plots are methods.

    Raises
    ------
    InputError
        If the specification, its trace or `out` cannot be used; nothing has been written then.
    RunError
        If the run failed.

    Examples
    --------
    >>> import lightloom
    >>> job = lightloom.Scenario.preset("mixtral-8x7b", gpus=128, fabric="mixnet")
    >>> result = lightloom.simulate(job.with_(training={"micro_batches": 4}))
    >>> [row["fabric"] for row in result.rows], result.runs.num_rows
    (['mixnet'], 1)
    """
    from lightloom.resolve import load_job

    job = scenario if isinstance(scenario, Scenario) else load_job(os.fspath(scenario)).scenario
    if out is not None:
        store.check_place(Path(out), force=force)
    with displayed(1, progress, on_progress) as report:
        runs = run_all(
            [job], on_progress=report, priced=False, decision=decision, balancer=balancer,
            threads=threads,
        )  # fmt: skip
    if runs.stopped is not None:
        raise runs.stopped
    rows = [run.row for run in runs.finished]
    result = gathered(job, runs, rows, command=command, reduced_from=reduced_from)
    return result if out is None else result.save(out, force=force)


def run_all(
    scenarios: Sequence[Scenario],
    *,
    on_progress: OnProgress | None = None,
    jobs: int | None = None,
    priced: bool = True,
    decision: Decision | None = None,
    balancer: Balancer | None = None,
    cache: Cache | None = None,
    threads: int = 1,
) -> Runs:
    """Run scenarios that share a trace; what was finished before a stop is kept.

    Where a price is missing, `priced` says whether that is an error or a run without a cost. What
    `cache` keeps is not run again.

    Raises
    ------
    InputError
        If a scenario or its trace cannot be used. A run that fails ends the others.
    """
    if not scenarios:
        raise InputError("nothing to run")
    first = scenarios[0]
    allow_threads(threads, first.engine.kind, chooser=balancer is not None)
    functions = (decisions.prepared(decision, first), balancers.prepared(balancer))
    costs = [_cost(scenario, priced) for scenario in scenarios]
    monies = [money_of(scenario) for scenario in scenarios]
    trace = load_trace(first)
    runs = [
        ScenarioRun.of(
            scenario, trace, name=run_name(scenario), functions=functions, threads=threads
        )
        for scenario in scenarios
    ]
    done = perform(runs, cache=cache, jobs=jobs, first_failure_stops=True, on_progress=on_progress)
    if done.unkept is not None:
        print(f"warning: {done.unkept_text}", file=sys.stderr)
    stopped: BaseException | None = next((error for _, error in done.failures), None)
    if done.interrupted is not None:
        stopped = Interrupted("nothing was kept")
    finished = []
    origins: tuple[Mapping[str, Any], ...] = ()
    for run, cost, money, outcome in zip(runs, costs, monies, done.outcomes, strict=True):
        if outcome is None:
            continue
        assert outcome.tables is not None
        origins = origins or tuple(outcome.tables[ORIGINS].to_pylist())
        tables = {table: _of_run(run.name, outcome.tables[table]) for table in TABLES}
        notes = [*_trace_notes(trace, run.scenario), *outcome.notes]
        if decision is not None:
            named = decisions.name(decision)
            notes.append(f"circuits were chosen by {named}, not by fabric.decision")
        if balancer is not None:
            named = decisions.name(balancer)
            notes.append(f"paths of packets were chosen by {named}, not by engine.balancer")
        if isinstance(cost, InputError):
            notes.append(f"no cost: {cost}")
        known = None if isinstance(cost, InputError) else cost
        even = unrecorded(run.scenario)
        notes += memory.notes(run.scenario)
        own = shapes.warnings(run.scenario)
        warnings = (*own, *((even,) if even else ()), *outcome.warnings)
        finished.append(
            Finished(
                run.name,
                run.scenario,
                outcome.figures,
                tables,
                tuple(notes),
                warnings,
                known,
                money,
            )
        )
    return Runs(tuple(finished), stopped, trace, origins)


def gathered(
    job: Scenario,
    runs: Runs,
    rows: Sequence[Mapping[str, Any]],
    *,
    command: str,
    reduced_from: int | None = None,
    warnings: Sequence[str] = (),
    more: Mapping[str, Any] | None = None,
    tables: Mapping[str, pa.Table] | None = None,
) -> Result:
    """Gather runs in a Result, in memory; `rows` are its ``runs``, `more` what it says besides."""
    from lightloom.report import Result

    finished, trace = runs.finished, runs.trace
    if reduced_from is not None:
        few = job.training.micro_batches
        more = {**(more or {}), "reduced": {"micro_batches": few, "of": reduced_from}}
        warnings = [
            *warnings,
            f"training.micro_batches = {few}: reduced from the job's {reduced_from} by "
            "--micro-batches; an iteration is shorter than the job's, and the pipeline's ends "
            "weigh more",
        ]
    tables = dict(tables or {}) | {
        name: pa.concat_tables([run.tables[name] for run in finished]).unify_dictionaries()
        for name in TABLES
    }
    tables["runs"] = pa.Table.from_pylist([dict(row) for row in rows], schema=_runs_schema(rows))
    tables["bill"] = _bill(finished)
    tables["money"] = _money(finished)
    info: dict[str, Any] = {
        "lightloom": _core.__version__,
        "python": ".".join(map(str, sys.version_info[:3])),
        "pyarrow": pa.__version__,
        "command": command,
        "seed": job.seed,
        "trace": {
            "name": job.gating.trace,
            "origin": str(trace.meta.get("origin", "unknown")),
            "shape": list(trace.counts.shape),
            "sha256": trace_digest(trace),
        },
        "compute_origins": list(runs.origins),
        "notes": list(dict.fromkeys(note for run in finished for note in run.notes)),
        "warnings": list(
            dict.fromkeys((*warnings, *(line for run in finished for line in run.warnings)))
        ),
        **(more or {}),
    }
    return Result(None, info, job.to_toml(), tables)


def run_name(scenario: Scenario) -> str:
    """Name a run by its fabric and rate.

    Examples
    --------
    >>> run_name(Scenario.preset("mixtral-8x7b", fabric="mixnet", bandwidth="200 Gbps"))
    'mixnet@200G'
    """
    return f"{scenario.fabric.name}@{link_rate(scenario).gbps:g}G"


def _of_run(run: str, table: pa.Table) -> pa.Table:
    """Return a run's table with a column that names the run in front."""
    runs = pa.DictionaryArray.from_arrays(
        pa.array(np.zeros(table.num_rows, dtype=np.int32)), pa.array([run], pa.string())
    )
    return table.add_column(0, "run", runs)


def _runs_schema(rows: Sequence[Mapping[str, Any]]) -> pa.Schema:
    kinds = {str: pa.string(), int: pa.int64(), float: pa.float64(), NoneType: pa.float64()}
    kinds[list] = pa.list_(pa.float64())
    known = {
        "cost_usd": pa.float64(),
        "perf_per_dollar_vs_fat_tree": pa.float64(),
        "pareto": pa.bool_(),
        **dict.fromkeys(MONEY, pa.float64()),
    }
    return pa.schema(
        [(name, known.get(name) or kinds[type(value)]) for name, value in rows[0].items()]
    )


_BILL = pa.schema(
    [
        ("run", pa.string()),
        ("item", pa.string()),
        ("rate_gbps", pa.float64()),
        ("count", pa.int64()),
        ("unit_usd", pa.float64()),
        ("total_usd", pa.float64()),
        ("source", pa.string()),
    ]
)


# What of a row is money or power, and may be missing.
MONEY = (
    "network_usd",
    "servers_usd",
    "energy_usd",
    "cluster_usd",
    "watts",
    "perf_per_network_dollar_vs_fat_tree",
    "perf_per_cluster_dollar_vs_fat_tree",
    "usd_per_trillion_tokens",
)
_MONEY = pa.schema(
    [
        *((name, pa.string()) for name in ("run", "part", "item", "kind")),
        ("count", pa.int64()),
        *((name, pa.float64()) for name in ("unit_usd", "total_usd")),
        *((name, pa.string()) for name in ("source", "date")),
        *((name, pa.float64()) for name in ("watts", "total_watts")),
        *((name, pa.string()) for name in ("watts_source", "watts_date")),
    ]
)


def _money(finished: Sequence[Finished]) -> pa.Table:
    rows = [{"run": run.name, **line.as_row()} for run in finished for line in run.money.lines]
    return pa.Table.from_pylist(rows, schema=_MONEY)


def _cost(scenario: Scenario, priced: bool) -> Cost | InputError:
    bill = bill_of(scenario)
    try:
        return cost_of(bill, scenario.prices)
    except InputError as error:
        if priced:
            raise
        return error


def _bill(finished: Sequence[Finished]) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {
                "run": run.name,
                "item": line.item,
                "rate_gbps": float(line.rate.gbps),
                "count": line.count,
                "unit_usd": line.unit_usd,
                "total_usd": line.total_usd,
                "source": line.source,
            }
            for run in finished
            for line in (run.cost.lines if run.cost else ())
        ],
        schema=_BILL,
    )


def _trace_notes(trace: GatingTrace, job: Scenario) -> list[str]:
    if unrecorded(job) or job.model.top_k in (0, trace.top_k):
        return []
    return [
        f"the trace routes each token to {trace.top_k} experts, the model to {job.model.top_k}: "
        "its proportions are used"
    ]
