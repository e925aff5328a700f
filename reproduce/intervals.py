"""Put intervals of the README's comparisons into docs/intervals.md, and every time into docs/data.

``python reproduce/intervals.py`` runs two models with 20 seeds, 5 gating traces and 3 compute
profiles at two rates: 300 draws, each on every fabric, some 30 CPU minutes. Every run is kept in
the user's cache, so that an interrupted call goes on; ``--seeds 2 --print`` tries it; ``--again``
counts dollars anew and runs nothing. Ratios are taken draw by draw. Nothing is chosen on these
runs: fabrics run as they ship.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from lightloom import Scenario
from lightloom.cost import on_fabrics
from lightloom.draws.axes import Draws
from lightloom.draws.spread import spread
from lightloom.money import money_of
from lightloom.papers.mixnet.jobs import when
from lightloom.progress import runs as shown
from lightloom.runs import ScenarioRun, perform, users
from lightloom.units import Rate
from tables import DOCS, put

MODELS = ("mixtral-8x7b", "qwen-moe-32")
GPUS, MICRO_BATCHES = 128, 4
SEEDS = 20
TRACES = ("builtin", "uniform", "calibrated", "zipf-receiver", "pair-skew")
PROFILES = ("share", "shape", "paper-profile")
# As many packet NICs as MixNet's money buys without over-subscription (docs/validation.md).
NICS = {100: 5, 400: 3}
NEVER = "mixnet, never changed"
FEW = "as many NICs as the money buys"


class Claim(NamedTuple):
    """A ratio of two fabrics, above 1 where the claim holds."""

    what: str
    above: str
    below: str
    dollars: str = ""


CLAIMS = (
    Claim("MixNet takes longer than the fat-tree", "mixnet", "fat-tree"),
    Claim("packet switches for the same money take longer", "mixnet-same-money", "mixnet"),
    Claim("as many NICs as the money buys take longer", FEW, "mixnet"),
    Claim("circuits that never change take longer", NEVER, "mixnet"),
    Claim("TopoOpt takes longer than MixNet", "topoopt", "mixnet"),
    Claim("MixNet per network dollar, over the fat-tree", "fat-tree", "mixnet", "network"),
    Claim("MixNet per cluster dollar, over the fat-tree", "fat-tree", "mixnet", "cluster"),
    Claim("TopoOpt per cluster dollar, over the fat-tree", "fat-tree", "topoopt", "cluster"),
    Claim("TopoOpt per cluster dollar, over MixNet", "mixnet", "topoopt", "cluster"),
)


def fabrics(job: Scenario, gbps: int) -> dict[str, Scenario]:
    """Return what is run of a job at a rate."""
    rate = Rate.parse(f"{gbps} Gbps")
    names = ("fat-tree", "mixnet", "topoopt", "mixnet-same-money", "few-nics")
    found = dict(zip(names, on_fabrics(job, names, [rate]), strict=True))
    found[NEVER] = found["mixnet"].with_(dict(when("reuse", "reuse")))
    found[FEW] = found.pop("few-nics").with_({"fabric.nics": NICS[gbps]})
    return found


def measured(model: str, gbps: int, seeds: int) -> dict[str, Any]:
    """Run all draws of a model at a rate; times [s] by fabric, in the order of draws."""
    print(f"{model}, {gbps} Gbps", file=sys.stderr)
    plan = Draws.of(_job(model), seeds=seeds, traces=TRACES, profiles=PROFILES)
    names = list(fabrics(plan.first, gbps))
    every = plan.scenarios(lambda one: list(fabrics(one, gbps).values()))
    runs = [
        ScenarioRun.of(one, name=f"{name}, {draw.label}")
        for draw, some in zip(plan.draws, every, strict=True)
        for name, one in zip(names, some, strict=True)
    ]
    with shown(len(runs)) as on_progress:
        done = perform(
            runs, cache=users(), tables=False, first_failure_stops=True, on_progress=on_progress
        )
    if done.interrupted is not None:
        sys.exit("interrupted: what has run is kept, and the same call goes on")
    for _, error in done.failures:
        raise error
    found: dict[str, list[float]] = {name: [] for name in names}
    for at, (run, outcome) in enumerate(zip(runs, done.outcomes, strict=True)):
        assert outcome is not None
        found[names[at % len(names)]].append(float(run.figures(outcome)["iteration_s"] or 0))
    draws = [[draw.seed, draw.trace, draw.profile] for draw in plan.draws]
    return {"model": model, "gbps": gbps, "draws": draws, "times_s": found}


def dollars(model: str, gbps: int) -> dict[str, dict[str, float]]:
    """Return what each fabric's network and cluster cost [US dollars]; no draw moves that."""
    paid = {name: money_of(one) for name, one in fabrics(_job(model), gbps).items()}
    return {
        of: {name: getattr(money, f"{of}_usd") for name, money in paid.items()}
        for of in ("network", "cluster")
    }


