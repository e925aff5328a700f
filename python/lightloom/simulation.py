"""Runs of scenarios, and the Result that they leave.

One workload (task graph and gating demand) is built for all scenarios that share it, and the runs
share the machine's cores; what a run gives does not depend on how many run beside it.
"""

from __future__ import annotations

import hashlib
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lightloom import _core, shapes, store
from lightloom import balancer as balancers
from lightloom import decision as decisions
from lightloom.balancer import Balancer
from lightloom.cost import Cost, bill_of, cost_of, link_rate
from lightloom.decision import Decision
from lightloom.errors import InputError, Interrupted, RunError
from lightloom.gating import load_trace
from lightloom.progress import OnProgress, displayed
from lightloom.scenario import Scenario
from lightloom.trace import GatingTrace

if TYPE_CHECKING:
    from lightloom.report import Result

# Tables of the core that a Result keeps, each with a column "run" put in front.
TABLES = ("tasks", "links", "transfers", "demand", "reconfigurations", "queues", "reorder")


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
    summary: Mapping[str, float]
    tables: Mapping[str, pa.Table]
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    # None where a price is missing.
    cost: Cost | None

    @property
    def row(self) -> dict[str, Any]:
        """The run as a row of ``runs``, without what only a comparison can say."""
        figures = dict(self.summary)
        seconds = {
            f"{name}_s": figures.pop(f"{name}_ps") / 1e12
            for name in (
                "iteration",
                "compute",
                "exposed_a2a",
                "exposed_other",
                "reconfiguration",
            )
        }
        training, parallelism = self.scenario.training, self.scenario.parallelism
        tokens = (
            training.sequence_length
            * training.micro_batch
            * training.micro_batches
            * parallelism.ep
            * self.scenario.dp
        )
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
            "tokens_per_s": tokens / seconds["iteration_s"],
            **{name: float(value) for name, value in figures.items()},
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
            [job], on_progress=report, priced=False, decision=decision, balancer=balancer
        )
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
) -> Runs:
    """Run scenarios that share a workload; what was finished before a stop is kept.

    Where a price is missing, `priced` says whether that is an error or a run without a cost.

    Raises
    ------
    InputError
        If a scenario or its trace cannot be used. A run that fails is an entry of the result.
    """
    if not scenarios:
        raise InputError("nothing to run")
    first = scenarios[0]
    functions = (decisions.prepared(decision, first), balancers.prepared(balancer))
    costs = [_cost(scenario, priced) for scenario in scenarios]
    trace = load_trace(first)
    counts = np.ascontiguousarray(trace.counts, dtype=np.uint32)
    try:
        workload = _core.Workload(first.to_core_json(), counts.reshape(-1), counts.shape)
    except ValueError as error:
        raise InputError(f"{first.title}: {error}") from None
    halt = threading.Event()

    def one(scenario: Scenario, cost: Cost | InputError) -> Finished:
        name = run_name(scenario)

        def progress(share: float) -> None:
            if halt.is_set():
                raise KeyboardInterrupt
            if on_progress is not None:
                on_progress(name, share)

        if halt.is_set():
            raise KeyboardInterrupt
        try:
            out = workload.run(scenario.to_core_json(), progress, functions)
        except ValueError as error:
            raise InputError(f"{scenario.title}: {error}") from None
        except RuntimeError as error:
            raise RunError(f"{scenario.title}: {error}") from None
        progress(1.0)
        tables = {table: _arrow(name, out["tables"][table]) for table in TABLES}
        notes = [*_trace_notes(trace, scenario), *out["notes"]]
        if decision is not None:
            named = decisions.name(decision)
            notes.append(f"circuits were chosen by {named}, not by fabric.decision")
        if balancer is not None:
            named = decisions.name(balancer)
            notes.append(f"paths of packets were chosen by {named}, not by engine.balancer")
        if isinstance(cost, InputError):
            notes.append(f"no cost: {cost}")
        known = None if isinstance(cost, InputError) else cost
        warnings = (*shapes.warnings(scenario), *out["warnings"])
        return Finished(name, scenario, out["summary"], tables, tuple(notes), warnings, known)

    stopped: BaseException | None = None
    with ThreadPoolExecutor(jobs or os.cpu_count() or 1) as pool:
        futures = [
            pool.submit(one, scenario, cost)
            for scenario, cost in zip(scenarios, costs, strict=True)
        ]
        waiting = set(futures)
        try:
            while waiting:
                try:
                    # A timeout, so that an interrupt is seen between events.
                    done, waiting = wait(waiting, timeout=0.2, return_when=FIRST_COMPLETED)
                except KeyboardInterrupt as error:
                    stopped, done = error, set()
                if stopped is None:
                    stopped = next((e for e in (f.exception() for f in done) if e), None)
                if stopped is not None:
                    halt.set()
        finally:
            halt.set()  # whatever ends the loop, leaving the pool waits for no run
    if isinstance(stopped, KeyboardInterrupt):
        stopped = Interrupted("nothing was kept")
    finished = tuple(future.result() for future in futures if future.exception() is None)
    origins = tuple(
        {"component": component, "pass": when, "origin": origin, "time_ps": ps}
        for component, when, origin, ps in workload.compute_origins
    )
    return Runs(finished, stopped, trace, origins)


def gathered(
    job: Scenario,
    runs: Runs,
    rows: Sequence[Mapping[str, Any]],
    *,
    command: str,
    reduced_from: int | None = None,
    warnings: Sequence[str] = (),
    more: Mapping[str, Any] | None = None,
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
    tables = {
        name: pa.concat_tables([run.tables[name] for run in finished]).unify_dictionaries()
        for name in TABLES
    }
    tables["runs"] = pa.Table.from_pylist([dict(row) for row in rows], schema=_runs_schema(rows))
    tables["bill"] = _bill(finished)
    digest = hashlib.sha256(np.ascontiguousarray(trace.counts, dtype="<u4").tobytes()).hexdigest()
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
            "sha256": digest,
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


def _arrow(run: str, columns: Mapping[str, tuple[Any, ...]]) -> pa.Table:
    arrays: dict[str, pa.Array] = {}
    for name, (kind, data, *names) in columns.items():
        if kind == "names":
            index = pa.array(np.frombuffer(data, dtype="<i4"))
            arrays[name] = pa.DictionaryArray.from_arrays(index, pa.array(names[0], pa.string()))
        else:
            arrays[name] = pa.array(np.frombuffer(data, dtype=np.dtype(kind).newbyteorder("<")))
    rows = len(next(iter(arrays.values())))
    runs = pa.DictionaryArray.from_arrays(
        pa.array(np.zeros(rows, dtype=np.int32)), pa.array([run], pa.string())
    )
    return pa.table({"run": runs, **arrays})


def _runs_schema(rows: Sequence[Mapping[str, Any]]) -> pa.Schema:
    kinds = {str: pa.string(), int: pa.int64(), float: pa.float64()}
    known = {
        "cost_usd": pa.float64(),
        "perf_per_dollar_vs_fat_tree": pa.float64(),
        "pareto": pa.bool_(),
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
    if trace.top_k == job.model.top_k:
        return []
    return [
        f"the trace routes each token to {trace.top_k} experts, the model to {job.model.top_k}: "
        "its proportions are used"
    ]
