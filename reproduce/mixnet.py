"""Put what `lightloom reproduce mixnet` made into docs/validation.md and docs/data/mixnet.json.

First ``lightloom reproduce mixnet --out DIR``, then ``python reproduce/mixnet.py DIR``. Some tables
go beyond the paper; their iterations are simulated here, if DIR does not hold them yet. The prose
between the tables is kept by hand.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any

from lightloom.failures import parse
from lightloom.papers.mixnet.figure14 import CASES
from lightloom.papers.mixnet.jobs import (
    FIELDS,
    MAIN,
    MODELS,
    RATES,
    TABLES,
    WITHOUT,
    gains,
    mean,
    run,
    some,
)
from lightloom.papers.mixnet.timelines import layer_steps
from lightloom.papers.part import Context
from lightloom.papers.runs import Outcome, Run, Store, price
from tables import DOCS

PAGE = DOCS / "validation.md"
DATA = DOCS / "data" / "mixnet.json"
# What `mixnet` is beside where its iteration goes.
_SPLIT = (
    ("fat-tree", "paper"), ("fat-tree", "auto"), ("mixnet", "paper"), ("mixnet", "auto"),
    ("mixnet block", "paper"),
)  # fmt: skip
# Their rows are the shipped recording, a matrix of every pair of GPUs, and those of Figure 12.
_ELSEWHERE = (4, 5, 13)


def varied(model: str, kind: str, **changes: Any) -> Run:
    """Return a run of a kind of MixNet at 400 Gbps with keys of its fabric changed."""
    return run(kind, model, 400, changes={f"fabric.{name}": v for name, v in changes.items()})


def faster(times: int) -> dict[str, str]:
    """Return H100s that compute, and reach their memory, so many times as fast.

    >>> faster(8)["compute.memory_bandwidth"]
    '26.8 TB/s'
    """
    return {
        "compute.peak_flops": f"{989 * times} Tflop/s",
        "compute.memory_bandwidth": f"{3.35 * times:g} TB/s",
    }


def causes() -> dict[tuple[str, str], list[tuple[Run, Run]]]:
    """Return the runs that isolate a cause: pairs of a rival and MixNet, by what and how.

    Each has one thing other than the runs whose departure it explains.
    """
    quick = {"fabric.ocs.delay": "1 us"}
    wide = {"training.dispatch_bytes": 4, "training.activation_bytes": 4}

    def over(
        rival: str, model: str, kind: str, rates: Sequence[float] = RATES, table: str = "roofline",
        mine: Mapping[str, Any] | None = None, both: Mapping[str, Any] | None = None,
    ) -> list[tuple[Run, Run]]:  # fmt: skip
        return [
            (run(rival, model, gbps, table=table, changes=both),
             run(kind, model, gbps, table=table, changes={**(both or {}), **(mine or {})}))
            for gbps in rates
        ]  # fmt: skip

    found = {}
    how = "mixtral-8x22b, `block`, a switch of 1 us"
    found[how, "over TopoOpt"] = over("topoopt", "mixtral-8x22b", "mixnet block", mine=quick)
    slow = [gbps / 8 for gbps in RATES]
    for model in (*MODELS[:2], "deepseek-r1"):
        how = f"{model}, paper-profile, links of an eighth of the rate"
        found[how, "over TopoOpt"] = over("topoopt", model, "mixnet", slow, "paper-profile")
    found["mixtral-8x22b, paper-profile, links of an eighth of the rate", "over 3:1"] = over(
        "fat-tree-3to1", "mixtral-8x22b", "mixnet", slow, "paper-profile"
    )
    found["mixtral-8x22b, elements of 4 bytes instead of 2", "over TopoOpt"] = over(
        "topoopt", "mixtral-8x22b", "mixnet", both=wide
    )
    how = "qwen-moe-32, GPUs a thousand times as fast, 100 Gbps"
    found[how, "over TopoOpt"] = over("topoopt", "qwen-moe-32", "mixnet", (100,), both=faster(1000))
    for many, how in ((8, "compute as with a batch of 8"), (1000, "no compute")):
        grown = {"training.micro_batch": 64, **faster(many)}
        found[f"mixtral-8x7b, a batch of 64, {how}", "over TopoOpt"] = over(
            "topoopt", "mixtral-8x7b", "mixnet", both=grown
        )
    for model in MODELS:
        each = [run("mixnet", model, gbps, carrier="auto") for gbps in (100, 400)]
        pairs = [(_fewer(mine, gbps), mine) for mine, gbps in zip(each, (100, 400), strict=True)]
        nics = " and ".join(str(dict(few.changes)["fabric.nics"]) for few, _ in pairs)
        how = f"{model}, `auto`, 100 and 400 Gbps"
        found[how, f"over {nics} packet NICs, for no more money"] = pairs
    return found


def _fewer(mine: Run, gbps: int) -> Run:
    """Return the run with as many packet NICs, and no optics, as a MixNet's money buys."""
    fewer = (
        run("mixnet-unplugged", mine.model, gbps, changes={"fabric.nics": nics})
        for nics in range(8, 0, -1)
    )
    most = price(mine.scenario())
    return next(few for few in fewer if price(few.scenario()) <= most)


