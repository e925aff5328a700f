"""What several of MixNet's figures run and compare: models, fabrics, policies of circuits.

Modelled: jobs of Section 7 on 1,024 H100 GPUs, one iteration each. A *kind* of MixNet is the preset
with some values changed. Checked: keys of runs are unique, in ``tests/test_mixnet_reproduce.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lightloom.papers.part import Context, Part, Rows
from lightloom.papers.runs import Run

MODELS = ("mixtral-8x22b", "mixtral-8x7b", "qwen-moe-32", "deepseek-r1")
RATES = (100, 200, 400, 800)
TABLES = ("roofline", "paper-profile")
STATIC = ("fat-tree", "fat-tree-3to1", "rail-optimized", "topoopt")
_PRINTED = {"fabric.decision": "algorithm-1", "fabric.hysteresis": False}


def _when(first: str, rest: str = "hide") -> dict[str, str]:
    return {
        "fabric.reconfigure.first_forward": first,
        "fabric.reconfigure.second_forward": rest,
        "fabric.reconfigure.backward": rest,
    }


# The preset as it is, and policies that use Algorithm 1 at every demand, as printed. They differ in
# the first all-to-all of a forward pass: `block` waits (Section 7.1), `reuse` takes the circuits
# that stand (Appendix B.1), `hide` has foreseen its demand. `never` keeps those of an even demand.
KINDS: Mapping[str, Mapping[str, Any]] = {
    "mixnet": {},
    "mixnet block": {**_PRINTED, **_when("block")},
    "mixnet reuse": {**_PRINTED, **_when("reuse")},
    "mixnet hide": {**_PRINTED, **_when("hide")},
    "mixnet never": {**_PRINTED, **_when("reuse", "reuse")},
}
# Those that the tables name.
MAIN = ("mixnet", "mixnet block", "mixnet never")

Runs = Mapping[tuple[str, int], Run]
"""Runs by fabric (or kind of MixNet) and rate [Gbps]."""


def run(
    fabric: str,
    model: str,
    gbps: float,
    *,
    changes: Mapping[str, Any] | None = None,
    gpus: int = 1024,
    table: str = "roofline",
) -> Run:
    """Return a run on a fabric or a kind of MixNet, with all links of one rate.

    >>> run("topoopt", "mixtral-8x7b", 400).key
    'mixtral-8x7b topoopt 1024 compute.table=roofline fabric.link_bandwidth=400 Gbps'
    >>> run("mixnet never", "mixtral-8x7b", 400).fabric
    'mixnet'
    """
    values = {"compute.table": table, "fabric.link_bandwidth": f"{gbps:g} Gbps"}
    values |= {**KINDS.get(fabric, {}), **(changes or {})}
    return Run(model, "mixnet" if fabric in KINDS else fabric, gpus, tuple(values.items()))


def matrix(
    model: str,
    table: str,
    fabrics: Iterable[str] = (*STATIC, *KINDS),
    rates: Sequence[int] = RATES,
    changes: Mapping[str, Any] | None = None,
) -> Runs:
    """Return a job's runs on each fabric at each rate."""
    return {
        (fabric, gbps): run(fabric, model, gbps, changes=changes, table=table)
        for fabric in fabrics
        for gbps in rates
    }


def part(name: str, runs: Runs, **what: Any) -> Part:
    """Return a part with a row a run, as `measured` gives it."""
    return Part(name, lambda context: measured(context, runs, **what), runs=tuple(runs.values()))


def measured(context: Context, runs: Runs, **what: Any) -> Rows:
    """Return a row a run: fabric, rate, the split of the iteration, cost; and `what` they are."""
    ran = {at: context.outcomes[run] for at, run in runs.items()}
    return [
        {**what, "fabric": fabric, "gbps": gbps, **one.split,
         "reconfigurations": one.reconfigurations, "cost_usd": one.cost_usd}
        for (fabric, gbps), one in ran.items()
    ]  # fmt: skip


def gains(
    rows: Rows, rival: str, fabric: str, *, a_dollar: bool = False, rates: Sequence[int] = RATES
) -> list[float]:
    """Return how many times faster `fabric` is than `rival` at each rate, or faster a dollar.

    >>> mine = {"fabric": "mixnet", "gbps": 400, "iteration_s": 2.0, "cost_usd": 5.0}
    >>> other = {"fabric": "fat-tree", "gbps": 400, "iteration_s": 1.0, "cost_usd": 30.0}
    >>> gains([mine, other], "fat-tree", "mixnet", rates=[400])
    [0.5]
    >>> gains([mine, other], "fat-tree", "mixnet", a_dollar=True, rates=[400])
    [3.0]
    """
    at = {(row["fabric"], row["gbps"]): row for row in rows}

    def pace(name: str, gbps: int) -> float:
        row = at[name, gbps]
        return 1 / float(row["iteration_s"] * (row["cost_usd"] if a_dollar else 1.0))

    return [pace(fabric, gbps) / pace(rival, gbps) for gbps in rates]


def mean(values: Sequence[float]) -> float:
    """Return the mean.

    >>> mean([1.0, 2.0])
    1.5
    """
    return sum(values) / len(values)


def some(rows: Rows, **what: Any) -> Rows:
    """Return the rows that have these values.

    >>> some([{"x": 1, "y": 2}, {"x": 2, "y": 3}], x=2)
    [{'x': 2, 'y': 3}]
    """
    return [row for row in rows if all(row[key] == value for key, value in what.items())]


def by_kind(values: Mapping[str, str]) -> str:
    """Say a value for each kind of MixNet in one cell.

    >>> by_kind({"mixnet": "1.3", "mixnet block": "0.9"})
    '1.3 (block 0.9)'
    """
    first, *others = values.items()
    rest = "; ".join(f"{name.removeprefix('mixnet ')} {value}" for name, value in others)
    return f"{first[1]} ({rest})" if rest else first[1]
