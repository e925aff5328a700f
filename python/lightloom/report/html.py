"""One HTML page of a Result: opens offline, holds everything it shows, under 3 MB.

Text, tables and the page's first line are written here, so that they stand without JavaScript; the
charts are drawn in the browser by `page.js` and `page_runs.js` from the numbers that travel in the
page, tasks and demand packed by `packing`.

Names in a Result come from specifications and are not trusted: they are escaped in markup, set as
text by the script, and a content security policy forbids the page to load anything at all.
Checked: no URL in the page, hostile names stay text, the size limit.
"""

from __future__ import annotations

import html
import json
import math
from collections.abc import Mapping
from importlib import resources
from typing import Any

from lightloom.report import draws, packets, packing, price_map, tables
from lightloom.report.result import Result, network_usd
from lightloom.style import pages
from lightloom.style.pages import Head
from lightloom.style.palette import CAUSES, GROUPS, WAIT, Look, fabric_looks

_RUN_COLUMNS = ("run", "fabric", "bandwidth_gbps", "iteration_s", *(c.column for c in CAUSES),
                "cost_usd", "perf_per_dollar_vs_fat_tree", "pareto")  # fmt: skip
_WHISKERS = tuple(f"iteration_s_{part}" for part in ("median", "low", "high"))


def render(result: Result) -> str:
    """Return the page as text.

    Raises
    ------
    InputError
        If a table of the Result is missing or malformed.
    """
    notes: list[str] = []
    tasks, kinds = packing.tasks(result, notes)
    demand = packing.demand(result, notes)
    looks = fabric_looks(row["fabric"] for row in result.rows)
    data = {
        "runs": [
            {name: row[name] for name in _RUN_COLUMNS}
            | {"cost_usd": network_usd(row)}
            # What an earlier version wrote has none of them.
            | {name: row[name] for name in ("mfu", "tokens_per_s", *_WHISKERS) if name in row}
            for row in result.rows
        ],
        "causes": [{"column": cause.column, "label": cause.label} for cause in CAUSES],
        "fabrics": [{"name": name, "mark": look.marker} for name, look in looks.items()],
        "groups": {name: {"label": g.label, "lane": g.lane} for name, g in GROUPS.items()},
        "kinds": kinds,
        "tasks": tasks,
        "demand": demand,
        "shown": {"tasks": _shown(result, tasks), "demand": _shown(result, demand)},
        "transfers": result.transfers.to_pylist(),
        "links": result.links.to_pylist(),
    }
    head, _, rest = result.title.partition(" · ")
    text = html.escape
    return _fill(
        _asset("page.html"),
        {
            "title": text(result.title),
            "head": text(head),
            "rest": text(rest),
            "css": pages.style(_colors(looks)),
            "kpis": _kpis(result),
            "verdict": draws.verdict(result),
            "draws": draws.section(result) + price_map.section(result),
            "comparison": tables.comparison(result),
            "packets": packets.section(result),
            "cause_legend": pages.legend((f"c{i}", c.label) for i, c in enumerate(CAUSES)),
            "group_legend": _PASSES
            + pages.legend(
                [
                    *((f"g-{n}", g.label) for n, g in GROUPS.items() if n != "inline"),
                    ("g-wait", WAIT.label),
                ]
            ),
            "assumed": _assumed(result, notes),
            "bill": tables.bill(result),
            "money": tables.money(result),
            "transfers": tables.transfers(),
            "links": tables.links(),
            "spec": text(result.spec_text),
            "data": _script_json(data),
            "js": _asset("page.js") + _asset("page_runs.js"),
        },
    )


def _shown(result: Result, packed: Mapping[str, Any]) -> str | None:
    return next((run for run in result.by_interest if run in packed), None)


def _kpis(result: Result) -> str:
    """Write the few numbers that answer first."""
    rows = result.rows
    named = "{fabric}, {bandwidth_gbps:g} Gbps"
    fastest = min(rows, key=lambda r: r["iteration_s"])
    facts: list[tuple[str, str, str]] = [
        (
            "Fastest iteration" if len(rows) > 1 else "Iteration",
            f"{fastest['iteration_s']:.4g} s",
            named.format(**fastest),
        )
    ]
    ratio = "perf_per_cluster_dollar_vs_fat_tree"
    gains = [r for r in rows if r.get(ratio) is not None]
    if gains:
        best = max(gains, key=lambda r: r[ratio])
        facts.append(("Best performance per cluster dollar",
                      f"{best[ratio]:.2f} \N{MULTIPLICATION SIGN} fat-tree",
                      named.format(**best)))  # fmt: skip
    lost = [(1 - r["compute_s"] / r["iteration_s"], r) for r in rows if r["iteration_s"] > 0]
    if lost:
        low, high = min(lost, key=lambda p: p[0]), max(lost, key=lambda p: p[0])
        value = f"{low[0]:.0%}" if len(lost) == 1 else f"{low[0]:.0%} to {high[0]:.0%}"
        facts.append(("Iteration spent on the network", value,
                      named.format(**low[1]) + (" to " + named.format(**high[1])
                                                if len(lost) > 1 else "")))  # fmt: skip
    if len(rows) > 1:
        front = [r for r in rows if r["pareto"]]
        names = dict.fromkeys(r["fabric"] for r in front)
        facts.append(("On the Pareto front", f"{len(front)} of {len(rows)}", ", ".join(names)))
    elif (usd := network_usd(rows[0])) is not None:
        facts.append(("Network cost", f"${usd:,.0f}", "as a buyer pays it"))
    return "".join(
        f"<div><dt>{html.escape(what)}</dt><dd>{html.escape(value)}</dd>"
        f"<dd>{html.escape(who)}</dd></div>"
        for what, value, who in facts
    )


