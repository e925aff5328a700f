"""MixNet's published figures beside ours: runs everything, writes data and tables.

`make validate` runs it (some twenty minutes on two cores). Every run is kept in
docs/data/validation.json under a key that says what it was, so that an interrupt loses nothing and
only what is missing is run again; `--fresh` starts over. The tables between the markers of
docs/validation.md are written anew; the prose around them is kept by hand.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from lightloom import Scenario, _core
from lightloom.cost import bill_of, cost_of
from lightloom.gating import load_trace
from lightloom.trace import GatingTrace, synthetic

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "docs" / "data" / "validation.json"
PAGE = ROOT / "docs" / "validation.md"

MODELS = ("mixtral-8x22b", "mixtral-8x7b", "qwen-moe-32", "deepseek-r1")
RATES = (100, 200, 400, 800)
STATIC = ("fat-tree", "fat-tree-3to1", "rail-optimized", "topoopt")
# "never": circuits stay as a uniform demand would have them.
POLICIES = ("block", "reuse", "hide", "never")
TABLES = ("roofline", "paper-profile")
SPARSITIES = (0.0, 0.25, 0.5, 0.75)
SKEWED = (("fat-tree", ""), ("topoopt", ""), *(("mixnet", policy) for policy in POLICIES))
# All-to-alls of thousands of flows: rates may be stale for this share of an all-to-all's age.
TOLERANCE = {"qwen-moe-32": 0.005, "deepseek-r1": 0.005}


class Run(NamedTuple):
    """One simulated iteration; its fields make the key under which it is kept."""

    model: str
    table: str
    fabric: str
    gbps: int
    policy: str = ""
    gpus: int = 1024
    settings: tuple[tuple[str, Any], ...] = ()
    # Share of the experts that a source does not reach, for a made-up trace; None: the recording.
    sparsity: float | None = None

    @property
    def key(self) -> str:
        """A text that tells this run from every other."""
        extra = [f"{name}={value}" for name, value in self.settings]
        if self.sparsity is not None:
            extra.append(f"sparsity={self.sparsity}")
        return " ".join([*(str(part) for part in self[:6] if part != ""), *extra])

    def scenario(self) -> Scenario:
        """Return what is to be run."""
        changes: dict[str, Any] = {
            "compute.table": self.table,
            "engine.tolerance": TOLERANCE.get(self.model, 0.0),
            "fabric.link_bandwidth": f"{self.gbps} Gbps",
            **dict(self.settings),
        }
        if self.policy == "never":
            for phase in ("first_forward", "second_forward", "backward"):
                changes[f"fabric.reconfigure.{phase}"] = "reuse"
        elif self.policy:
            changes["fabric.reconfigure.first_forward"] = self.policy
        job = Scenario.preset(self.model, gpus=self.gpus, fabric=self.fabric)
        return job.with_(**changes)


def matrix() -> Iterator[Run]:
    """Every run of Figures 12 and 13, under each policy and compute table."""
    for table in TABLES:
        for model in MODELS:
            for gbps in RATES:
                for fabric in STATIC:
                    yield Run(model, table, fabric, gbps)
                for policy in POLICIES:
                    yield Run(model, table, "mixnet", gbps, policy)
                yield Run(
                    model, table, "mixnet", gbps, "hide", settings=(("fabric.share_eps", True),)
                )


def more() -> Iterator[Run]:
    """Larger batches (D.4), scale (D.5) and reconfiguration latency (D.7)."""
    for batch in (32, 64):
        settings = (("training.micro_batch", batch),)
        for gbps in RATES:
            yield Run("mixtral-8x7b", "roofline", "topoopt", gbps, settings=settings)
            yield Run("mixtral-8x7b", "roofline", "mixnet", gbps, "block", settings=settings)
    for gpus in (4096, 32768):
        for fabric, policy in (("fat-tree", ""), ("mixnet", "block")):
            yield Run("mixtral-8x7b", "roofline", fabric, 400, policy, gpus)
    for model in MODELS:
        settings = (("fabric.greedy_continue", False),)
        yield Run(model, "roofline", "mixnet", 400, "hide", settings=settings)
    for model in ("mixtral-8x7b", "mixtral-8x22b"):
        for sparsity in SPARSITIES:
            for fabric, policy in SKEWED:
                yield Run(model, "roofline", fabric, 400, policy, sparsity=sparsity)
    for delay in ("1 us", "100 us", "1 ms", "10 ms", "25 ms", "100 ms", "1 s", "10 s"):
        for table in TABLES:
            settings = (("fabric.ocs.delay", delay),)
            yield Run("mixtral-8x22b", table, "mixnet", 400, "reuse", settings=settings)


def trace_of(run: Run, job: Scenario) -> GatingTrace:
    """Return the recording, or a trace where each source reaches only some experts, drawn anew."""
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


def perform(run: Run) -> tuple[str, dict[str, Any]]:
    """Simulate one run; returns its key and figures."""
    job = run.scenario()
    counts = np.ascontiguousarray(trace_of(run, job).counts, dtype=np.uint32)
    began = time.process_time()
    workload = _core.Workload(job.to_core_json(), counts.reshape(-1), counts.shape)
    summary = workload.run(job.to_core_json())["summary"]
    figures = {
        name: round(summary[f"{name}_ps"] / 1e12, 6)
        for name in ("iteration", "compute", "exposed_a2a", "exposed_other", "reconfiguration")
    }
    cost = cost_of(bill_of(job), job.prices).total_usd
    return run.key, {
        **figures,
        "reconfigurations": int(summary["reconfigurations"]),
        "cost_usd": round(cost),
        "cpu_s": round(time.process_time() - began, 2),
    }


def run_missing(data: dict[str, Any], models: set[str]) -> None:
    """Run what `data` lacks of some models, writing it after every run."""
    every = (run for run in (*matrix(), *more()) if run.model in models)
    todo = [run for run in every if run.key not in data]
    DATA.parent.mkdir(parents=True, exist_ok=True)
    # Long runs first, so that the last ones are short.
    todo.sort(key=lambda run: (run.model != "deepseek-r1", -run.gpus, run.model != "qwen-moe-32"))
    with multiprocessing.get_context("spawn").Pool(2, maxtasksperchild=8) as pool:
        for at, (key, figures) in enumerate(pool.imap_unordered(perform, todo), 1):
            data[key] = figures
            DATA.write_text(json.dumps(dict(sorted(data.items())), indent=1) + "\n")
            print(f"{at} of {len(todo)}  {key}  {figures['iteration']:.3f} s", file=sys.stderr)


class Figures:
    """The runs by what they were, and the ratios that the paper speaks of."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data

    def of(self, *parts: Any, **settings: Any) -> dict[str, Any]:
        """Return the figures of a `Run`."""
        return dict(self.data[Run(*parts, **settings).key])

    def time(self, *parts: Any, **settings: Any) -> float:
        """Return the iteration time of a `Run` [s]."""
        return float(self.of(*parts, **settings)["iteration"])

    def gain(self, model: str, table: str, rival: str, gbps: int, policy: str) -> float:
        """How many times faster MixNet is than `rival`."""
        return self.time(model, table, rival, gbps) / self.time(
            model, table, "mixnet", gbps, policy
        )

    def value(self, model: str, table: str, rival: str, gbps: int, policy: str) -> float:
        """How many times more iterations a dollar MixNet gives than `rival`."""
        ours = self.of(model, table, "mixnet", gbps, policy)
        theirs = self.of(model, table, rival, gbps)
        return float(
            theirs["iteration"] * theirs["cost_usd"] / (ours["iteration"] * ours["cost_usd"])
        )


