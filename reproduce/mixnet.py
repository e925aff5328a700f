"""Put what `lightloom reproduce mixnet` made into docs/validation.md and docs/data/mixnet.json.

First ``lightloom reproduce mixnet --out DIR``, then ``python reproduce/mixnet.py DIR``. Some tables
go beyond the paper; their iterations are simulated here, if DIR does not hold them yet. The prose
between the tables is kept by hand.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lightloom.papers.mixnet.jobs import (
    KINDS,
    MODELS,
    RATES,
    STATIC,
    TABLES,
    gains,
    mean,
    run,
    some,
)
from lightloom.papers.runs import Outcome, Run, Store
from lightloom.scenario import Scenario
from lightloom.trace import synthetic
from tables import DOCS

PAGE = DOCS / "validation.md"
DATA = DOCS / "data" / "mixnet.json"
SPARSITIES = (0.0, 0.25, 0.5, 0.75)
SKEWED = ("fat-tree", "topoopt", *KINDS)
# Their rows are the shipped recording, a matrix of every pair of GPUs, and those of Figure 12.
_ELSEWHERE = (4, 5, 13)


def skewed(model: str, fabric: str, sparsity: float) -> Run:
    """Return a run with a made-up trace where a source reaches only some experts."""
    trace = {"gating.trace": f"traces/sparsity-{sparsity}.parquet"}
    return run(fabric, model, 400, changes=trace)


def draw_traces() -> None:
    """Make up those traces, in the current directory."""
    Path("traces").mkdir(exist_ok=True)
    job = Scenario.preset("mixtral-8x7b")
    shape = synthetic.Shape(
        iterations=50, layers=8, sources=job.parallelism.ep, experts=job.model.experts,
        top_k=job.model.top_k, tokens=4096, seed=1,
    )  # fmt: skip
    for sparsity in SPARSITIES:
        trace = synthetic.generate("sparse", shape, synthetic.Knobs(sparsity=sparsity))
        trace.save(Path("traces") / f"sparsity-{sparsity}.parquet")


def varied(model: str, kind: str, **changes: Any) -> Run:
    """Return a run of a kind of MixNet at 400 Gbps with keys of its fabric changed."""
    return run(kind, model, 400, changes={f"fabric.{name}": v for name, v in changes.items()})


def beyond() -> Iterable[Run]:
    """Return the runs of the tables that the paper has no figure for."""
    for model in ("mixtral-8x7b", "mixtral-8x22b"):
        for sparsity in SPARSITIES:
            for fabric in SKEWED:
                yield skewed(model, fabric, sparsity)
    for model in MODELS:
        yield varied(model, "mixnet hide")
        yield varied(model, "mixnet hide", greedy_continue=False)
        for kind in ("mixnet", "mixnet never"):
            yield varied(model, kind)
            yield varied(model, kind, share_eps=True)


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def times(rows: list[dict[str, Any]], table: str) -> str:
    """Show the iteration time on every fabric, bold the best."""
    names = (*STATIC, *KINDS)
    lines = []
    for model in MODELS:
        for gbps in RATES:
            mine = some(rows, model=model, table=table, gbps=gbps)
            at = {row["fabric"]: row["iteration_s"] for row in mine}
            best = min(at.values())
            cells = (f"**{at[n]:.2f}**" if at[n] == best else f"{at[n]:.2f}" for n in names)
            lines.append([model, str(gbps), *cells])
    return markdown(["model", "Gbps", *names], lines)


def ratios(rows: list[dict[str, Any]], rival: str, a_dollar: bool = False) -> str:
    """Show how many times faster (or faster a dollar) each MixNet is than a rival."""
    lines = []
    for model in MODELS:
        for table in TABLES:
            mine = some(rows, model=model, table=table)
            for kind in KINDS:
                each = gains(mine, rival, kind, a_dollar=a_dollar)
                cells = (f"{value:.2f}" for value in (*each, mean(each)))
                lines.append([model, table, kind, *cells])
    return markdown(["model", "compute", "MixNet", *map(str, RATES), "mean"], lines)


def split(rows: list[dict[str, Any]]) -> str:
    """Show where MixNet's iteration goes at 400 Gbps."""
    columns = ("compute_s", "exposed_a2a_s", "exposed_other_s", "reconfiguration_s")
    head = ["model", "compute", "MixNet", "compute s", "all-to-all s", "other s", "dark s"]
    lines = []
    for model in MODELS:
        for table in TABLES:
            for kind in KINDS:
                (row,) = some(rows, model=model, table=table, gbps=400, fabric=kind)
                cells = (f"{row[name]:.2f}" for name in columns)
                lines.append([model, table, kind, *cells, str(row["reconfigurations"])])
    return markdown([*head, "changes"], lines)