def _assumed(result: Result, notes: list[str]) -> str:
    """Write what the numbers rest on: warnings, notes, origins; and whatever else was said."""
    info = result.info
    text = html.escape
    parts = []
    for key, title, look in (("warnings", "Warnings", "said warn"), ("notes", "Notes", "said")):
        said = info.get(key) or []
        lines = [str(line) for line in (said if isinstance(said, list) else [said])]
        lines += notes if key == "notes" else []
        if lines:
            items = "".join(f"<li>{text(line)}</li>" for line in lines)
            parts.append(f'<h3>{title}</h3><ul class="{look}">{items}</ul>')
    facts = [("Gating trace", _said(info.get("trace", result.trace)))]
    facts += [
        (str(key).replace("_", " ").capitalize(), _said(value))
        for key, value in info.items()
        if key not in ("warnings", "notes", "trace", "compute_origins", "files", "verdict")
    ]
    listed = "".join(f"<dt>{text(key)}</dt><dd>{text(value)}</dd>" for key, value in facts)
    parts.append(f'<h3>How it was made</h3><dl class="facts">{listed}</dl>')
    compute = info.get("compute_origins")
    if isinstance(compute, list) and compute and all(isinstance(c, dict) for c in compute):
        columns = list(dict.fromkeys(str(key) for row in compute for key in row))
        heads = [Head(_heading(column), left=True) for column in columns]
        rows = [[text(_value(c, row.get(c))) for c in columns] for row in compute]
        parts.append("<h3>Compute times and their origin</h3>")
        parts.append(pages.table("Compute times", heads, rows, look="fit"))
    elif compute is not None:
        parts.append(f"<h3>Compute times</h3><p>{text(_said(compute))}</p>")
    return "".join(parts)


def _said(value: object) -> str:
    """Write a value of ``result.json`` as a line of text.

    Examples
    --------
    >>> _said({"name": "builtin", "origin": "recorded"}), _said(None)
    ('name builtin; origin recorded', 'not said')
    """
    if isinstance(value, dict):
        return "; ".join(f"{key} {_said(part)}" for key, part in value.items())
    if isinstance(value, list):
        return ", ".join(_said(part) for part in value)
    return "not said" if value is None else str(value)


def _heading(column: str) -> str:
    return column.removesuffix("_ps").replace("_", " ")


def _value(column: str, value: object) -> str:
    """Write a value of a table in ``result.json``; times of ``_ps`` columns with four digits.

    Examples
    --------
    >>> _value("time_ps", 300_487_451), _value("origin", "roofline")
    ('300.5 us', 'roofline')
    """
    if column.endswith("_ps") and isinstance(value, int) and value > 0:
        units = (("s", 10**12), ("ms", 10**9), ("us", 10**6), ("ns", 10**3), ("ps", 1))
        unit, scale = next((unit, scale) for unit, scale in units if value >= scale)
        return f"{value / scale:.4g} {unit}"
    return "" if value is None else _said(value).replace("_", " ")


_PASSES = "".join(
    f'<li><i class="n" style="background: var(--{name}); color: var(--on-{name})">0</i>'
    f"{name} of a micro-batch, its number</li>"
    for name in ("forward", "backward")
)


def _colors(looks: Mapping[str, Look]) -> list[tuple[str, tuple[str, str]]]:
    """Return the variables of fabrics and their colours."""
    return [(f"f{i}", (look.light, look.dark)) for i, look in enumerate(looks.values())]


def _asset(name: str) -> str:
    return (resources.files(__package__) / name).read_text(encoding="utf-8")


def _fill(template: str, parts: Mapping[str, str]) -> str:
    """Replace each ``{{name}}`` of the template, once: what is put in is not looked at again.

    Examples
    --------
    >>> _fill("<p>{{a}}{{b}}</p>", {"a": "{{b}}", "b": "!"})
    '<p>{{b}}!</p>'
    """
    first, *rest = template.split("{{")
    filled = [first]
    for piece in rest:
        name, _, after = piece.partition("}}")
        filled += [parts[name], after]
    return "".join(filled)


def _script_json(value: object) -> str:
    r"""Write JSON that no name in it can break out of: no ``<`` is left.

    Examples
    --------
    >>> _script_json({"name": "</script>"})
    '{"name":"\\u003c/script>"}'
    """
    text = json.dumps(_finite(value), separators=(",", ":"), allow_nan=False, ensure_ascii=True)
    return text.replace("<", "\\u003c")


def _finite(value: Any) -> Any:
    """Replace what JSON cannot say (NaN, infinities) by null."""
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