# A layer's forward pass with one thing changed: the model, the table of compute times, what.
LAYERS: Mapping[str, tuple[str, str, Mapping[str, Any]]] = {
    "mixtral-8x7b, paper-profile, links of 28 Gbps": (
        "mixtral-8x7b", "paper-profile", {"fabric.link_bandwidth": "28 Gbps"}
    ),
    "qwen-moe, roofline, no shared expert": (
        "qwen-moe", "roofline", {"model.shared_experts": 0, "model.shared_intermediate": 0}
    ),
    "qwen-moe, roofline, links of 200 Gbps": (
        "qwen-moe", "roofline", {"fabric.link_bandwidth": "200 Gbps"}
    ),
}  # fmt: skip


def broken() -> dict[tuple[str, str, str], tuple[Run, Run]]:
    """Return the runs that isolate what a failure costs: without it and with it."""
    nvlink = ("NVLink at the rate of a NIC", {"cluster.scale_up_bandwidth": "400 Gbps"})
    packet = ("packet NICs four times as fast", {"fabric.eps.link_bandwidth": "1600 Gbps"})
    found = {}
    for model, case, (how, changes) in (
        ("mixtral-8x22b", "one GPU, backup by OCS", nvlink),
        ("mixtral-8x22b", "one server", packet),
        ("deepseek-r1", "one optical NIC", packet),
        ("deepseek-r1", "one server", packet),
    ):
        failing = {**changes, "failures": tuple(map(parse, CASES[case]))}
        found[model, case, how] = (
            run("mixnet", model, 400, changes=changes),
            run("mixnet", model, 400, changes=failing),
        )
    return found


def beyond() -> Iterable[Run]:
    """Return the runs of the tables that the paper has no figure for."""
    for pairs in causes().values():
        for pair in pairs:
            yield from pair
    for pair in broken().values():
        yield from pair
    yield varied("mixtral-8x22b", "mixnet", **{"ocs.delay": "1 us"})
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


def times(rows: list[dict[str, Any]], table: str, carrier: str) -> str:
    """Show the iteration time on every fabric, bold the best."""
    names = FIELDS[carrier]
    lines = []
    for model in MODELS:
        for gbps in RATES:
            mine = some(rows, model=model, table=table, gbps=gbps, carrier=carrier)
            at = {row["fabric"]: row["iteration_s"] for row in mine}
            best = min(at.values())
            cells = (f"**{at[n]:.2f}**" if at[n] == best else f"{at[n]:.2f}" for n in names)
            lines.append([model, str(gbps), *cells])
    return markdown(["model", "Gbps", *names], lines)


def ratios(rows: list[dict[str, Any]], rival: str, a_dollar: bool = False) -> str:
    """Show how many times faster (or faster a dollar) each MixNet is, by carrier."""
    lines = []
    for model, table, carrier in product(MODELS, TABLES, FIELDS):
        mine = some(rows, model=model, table=table, carrier=carrier)
        for kind in (kind for kind in MAIN if kind in FIELDS[carrier]):
            values = gains(mine, rival, kind, a_dollar=a_dollar)
            cells = [f"{value:.2f}" for value in values]
            lines.append([model, table, carrier, kind, *cells, f"{mean(values):.2f}"])
    return markdown(["model", "compute", "carrier", "MixNet", *map(str, RATES), "mean"], lines)


def without(rows: list[dict[str, Any]]) -> str:
    """Show how many times faster, and faster a dollar, MixNet is than without its optics."""
    lines = []
    for model, table, rival in product(MODELS, TABLES, WITHOUT):
        mine = some(rows, model=model, table=table, carrier="auto")
        faster = gains(mine, rival, "mixnet")
        value = gains(mine, rival, "mixnet", a_dollar=True)
        cells = [f"{x:.2f} / {y:.2f}" for x, y in zip(faster, value, strict=True)]
        lines.append([model, table, rival, *cells])
    return markdown(["model", "compute", "over", *map(str, RATES)], lines)


def split(rows: list[dict[str, Any]]) -> str:
    """Show where the iteration goes at 400 Gbps."""
    columns = ("compute_s", "exposed_a2a_s", "exposed_other_s", "reconfiguration_s")
    head = ["model", "compute", "fabric", "carrier", "compute s", "all-to-all s", "other s",
            "dark s"]  # fmt: skip
    lines = []
    for model in MODELS:
        for table in TABLES:
            for fabric, carrier in _SPLIT:
                (row,) = some(
                    rows, model=model, table=table, gbps=400, fabric=fabric, carrier=carrier
                )
                cells = (f"{row[name]:.2f}" for name in columns)
                lines.append([model, table, fabric, carrier, *cells, str(row["reconfigurations"])])
    return markdown([*head, "changes"], lines)