def markdown(head: list[str], rows: list[list[str]]) -> str:
    """Return a table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def times_table(figures: Figures, table: str) -> str:
    """Show the iteration time of every fabric, and of MixNet under each policy."""
    names = [*STATIC, *(f"mixnet, {policy}" for policy in POLICIES), "mixnet, hide, shared EPS"]
    rows = []
    for model in MODELS:
        for gbps in RATES:
            seconds = [figures.time(model, table, fabric, gbps) for fabric in STATIC]
            seconds += [figures.time(model, table, "mixnet", gbps, policy) for policy in POLICIES]
            shared = (("fabric.share_eps", True),)
            seconds.append(figures.time(model, table, "mixnet", gbps, "hide", settings=shared))
            best = min(seconds)
            rows.append(
                [model, str(gbps)] + [f"**{s:.2f}**" if s == best else f"{s:.2f}" for s in seconds]
            )
    return markdown(["model", "Gbps", *names], rows)


def gains_table(figures: Figures, rival: str, value: bool) -> str:
    """Speed (or performance per dollar) of MixNet over a rival, mean over rates and per rate."""
    measure = figures.value if value else figures.gain
    rows = []
    for model in MODELS:
        for table in TABLES:
            for policy in POLICIES:
                each = [measure(model, table, rival, gbps, policy) for gbps in RATES]
                mean = sum(each) / len(each)
                rows.append([model, table, policy, *(f"{x:.2f}" for x in each), f"{mean:.2f}"])
    return markdown(["model", "compute", "policy", *map(str, RATES), "mean"], rows)


def split_table(figures: Figures) -> str:
    """Where MixNet's iteration goes at 400 Gbps."""
    names = ("compute", "exposed_a2a", "exposed_other", "reconfiguration")
    rows = []
    for model in MODELS:
        for table in TABLES:
            for policy in POLICIES:
                run = figures.of(model, table, "mixnet", 400, policy)
                cells = [f"{run[name]:.2f}" for name in names]
                rows.append([model, table, policy, *cells, str(run["reconfigurations"])])
    return markdown(
        ["model", "compute", "policy", "compute s", "all-to-all s", "other s", "dark s", "changes"],
        rows,
    )


