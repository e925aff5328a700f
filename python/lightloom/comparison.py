"""One job on several fabrics at several rates: time, money, performance per dollar.

Performance per dollar is 1 / (iteration time * dollars) over that of the non-blocking fat-tree at
the same rate: dollars of the network, and of the cluster (servers, network, energy over the years),
as a buyer pays them (`lightloom.money`). ``cost_usd`` and ``perf_per_dollar_vs_fat_tree`` are the
papers' count, by ports in use. The Pareto front is taken over all rows, by the network's money as a
buyer pays it: no other row is both as fast and as cheap, and better in one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightloom import kinds, store
from lightloom.arguments import names, rates
from lightloom.cost import BASELINE, FABRICS, fabrics_of, needs_rails, on_fabrics
from lightloom.draws.axes import Choices, Draws
from lightloom.draws.compared import Drawn
from lightloom.errors import Interrupted
from lightloom.fabrics import can
from lightloom.layers import look_up, nested
from lightloom.progress import OnProgress, displayed
from lightloom.runs import users
from lightloom.scenario import Scenario
from lightloom.simulation import Finished, gathered, run_all
from lightloom.units import Rate

if TYPE_CHECKING:
    from lightloom.report import Result

# Performance per dollar, and of which dollars it is.
PER_DOLLAR = {
    "perf_per_dollar_vs_fat_tree": "cost_usd",
    "perf_per_network_dollar_vs_fat_tree": "network_usd",
    "perf_per_cluster_dollar_vs_fat_tree": "cluster_usd",
}
BANDWIDTHS = ("100 Gbps", "200 Gbps", "400 Gbps", "800 Gbps")


def compare(
    job: Scenario | str | PathLike[str],
    *,
    fabrics: str | Iterable[str] | None = None,
    bandwidths: Rate | float | str | Iterable[Rate | float | str] = BANDWIDTHS,
    out: str | PathLike[str] | None = None,
    force: bool = False,
    progress: bool = True,
    command: str = "lightloom.compare",
    reduced_from: int | None = None,
    on_progress: OnProgress | None = None,
    seeds: int = 1,
    traces: Choices = None,
    profiles: Choices = None,
    price_lists: Choices = None,
    **overrides: Any,
) -> Result:
    """Compare fabrics for one training job.

    Parameters
    ----------
    job
        A `Scenario`, a model preset, or the path of a specification.
    fabrics
        Names of fabric presets, or one; the job's own fabric has its own name if it is none. Unless
        given: `lightloom.cost.FABRICS`, and the job's own.
    bandwidths
        Link rates, or one: numbers in Gbps, or text such as ``"400 Gbps"``.
    out, force, progress, command, reduced_from, on_progress
        As in `lightloom.simulate`.
    seeds
        How many seeds, the job's and those that follow; every fabric runs with each.
    traces, profiles, price_lists
        Gating traces, compute profiles and price lists to repeat all of it for, as
        `lightloom.draws.Draws.of` takes them. The first draw is shown whole; medians and intervals
        are over all draws, ratios taken draw by draw.
    **overrides
        Sections as dicts, or values by dotted key, as in `Scenario.with_`.

    Returns
    -------
    Result
        One row a fabric and rate in ``runs``, every draw in ``draws``, who wins in ``verdict``.
        With `out`, an interrupt leaves the runs that were
        finished in the Result, marked incomplete, and is raised again as
        `lightloom.errors.Interrupted`, a KeyboardInterrupt that says where.

    Raises
    ------
    InputError
        If the job, a fabric or `out` cannot be used; nothing has been written then.
    RunError
        If a run failed.

    Examples
    --------
    >>> import lightloom
    >>> result = lightloom.compare(
    ...     "mixtral-8x7b",
    ...     fabrics=["fat-tree", "mixnet"],
    ...     bandwidths=400,
    ...     cluster={"gpus": 128},
    ...     training={"micro_batches": 4},
    ... )
    >>> [row["run"] for row in result.rows]
    ['fat-tree@400G', 'mixnet@400G']
    >>> result.verdict.winner, result.verdict.draws
    ('mixnet@400G', 1)
    """
    from lightloom.resolve import load_job

    links = rates(bandwidths, "bandwidths")
    if isinstance(job, Scenario):
        base = job.with_(**overrides) if overrides else job
    else:
        base = load_job(str(job), overrides | rails_for(overrides, fabrics)).scenario
    fabrics = fabrics_of(base) if fabrics is None else names(fabrics, "fabrics")
    plan = Draws.of(base, seeds=seeds, traces=traces, profiles=profiles, price_lists=price_lists)
    every = plan.scenarios(lambda job: list(on_fabrics(job, fabrics, links)))
    base, scenarios = plan.first, every[0]
    if out is not None:
        store.check_place(Path(out), force=force)
    with displayed(len(scenarios) * len(every), progress, on_progress) as report:
        runs = run_all(scenarios, on_progress=report, cache=users())
        drawn = Drawn.of(plan, every, runs, on_progress=report)
    finished, stopped = runs.finished, drawn.stopped
    more = {
        "compare": {
            "fabrics": list(fabrics),
            "bandwidths": list(map(str, links)),
            "runs": drawn.asked,
        },
        "complete": stopped is None,
        **drawn.info,
    }
    warnings = []
    dealt = needs_rails(base)
    if others := [run.fabric.name for run in scenarios if dealt and not needs_rails(run)]:
        warnings.append(
            f"engine.balancer: needs rails; without: {', '.join(dict.fromkeys(others))}, with the "
            "balancer that the transport has unless told"
        )
    if stopped is not None:
        warnings.append(f"stopped after {drawn.runs} of {drawn.asked} runs")
    kept = finished and out is not None and isinstance(stopped, KeyboardInterrupt)
    if stopped is not None and not kept:
        raise stopped
    rows = drawn.columns(judged(finished))
    free = dict.fromkeys(row["fabric"] for row in rows if row["network_usd"] == 0)
    if free:
        warnings.append(
            f"prices: the network of {', '.join(free)} costs nothing, so that its performance per "
            "dollar is not defined"
        )
    result = gathered(
        base, runs, rows, command=command, reduced_from=reduced_from, warnings=warnings, more=more,
        tables=drawn.tables,
    )  # fmt: skip
    if out is not None:
        result = result.save(out, force=force)
    if stopped is not None:
        where = f"{drawn.runs} of {drawn.asked} runs are kept in {out}"
        raise Interrupted(where) from stopped
    return result


def rails_for(overrides: Mapping[str, Any], fabrics: str | Iterable[str] | None) -> dict[str, str]:
    """Return a fabric for a job whose balancer is to deal to rails: the first that has them.

    Examples
    --------
    >>> rails_for({"engine.balancer.kind": "rails"}, None)
    {'fabric.preset': 'rail-optimized'}
    >>> rails_for({"engine.balancer.kind": "ecmp"}, None)
    {}
    """
    tree = nested(overrides, "override")
    balancer = kinds.family("balancer").kinds.get(look_up(tree, "engine", "balancer", "kind"))
    if balancer is None or balancer.capabilities["nics"] != "rails" or "fabric" in tree:
        return {}
    chosen = FABRICS if fabrics is None else names(fabrics, "fabrics")
    # A kind has a preset of its name.
    return dict([("fabric.preset", name) for name in chosen if can(name, "rails")][:1])


def judged(finished: Sequence[Finished]) -> list[dict[str, Any]]:
    """Return the rows of runs with what only a comparison can say."""
    rows = [run.row for run in finished]
    for ratio, dollars in PER_DOLLAR.items():
        value = {
            row["bandwidth_gbps"]: 1 / (row["iteration_s"] * row[dollars])
            for row in rows
            if row["fabric"] == BASELINE and row[dollars]
        }
        for row in rows:
            baseline = value.get(row["bandwidth_gbps"])
            if baseline is not None and row[dollars]:
                row[ratio] = 1 / (row["iteration_s"] * row[dollars]) / baseline
    priced = [row for row in rows if row["network_usd"] is not None]
    for row in priced:
        row["pareto"] = not any(_dominates(other, row) for other in priced)
    return rows


def _dominates(a: dict[str, Any], b: dict[str, Any]) -> bool:
    """Whether `a` is as fast and its network as cheap as `b`, and better in one.

    Examples
    --------
    >>> fast, dear = ({"iteration_s": 1.0, "network_usd": usd} for usd in (2.0, 3.0))
    >>> _dominates(fast, dict(fast)), _dominates(fast, dear)
    (False, True)
    """
    pair_a, pair_b = ((row["iteration_s"], row["network_usd"]) for row in (a, b))
    return pair_a != pair_b and all(x <= y for x, y in zip(pair_a, pair_b, strict=True))