def _job(model: str) -> Scenario:
    return Scenario.preset(model, gpus=GPUS).with_({"training.micro_batches": MICRO_BATCHES})


def ratios(
    claim: Claim, times: Mapping[str, Sequence[float]], paid: Mapping[str, Mapping[str, float]]
) -> list[float]:
    """Return a claim's ratio in each draw."""
    scale = 1.0
    if claim.dollars:
        scale = paid[claim.dollars][claim.above] / paid[claim.dollars][claim.below]
    pairs = zip(times[claim.above], times[claim.below], strict=True)
    return [scale * above / below for above, below in pairs]


def rows(runs: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield a row a model, rate and claim."""
    for run in runs:
        paid = dollars(run["model"], run["gbps"])
        for claim in CLAIMS:
            values = ratios(claim, run["times_s"], paid)
            cells: dict[tuple[str, str], list[float]] = {}
            for (_, trace, profile), value in zip(run["draws"], values, strict=True):
                cells.setdefault((trace, profile), []).append(value)
            seeds = [spread(some) for some in cells.values()]
            yield {
                **{"model": run["model"], "gbps": run["gbps"], "claim": claim.what},
                **spread(values).as_json(),
                "least": min(values),
                "most": max(values),
                "of_seeds": max(one.high - one.low for one in seeds),
                "holds": sum(value > 1 for value in values) / len(values),
            }


def lines(found: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, ...]]:
    """Yield the table of the page."""
    yield (
        *("model", "Gbps", "ratio", "median", "5th to 95th percentile", "least to most"),
        *("seeds alone", "draws above 1", "1 in the interval"),
    )
    for row in found:
        yield (
            row["model"],
            f"{row['gbps']}",
            row["claim"],
            f"{row['median']:.3f}",
            f"{row['low']:.3f} to {row['high']:.3f}",
            f"{row['least']:.3f} to {row['most']:.3f}",
            f"{row['of_seeds']:.3f}",
            f"{row['holds']:.0%}",
            "yes" if row["low"] <= 1 <= row["high"] else "no",
        )


def main() -> None:
    """Run what is not kept yet, and write the page's table and every time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--print", action="store_true", help="write nothing")
    parser.add_argument("--again", action="store_true", help="from the times that are written")
    asked = parser.parse_args()
    data = DOCS / "data" / "intervals.json"
    if asked.again:
        runs = json.loads(data.read_text("utf-8"))["runs"]
    else:
        runs = [measured(model, gbps, asked.seeds) for model in MODELS for gbps in NICS]
    table = list(lines(list(rows(runs))))
    if asked.print:
        print("\n".join(" | ".join(line) for line in table))
        return
    put("intervals", "intervals", table)
    text = ",\n  ".join(json.dumps(run) for run in runs)
    data.write_text(f'{{"runs": [\n  {text}\n]}}\n', "utf-8")


if __name__ == "__main__":
    main()