def more_tables(figures: Figures) -> dict[str, str]:
    """Make the appendix's tables."""
    batches = []
    for batch in (32, 64):
        settings = (("training.micro_batch", batch),)
        each = []
        for gbps in RATES:
            rival = figures.time("mixtral-8x7b", "roofline", "topoopt", gbps, settings=settings)
            ours = figures.time(
                "mixtral-8x7b", "roofline", "mixnet", gbps, "block", settings=settings
            )
            each.append(rival / ours)
        batches.append([str(batch), *(f"{x:.2f}" for x in each), f"{sum(each) / len(each):.2f}"])
    scale = []
    for gpus in (1024, 4096, 32768):
        fat = figures.of("mixtral-8x7b", "roofline", "fat-tree", 400, gpus=gpus)
        ours = figures.of("mixtral-8x7b", "roofline", "mixnet", 400, "block", gpus=gpus)
        dollar = fat["iteration"] * fat["cost_usd"] / (ours["iteration"] * ours["cost_usd"])
        scale.append(
            [
                f"{gpus:,}",
                f"{fat['iteration']:.2f}",
                f"{ours['iteration']:.2f}",
                f"{fat['cost_usd'] / ours['cost_usd']:.2f}",
                f"{dollar:.2f}",
                f"{ours['cpu_s']:.1f}",
            ]
        )
    delays = []
    for delay in ("1 us", "100 us", "1 ms", "10 ms", "25 ms", "100 ms", "1 s", "10 s"):
        cells = [delay]
        for table in TABLES:
            settings = (("fabric.ocs.delay", delay),)
            fastest = figures.time(
                "mixtral-8x22b",
                table,
                "mixnet",
                400,
                "reuse",
                settings=(("fabric.ocs.delay", "1 us"),),
            )
            now = figures.time("mixtral-8x22b", table, "mixnet", 400, "reuse", settings=settings)
            cells.append(f"{now / fastest:.2f}")
        delays.append(cells)
    greedy = []
    for model in MODELS:
        cells = [model]
        for going in (True, False):
            settings = () if going else (("fabric.greedy_continue", False),)
            run = figures.of(model, "roofline", "mixnet", 400, "hide", settings=settings)
            cells += [f"{run['exposed_a2a']:.2f}", f"{run['iteration']:.2f}"]
        greedy.append(cells)
    skew = []
    for model in ("mixtral-8x7b", "mixtral-8x22b"):
        for sparsity in SPARSITIES:
            runs = [
                figures.of(model, "roofline", fabric, 400, policy, sparsity=sparsity)
                for fabric, policy in SKEWED
            ]
            skew.append(
                [model, f"{sparsity:g}"]
                + [f"{run['iteration']:.2f}" for run in runs]
                + [f"{run['exposed_a2a']:.2f}" for run in runs[:2] + runs[-1:]]
            )
    return {
        "greedy": markdown(
            ["model", "going on: a2a s", "iteration s", "stopping: a2a s", "iteration s"], greedy
        ),
        "skew": markdown(
            [
                "model",
                "sparsity",
                "fat-tree s",
                "topoopt s",
                *(f"mixnet {policy} s" for policy in POLICIES),
                "a2a: fat-tree",
                "topoopt",
                "mixnet",
            ],
            skew,
        ),
        "batches": markdown(["micro-batch", *map(str, RATES), "mean"], batches),
        "scale": markdown(
            ["GPUs", "fat-tree s", "MixNet s", "cost ratio", "per dollar", "CPU s"], scale
        ),
        "delays": markdown(["delay", *TABLES], delays),
    }


def write_page(data: dict[str, Any]) -> None:
    """Replace the tables of docs/validation.md."""
    figures = Figures(data)
    tables = {
        "times-roofline": times_table(figures, "roofline"),
        "times-paper-profile": times_table(figures, "paper-profile"),
        "gain-topoopt": gains_table(figures, "topoopt", False),
        "gain-3to1": gains_table(figures, "fat-tree-3to1", False),
        "gain-fat-tree": gains_table(figures, "fat-tree", False),
        "value-fat-tree": gains_table(figures, "fat-tree", True),
        "split": split_table(figures),
        **more_tables(figures),
    }
    text = PAGE.read_text(encoding="utf-8")
    for name, table in tables.items():
        start, end = f"<!-- {name} -->", f"<!-- /{name} -->"
        if start not in text or end not in text:
            raise SystemExit(f"{PAGE}: the markers {start} and {end} are missing")
        before, _, rest = text.partition(start)
        after = rest.partition(end)[2]
        text = f"{before}{start}\n{table}\n{end}{after}"
    PAGE.write_text(text, encoding="utf-8")


def main() -> None:
    """Run what is missing and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fresh", action="store_true", help="run everything again")
    parser.add_argument("--tables", action="store_true", help="only write the tables anew")
    parser.add_argument("--models", default=",".join(MODELS), help="run only these")
    options = parser.parse_args()
    data = {}
    if DATA.exists() and not options.fresh:
        data = json.loads(DATA.read_text(encoding="utf-8"))
    if not options.tables:
        run_missing(data, set(options.models.split(",")))
    if options.models == parser.get_default("models"):
        write_page(data)


if __name__ == "__main__":
    main()
