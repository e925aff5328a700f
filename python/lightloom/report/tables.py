"""The tables of a report: the comparison, transfers and links of a run, the bills.

Checked: through the page, in ``tests/test_report.py`` and in a browser in ``tests/test_axe.py``.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from lightloom.report.result import Result, network_usd
from lightloom.style import pages
from lightloom.style.pages import Head
from lightloom.style.palette import CAUSES

_RATIOS = ("perf_per_network_dollar_vs_fat_tree", "perf_per_cluster_dollar_vs_fat_tree")
_COMPARISON = (
    Head("link [Gbps]"), Head("fabric", left=True), Head("iteration [s]"),
    Head("compute [s]", extra=True), Head("exposed all\u2011to\u2011all [s]", extra=True),
    Head("other exposed [s]", extra=True), Head("reconfi\u00adguration [s]", extra=True),
    Head("network cost [M$]"), Head("cluster cost [M$]"),
    Head("perf. per network $ vs fat-tree", extra=True), Head("perf. per cluster $ vs fat-tree"),
    Head("k$ per trillion tokens", extra=True), Head("Pareto front", left=True, extra=True),
)  # fmt: skip
_TRANSFERS = (
    Head("kind", left=True), Head("count"), Head("sent"), Head("p50"), Head("p99"), Head("longest"),
)  # fmt: skip
_LINKS = (
    Head("class", left=True), Head("links"), Head("capacity, all"), Head("carried"),
    Head("mean use"), Head("highest use"),
)  # fmt: skip
_MONEY = (
    Head("run", left=True), Head("item", left=True), Head("count"), Head("each [$]"),
    Head("total [$]"), Head("each [W]"), Head("from", left=True),
)  # fmt: skip
_BILL = (
    Head("run", left=True), Head("item", left=True), Head("rate [Gbps]"), Head("count"),
    Head("each [$]"), Head("total [$]"), Head("price from", left=True),
)  # fmt: skip


def transfers() -> str:
    """Return the table of a run's transfers, which the page fills."""
    return pages.framed("Transfers", _TRANSFERS, "", identity="transfers")


def links() -> str:
    """Return the table of a run's links, which the page fills."""
    return pages.framed("Links", _LINKS, "", identity="links")


def comparison(result: Result) -> str:
    """Return the comparison; what sorts a cell stands beside its text."""
    lines = []
    longest = max(row["iteration_s"] for row in result.rows)
    decimals = max(1, 3 - math.floor(math.log10(longest))) if longest > 0 else 3
    best = {
        rate: (min(r["iteration_s"] for r in block),
               *(max(r.get(ratio) or 0 for r in block) for ratio in _RATIOS))
        for rate in {r["bandwidth_gbps"] for r in result.rows}
        for block in [[r for r in result.rows if r["bandwidth_gbps"] == rate]]
    }  # fmt: skip
    rate = None
    for row in result.rows:
        fastest, *gains = best[row["bandwidth_gbps"]]
        first = ' class="first" data-first' if rate not in (None, row["bandwidth_gbps"]) else ""
        rate = row["bandwidth_gbps"]
        cells = [_cell(rate, f"{rate:g}"), f'<td class="t">{html.escape(row["fabric"])}</td>']
        for column in ("iteration_s", *(cause.column for cause in CAUSES)):
            bold = column == "iteration_s" and row[column] == fastest
            value = f"{row[column]:.{decimals}f}" if row[column] else None
            cells.append(_cell(row[column], value, bold, extra=column != "iteration_s"))
        for usd in (network_usd(row), row.get("cluster_usd")):
            cells.append(_cell(usd, None if usd is None else f"{usd / 1e6:.2f}"))
        for name, gain in zip(_RATIOS, gains, strict=True):
            ratio = row.get(name)
            written = None if ratio is None else f"{ratio:.2f}&times;"
            cells.append(_cell(ratio, written, ratio == gain, extra=name == _RATIOS[0]))
        usd = row.get("usd_per_trillion_tokens")
        cells.append(_cell(usd, None if usd is None else f"{usd / 1e3:.1f}", extra=True))
        mark = '<span class="front">● yes</span>' if row["pareto"] else ""
        cells.append(f'<td class="t x" data-v="{int(bool(row["pareto"]))}">{mark}</td>')
        lines.append(f"<tr{first}>{''.join(cells)}</tr>\n")
    return pages.framed(
        "Comparison of runs", _COMPARISON, "".join(lines), sortable=True, look="wide"
    )


def _cell(value: float | None, written: str | None, bold: bool = False, extra: bool = False) -> str:
    if written is None:
        written = '<span class="none">-</span>'
    elif bold:
        written = f"<b>{written}</b>"
    exact = "" if value is None else f"{value!r}"
    look = ' class="x"' if extra else ""
    return f'<td{look} data-v="{exact}" title="{exact}">{written}</td>'


def _by_run(table: pa.Table) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield rows, each with its look: a line is above the first row of every run but the first."""
    run = None
    for row in table.to_pylist():
        yield row, ' class="first" data-first' if run not in (None, row["run"]) else ""
        run = row["run"]


def bill(result: Result) -> str:
    """Return the bill of materials, run by run."""
    text = html.escape
    lines = []
    for row, first in _by_run(result.bill):
        lines.append(
            f'<tr{first}><td class="t">{text(row["run"])}</td>'
            f'<td class="t">{text(row["item"].replace("_", " "))}</td>'
            + _cell(row["rate_gbps"], f"{row['rate_gbps']:g}")
            + _cell(row["count"], f"{row['count']:,}")
            + _cell(row["unit_usd"], f"{row['unit_usd']:,.2f}")
            + _cell(row["total_usd"], f"{row['total_usd']:,.0f}")
            + f'<td class="t w">{text(row["source"] or "")}</td></tr>\n'
        )
    return pages.framed("Bill of materials", _BILL, "".join(lines), sortable=True)


def money(result: Result) -> str:
    """Return what a buyer pays: each line with its sources, and what is missing."""
    text = html.escape
    lines = []
    for row, first in _by_run(result.money):
        usd, total, watts = row["unit_usd"], row["total_usd"], row["watts"]
        said = [
            f"{what}: {source or 'missing'}{f', {date}' if date else ''}"
            for what, source, date in (
                ("price", row["source"], row["date"]),
                ("watts", row["watts_source"], row["watts_date"]),
            )
        ]
        lines.append(
            f'<tr{first}><td class="t">{text(row["run"])}</td>'
            f'<td class="t">{text(row["item"])} {text(row["kind"])}</td>'
            + _cell(row["count"], f"{row['count']:,}")
            + _cell(usd, "missing" if usd is None else f"{usd:,.2f}")
            + _cell(total, "missing" if total is None else f"{total:,.0f}")
            + _cell(watts, "missing" if watts is None else f"{watts:,.1f}")
            + f'<td class="t w">{text("; ".join(said))}</td></tr>\n'
        )
    return pages.framed("What a buyer pays", _MONEY, "".join(lines), sortable=True)
