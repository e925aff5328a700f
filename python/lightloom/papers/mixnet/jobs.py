"""What several of MixNet's figures run and compare: models, fabrics, policies of circuits.

Modelled: jobs of Section 7 on 1,024 H100 GPUs, one iteration each. A *kind* of MixNet is the preset
with some values changed. With carrier ``paper`` all-to-alls travel as each fabric's paper has them;
with ``auto`` every fabric is at its best (``docs/carriers.md``), and MixNet without its optics
stands among them. Checked: keys of runs are unique, and the bills, in
``tests/test_mixnet_reproduce.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from lightloom.cost import on_fabrics
from lightloom.papers.part import Context, Part, Rows
from lightloom.papers.runs import Run
from lightloom.scenario import Scenario
from lightloom.units import Rate

MODELS = ("mixtral-8x22b", "mixtral-8x7b", "qwen-moe-32", "deepseek-r1")
RATES = (100, 200, 400, 800)
TABLES = ("roofline", "paper-profile")
STATIC = ("fat-tree", "fat-tree-3to1", "rail-optimized", "topoopt")
# Algorithm 1 at every demand.
PRINTED = {"fabric.decision": "algorithm-1", "fabric.hysteresis": False}


def when(first: str, rest: str = "hide") -> dict[str, str]:
    """Return when circuits change: before the first all-to-all of a layer, and before the others.

    >>> when("block")["fabric.reconfigure.backward"]
    'hide'
    """
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
    "mixnet block": {**PRINTED, **when("block")},
    "mixnet reuse": {**PRINTED, **when("reuse")},
    "mixnet hide": {**PRINTED, **when("hide")},
    "mixnet never": {**PRINTED, **when("reuse", "reuse")},
}
# Those that the tables name.
MAIN = ("mixnet", "mixnet block", "mixnet never")
# MixNet without its optics: on packet switches too, unplugged, and packet switches for its money.
WITHOUT = ("mixnet-all-packet", "mixnet-unplugged", "mixnet-same-money")
# What is set side by side, by carrier.
FIELDS = {"paper": (*STATIC, *MAIN), "auto": (*STATIC, "mixnet", *WITHOUT)}
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
    carrier: str = "paper",
) -> Run:
    """Return a run on a fabric or a kind of MixNet, with all links of one rate.

    >>> run("topoopt", "mixtral-8x7b", 400).key
    'mixtral-8x7b topoopt 1024 compute.table=roofline fabric.link_bandwidth=400 Gbps'
    >>> run("mixnet never", "mixtral-8x7b", 400).fabric
    'mixnet'
    >>> dict(run("mixnet-same-money", "mixtral-8x7b", 400).changes)["fabric.carrier"]
    'delegate'
    """
    values = {"compute.table": table, "fabric.link_bandwidth": f"{gbps:g} Gbps"}
    if fabric in WITHOUT:
        values |= _without(fabric, model, gpus, gbps)
    elif carrier != "paper":
        values["fabric.carrier"] = carrier
    values |= {**KINDS.get(fabric, {}), **(changes or {})}
    return Run(model, "mixnet" if fabric in KINDS else fabric, gpus, tuple(values.items()))


@cache
def _without(fabric: str, model: str, gpus: int, gbps: float) -> dict[str, Any]:
    """Return what a comparison sets on MixNet without optics."""
    job = Scenario.preset(model, gpus=gpus)
    (job,) = on_fabrics(job, (fabric,), (Rate.parse(f"{gbps:g} Gbps"),))
    values = {"fabric.carrier": job.fabric.carrier}
    if fabric == "mixnet-same-money":
        values["fabric.oversubscription"] = job.fabric.oversubscription
    return values


def matrix(
    model: str,
    table: str,
    fabrics: Iterable[str],
    rates: Sequence[int] | None = None,
    changes: Mapping[str, Any] | None = None,
    carrier: str = "paper",
) -> Runs:
    """Return a job's runs on each fabric at each rate."""
    return {
        (fabric, gbps): run(fabric, model, gbps, changes=changes, table=table, carrier=carrier)
        for fabric in fabrics
        for gbps in rates or RATES
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
    rows: Rows,
    rival: str,
    fabric: str,
    *,
    a_dollar: bool = False,
    rates: Sequence[int] | None = None,
) -> list[float]:
    """Return how many times faster `fabric` is than `rival`, or faster a dollar.

    At each of some rates, or at all that there are, in order.

    >>> mine = {"fabric": "mixnet", "gbps": 400, "iteration_s": 2.0, "cost_usd": 5.0}
    >>> other = {"fabric": "fat-tree", "gbps": 400, "iteration_s": 1.0, "cost_usd": 30.0}
    >>> gains([mine, other], "fat-tree", "mixnet")
    [0.5]
    >>> gains([mine, other], "fat-tree", "mixnet", a_dollar=True, rates=[400])
    [3.0]
    """
    at = {(row["fabric"], row["gbps"]): row for row in rows}

    def pace(name: str, gbps: int) -> float:
        row = at[name, gbps]
        return 1 / float(row["iteration_s"] * (row["cost_usd"] if a_dollar else 1.0))

    rates = rates or sorted(gbps for name, gbps in at if name == fabric)
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


def span(values: Sequence[float]) -> str:
    """Say the least and the most.

    >>> span([1.0, 2.0])
    '1.00 to 2.00'
    """
    return f"{min(values):.2f} to {max(values):.2f}"


def by_kind(values: Mapping[str, str]) -> str:
    """Say a value for each kind of MixNet in one cell.

    >>> by_kind({"mixnet": "1.3", "mixnet block": "0.9"})
    '1.3 (block 0.9)'
    """
    first, *others = values.items()
    rest = "; ".join(f"{name.removeprefix('mixnet ')} {value}" for name, value in others)
    return f"{first[1]} ({rest})" if rest else first[1]