def beyond_tables(ran: Mapping[Run, Outcome]) -> dict[str, str]:
    """Make the tables that go beyond the paper."""
    greedy: list[list[str]] = []
    shared: list[list[str]] = []
    skew: list[list[str]] = []
    for model in MODELS:
        on = ran[varied(model, "mixnet hide")]
        off = ran[varied(model, "mixnet hide", greedy_continue=False)]
        both = (on.exposed_a2a_s, on.iteration_s, off.exposed_a2a_s, off.iteration_s)
        greedy.append([model, *(f"{value:.2f}" for value in both)])
        values = []
        for kind in ("mixnet", "mixnet never"):
            values += [ran[varied(model, kind)], ran[varied(model, kind, share_eps=True)]]
        shared.append([model, *(f"{value.iteration_s:.2f}" for value in values)])
    for model in ("mixtral-8x7b", "mixtral-8x22b"):
        for sparsity in SPARSITIES:
            each = {fabric: ran[skewed(model, fabric, sparsity)] for fabric in SKEWED}
            spent = [each[name].exposed_a2a_s for name in ("fat-tree", "topoopt", "mixnet")]
            cells = [f"{one.iteration_s:.2f}" for one in each.values()]
            skew.append([model, f"{sparsity:g}", *cells, *(f"{value:.2f}" for value in spent)])
    return {
        "greedy": markdown(
            ["model", "going on: a2a s", "iteration s", "stopping: a2a s", "iteration s"], greedy
        ),
        "shared": markdown(
            ["model", "mixnet s", "shared EPS", "mixnet never s", "shared EPS"], shared
        ),
        "skew": markdown(
            ["model", "sparsity", *(f"{name} s" for name in SKEWED), "a2a: fat-tree", "topoopt",
             "mixnet"],
            skew,
        ),
    }  # fmt: skip


def write_page(tables: Mapping[str, str]) -> None:
    """Replace the tables between their markers."""
    text = PAGE.read_text(encoding="utf-8")
    for name, table in tables.items():
        start, end = f"<!-- {name} -->", f"<!-- /{name} -->"
        if start not in text or end not in text:
            sys.exit(f"{PAGE}: the markers {start} and {end} are missing")
        before, _, rest = text.partition(start)
        after = rest.partition(end)[2]
        text = f"{before}{start}\n{table}\n{end}{after}"
    PAGE.write_text(text, encoding="utf-8")


def write_data(made: Mapping[str, Any], store: Store, runs: Iterable[Run]) -> None:
    """Keep the rows, the runs and the table, a line each."""
    parts = {
        "rows": [row for row in made["rows"] if row["figure"] not in _ELSEWHERE],
        "beyond": [{"run": run.key, **asdict(ran)} for run, ran in store.of(runs).items()],
        "table": made["table"],
    }
    body = ",\n".join(
        f'  "{name}": [\n    ' + ",\n    ".join(map(json.dumps, rows)) + "\n  ]"
        for name, rows in parts.items()
    )
    text = f'{{\n  "cpu_s": {json.dumps(made["seconds"] | {"all": made["cpu_s"]})},\n{body}\n}}\n'
    json.loads(text)
    DATA.write_text(text, encoding="utf-8")


def report(name: str, share: float) -> None:
    """Say which run has ended."""
    if share >= 1:
        print(name, file=sys.stderr)


def main(directory: Path) -> None:
    """Copy what a finished reproduction holds."""
    made = json.loads((directory / "rows.json").read_text(encoding="utf-8"))
    figures = {row["figure"] for row in made["rows"]}
    if made["missing"] or 12 not in figures:
        sys.exit(
            f"{directory}: not finished: {', '.join(made['missing']) or 'figures are left out'}"
        )
    os.chdir(directory)
    draw_traces()
    store = Store(Path("runs"))
    runs = list(dict.fromkeys(beyond()))
    store.perform(runs, report, None)
    twelve = [row for row in made["rows"] if row["figure"] == 12]
    lines: dict[int, list[Sequence[str]]] = {}
    for row in made["table"]:
        cells = list(row.values())
        lines.setdefault(int(cells[0]), []).append(cells[1:])
    write_page(
        {
            **{
                f"figure-{number}": markdown(["setting", "what", "MixNet says", "here"], some_lines)
                for number, some_lines in lines.items()
            },
            **{f"times-{table}": times(twelve, table) for table in TABLES},
            "gain-topoopt": ratios(twelve, "topoopt"),
            "gain-3to1": ratios(twelve, "fat-tree-3to1"),
            "gain-fat-tree": ratios(twelve, "fat-tree"),
            "value-fat-tree": ratios(twelve, "fat-tree", a_dollar=True),
            "split": split(twelve),
            **beyond_tables(store.of(runs)),
            "cpu": markdown(
                ["figure", "CPU s"],
                [[number, f"{seconds:.0f}"] for number, seconds in made["seconds"].items()]
                + [["all, shared runs once", f"{made['cpu_s']:.0f}"]],
            ),
        }
    )
    write_data(made, store, runs)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
