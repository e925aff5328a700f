"""Run every draw after the first, and say what the draws came to.

The first draw is run as a comparison without draws is, with its tables; of the others only figures
are kept. All are cached, so that what was interrupted goes on. Draws that did not run on every
fabric and rate are left out: an interval is over draws that are whole. Checked: in
``tests/test_draws.py``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lightloom.cost import BASELINE, bill_of, cost_of
from lightloom.draws.axes import Draw, Draws
from lightloom.draws.spread import columns, ratio, spread
from lightloom.errors import InputError, Interrupted
from lightloom.money import money_of
from lightloom.progress import OnProgress
from lightloom.runs import Cache, ScenarioRun, perform
from lightloom.scenario import Scenario

FIGURES = (
    *("iteration_s", "compute_s", "exposed_a2a_s", "exposed_other_s", "reconfiguration_s"),
    *("reconfigurations", "cost_usd", "network_usd", "cluster_usd"),
)
SCHEMA = pa.schema(
    [
        ("run", pa.string()),
        ("fabric", pa.string()),
        ("bandwidth_gbps", pa.float64()),
        ("draw", pa.int64()),
        ("seed", pa.int64()),
        *((name, pa.string()) for name in ("trace", "profile", "prices")),
        *((name, pa.float64()) for name in FIGURES),
    ]
)
RATIOS = {
    "time_vs_fat_tree": (),
    "perf_per_network_dollar_vs_fat_tree": ("network_usd",),
    "perf_per_cluster_dollar_vs_fat_tree": ("cluster_usd",),
}
"""Paired ratios to the fat-tree at the same rate, and what they count besides time."""


@dataclass(frozen=True)
class Repeated:
    """The draws that ran, each on every fabric and rate."""

    rows: tuple[Mapping[str, Any], ...]
    """One a run and draw, by draw; `SCHEMA`."""
    whole: int
    """How many draws these are."""
    stopped: BaseException | None

    def table(self) -> pa.Table:
        """Return the rows as a table."""
        return pa.Table.from_pylist([dict(row) for row in self.rows], schema=SCHEMA)


def repeat(
    plan: Draws,
    scenarios: Sequence[Sequence[Scenario]],
    first: Sequence[Mapping[str, Any]],
    *,
    cache: Cache | None = None,
    on_progress: OnProgress | None = None,
) -> Repeated:
    """Run the draws after the first, each on every fabric and rate.

    Parameters
    ----------
    plan
        The draws.
    scenarios
        What is run in each of them, as `Draws.scenarios` gives it.
    first
        The rows of the first draw's runs, in the order of its scenarios.
    cache, on_progress
        As in `lightloom.runs.perform`.

    Raises
    ------
    InputError
        If a trace does not fit a draw; nothing has run then.
    """
    monies: dict[tuple[str, int], dict[str, Any]] = {}

    def money(draw: Draw, at: int, scenario: Scenario) -> dict[str, Any]:
        # Only prices move what the same place in the list costs.
        if (draw.prices, at) not in monies:
            monies[draw.prices, at] = _money(scenario)
        return monies[draw.prices, at]

    runs = [
        [
            ScenarioRun.of(one, name=f"{row['run']}, draw {draw.number + 1}")
            for one, row in zip(some, first, strict=True)
        ]
        for draw, some in zip(plan.draws[1:], scenarios[1:], strict=True)
    ]
    flat = [run for some in runs for run in some]
    stopped: BaseException | None = None
    outcomes: Sequence[Any] = ()
    if flat:
        done = perform(
            flat, cache=cache, tables=False, first_failure_stops=True, on_progress=on_progress
        )
        if done.unkept is not None:
            print(f"warning: {done.unkept_text}", file=sys.stderr)
        stopped = next((error for _, error in done.failures), None)
        if done.interrupted is not None:
            stopped = Interrupted("nothing was kept")
        outcomes = done.outcomes
    rows = [
        _row(plan.draws[0], row, row, money(plan.draws[0], at, one))
        for at, (row, one) in enumerate(zip(first, scenarios[0], strict=True))
    ]
    whole = 1
    size = len(first)
    for at, draw in enumerate(plan.draws[1:]):
        found = outcomes[at * size : (at + 1) * size]
        if any(outcome is None for outcome in found):
            continue
        whole += 1
        for place, (run, outcome) in enumerate(zip(runs[at], found, strict=True)):
            figures = run.figures(outcome)
            paid = money(draw, place, scenarios[at + 1][place])
            rows.append(_row(draw, first[place], figures, paid))
    return Repeated(tuple(rows), whole, stopped)


def summary(repeated: Repeated) -> dict[str, dict[str, Any]]:
    """Return, by run, what its draws came to: columns of ``runs``.

    ``iteration_s`` and each of `RATIOS` as ``_median``, ``_low``, ``_high``; ``draws``, how many;
    ``iteration_s_draws``, each of them.
    """
    by_run: dict[str, list[Mapping[str, Any]]] = {}
    for row in repeated.rows:
        by_run.setdefault(row["run"], []).append(row)
    base = {
        rows[0]["bandwidth_gbps"]: rows for rows in by_run.values() if rows[0]["fabric"] == BASELINE
    }
    found = {}
    for run, rows in by_run.items():
        times = [row["iteration_s"] for row in rows]
        other = base.get(rows[0]["bandwidth_gbps"])
        said: dict[str, Any] = {"draws": len(rows), **columns("iteration_s", spread(times))}
        for name, counted in RATIOS.items():
            ours, theirs = _scores(rows, counted), other and _scores(other, counted)
            pair = None
            if ours and theirs:
                slower = name == "time_vs_fat_tree"
                pair = ratio(ours, theirs) if slower else ratio(theirs, ours)
            said |= columns(name, pair)
        found[run] = {**said, "iteration_s_draws": times}
    return found


def _scores(rows: Sequence[Mapping[str, Any]], counted: Sequence[str]) -> list[float] | None:
    """Return time, times dollars if they count, of each draw; None where dollars are missing."""
    found = []
    for row in rows:
        value = row["iteration_s"]
        for name in counted:
            value = value * row[name] if row[name] else None
        if value is None:
            return None
        found.append(value)
    return found


def _money(scenario: Scenario) -> dict[str, Any]:
    found = money_of(scenario)
    try:
        cost: float | None = cost_of(bill_of(scenario), scenario.prices).total_usd
    except InputError:
        cost = None
    return {
        "cost_usd": cost,
        "network_usd": found.network_usd,
        "cluster_usd": found.cluster_usd,
    }


def _row(
    draw: Draw, run: Mapping[str, Any], figures: Mapping[str, Any], paid: Mapping[str, Any]
) -> dict[str, Any]:
    said = {name: figures.get(name) for name in FIGURES}
    return {
        **{name: run[name] for name in ("run", "fabric", "bandwidth_gbps")},
        **{"draw": draw.number + 1, "seed": draw.seed, "trace": draw.trace},
        **{"profile": draw.profile, "prices": draw.prices},
        **said,
        **paid,
    }