def beyond_tables(ran: Mapping[Run, Outcome]) -> dict[str, str]:
    """Make the tables that go beyond the paper."""
    greedy: list[list[str]] = []
    shared: list[list[str]] = []
    for model in MODELS:
        on = ran[varied(model, "mixnet hide")]
        off = ran[varied(model, "mixnet hide", greedy_continue=False)]
        both = (on.exposed_a2a_s, on.iteration_s, off.exposed_a2a_s, off.iteration_s)
        greedy.append([model, *(f"{value:.2f}" for value in both)])
        values = []
        for kind in ("mixnet", "mixnet never"):
            values += [ran[varied(model, kind)], ran[varied(model, kind, share_eps=True)]]
        shared.append([model, *(f"{value.iteration_s:.2f}" for value in values)])
    return {
        "causes": caused(ran),
        "greedy": markdown(
            ["model", "going on: a2a s", "iteration s", "stopping: a2a s", "iteration s"], greedy
        ),
        "shared": markdown(
            ["model", "mixnet s", "shared EPS", "mixnet never s", "shared EPS"], shared
        ),
    }  # fmt: skip


def caused(ran: Mapping[Run, Outcome]) -> str:
    """Show what the runs that isolate a cause came to."""
    lines = []
    for (how, what), pairs in causes().items():
        each = [ran[rival].iteration_s / ran[mine].iteration_s for rival, mine in pairs]
        lines.append([how, what, ", ".join(f"{value:.2f}" for value in each), f"{mean(each):.2f}"])
    for (model, case, how), (whole, failing) in broken().items():
        more = ran[failing].iteration_s / ran[whole].iteration_s - 1
        lines.append([f"{model}, {case}, {how}", "longer iteration", f"{more:+.1%}", ""])
    for how, (model, table, changes) in LAYERS.items():
        (row,) = layer_steps(model, (8,), table, Context(), changes)
        lines.append([how, "all-to-alls' share of a forward layer", f"{row['a2a_share']:.0%}", ""])
    return markdown(["run", "what", "at each rate", "mean"], lines)


def tables(made: Mapping[str, Any]) -> dict[str, str]:
    """Make the tables of the paper's figures, from what a reproduction or the data file holds."""
    twelve = [row for row in made["rows"] if row["figure"] == 12]
    lines: dict[int, list[Sequence[str]]] = {}
    for row in made["table"]:
        cells = list(row.values())
        lines.setdefault(int(cells[0]), []).append(cells[1:])
    return {
        **{
            f"figure-{number}": markdown(["setting", "what", "MixNet says", "here"], some_lines)
            for number, some_lines in lines.items()
        },
        **{
            f"times-{table}-{carrier}": times(twelve, table, carrier)
            for table in TABLES
            for carrier in FIELDS
        },
        "gain-topoopt": ratios(twelve, "topoopt"),
        "gain-3to1": ratios(twelve, "fat-tree-3to1"),
        "gain-fat-tree": ratios(twelve, "fat-tree"),
        "value-fat-tree": ratios(twelve, "fat-tree", a_dollar=True),
        "without": without(twelve),
        "split": split(twelve),
        "cpu": markdown(
            ["figure", "CPU s"],
            [
                [number.replace("all", "all, shared runs once"), f"{seconds:.0f}"]
                for number, seconds in made["cpu_s"].items()
            ],
        ),
    }


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
    text = f'{{\n  "cpu_s": {json.dumps(made["cpu_s"])},\n{body}\n}}\n'
    json.loads(text)
    DATA.write_text(text, encoding="utf-8")


def with_what_stands(made: Mapping[str, Any], kept: Mapping[str, Any]) -> dict[str, Any]:
    """Return a reproduction of some figures, with the data file's of all others."""
    new = {str(line["figure"]) for line in made["table"]}
    all_of = {
        name: sorted(
            [row for row in kept[name] if str(row["figure"]) not in new] + made[name],
            key=lambda row: int(row["figure"]),
        )
        for name in ("rows", "table")
    }
    old = {name: s for name, s in kept["cpu_s"].items() if name not in new | {"all"}}
    seconds = dict(sorted((old | made["seconds"]).items(), key=lambda each: int(each[0])))
    return {**all_of, "cpu_s": seconds | {"all": round(sum(old.values()) + made["cpu_s"], 1)}}


def report(name: str, share: float) -> None:
    """Say which run has ended."""
    if share >= 1:
        print(name, file=sys.stderr)


def main(directory: Path) -> None:
    """Copy what a finished reproduction holds; figures that it leaves out stay as they are."""
    made = json.loads((directory / "rows.json").read_text(encoding="utf-8"))
    if made["missing"]:
        sys.exit(f"{directory}: not finished: {', '.join(made['missing'])}")
    made = with_what_stands(made, json.loads(DATA.read_text(encoding="utf-8")))
    store = Store(directory / "runs")
    runs = list(dict.fromkeys(beyond()))
    store.perform(runs, report, None)
    write_page(
        {
            **tables(made),
            **beyond_tables(store.of(runs)),
        }
    )
    write_data(made, store, runs)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
