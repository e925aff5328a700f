"""The tables that ``lightloom compare`` and ``simulate`` print.

One block a bandwidth, one line a fabric; each cause of time in seconds, so that a line adds up to
its iteration. At most 100 columns; colour only on a terminal, and no meaning in colour alone.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lightloom.report.palette import CAUSES

HEADINGS = (
    "Gbps",
    "fabric",
    "iteration\ns",
    "compute\ns",
    "all-to-all\ns",
    "other\ns",
    "reconf.\ns",
    "cost\nM$",
    "perf/$ vs\nfat-tree",
    "Pareto",
)


def cells(row: Mapping[str, Any], decimals: int = 3) -> tuple[str, ...]:
    """Write one run as text, in the order of `HEADINGS`; times with so many `decimals`.

    Examples
    --------
    >>> cells(
    ...     dict(
    ...         bandwidth_gbps=400.0, fabric="mixnet", iteration_s=5.25, compute_s=4.0,
    ...         exposed_a2a_s=1.0, exposed_other_s=0.25, reconfiguration_s=0.0, cost_usd=3.1e6,
    ...         perf_per_dollar_vs_fat_tree=2.25, pareto=True,
    ...     )
    ... )
    ('400', 'mixnet', '5.250', '4.000', '1.000', '0.250', '-', '3.10', '2.25x', 'yes')
    """
    cost, gain = row["cost_usd"], row["perf_per_dollar_vs_fat_tree"]
    times = [row["iteration_s"], *(row[cause.column] for cause in CAUSES)]
    return (
        f"{row['bandwidth_gbps']:g}",
        str(row["fabric"]),
        *(f"{time:.{decimals}f}" if time else "-" for time in times),
        "-" if cost is None else f"{cost / 1e6:.2f}",
        "-" if gain is None or math.isnan(gain) else f"{gain:.2f}x",
        "yes" if row["pareto"] else "",
    )


def render_compare(
    runs: pa.Table | Sequence[Mapping[str, Any]], console: Console | None = None
) -> None:
    """Print the comparison of runs.

    Parameters
    ----------
    runs : pa.Table or sequence of mappings
        The ``runs`` of a Result; times in seconds, cost in US dollars.
    console : Console, optional
        Where to print; standard output by default.

    Examples
    --------
    >>> run = dict(
    ...     bandwidth_gbps=400.0, fabric="mixnet", iteration_s=5.25, compute_s=4.0,
    ...     exposed_a2a_s=1.0, exposed_other_s=0.25, reconfiguration_s=0.0, cost_usd=3.1e6,
    ...     perf_per_dollar_vs_fat_tree=2.25, pareto=True,
    ... )
    >>> render_compare([run], Console(width=90, no_color=True))  # doctest: +NORMALIZE_WHITESPACE
                  iteration  compute  all-to-all  other  reconf.  cost  perf/$ vs
    Gbps  fabric          s        s           s      s        s    M$   fat-tree  Pareto
     400  mixnet      5.250    4.000       1.000  0.250        -  3.10      2.25x  yes
    """
    if console is None:
        # A pipe gets whole lines; what reads it wraps as it likes.
        console = Console(width=None if sys.stdout.isatty() else 100, highlight=False)
    rows: Sequence[Mapping[str, Any]] = runs.to_pylist() if isinstance(runs, pa.Table) else runs
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for heading in HEADINGS:
        left = heading in ("fabric", "Pareto")
        table.add_column(
            heading,
            justify="left" if left else "right",
            no_wrap=heading != "fabric",
            overflow="fold",
            min_width=min(16, max(len(row["fabric"]) for row in rows))
            if heading == "fabric"
            else None,
            vertical="bottom" if not heading else "top",
        )
    decimals = _decimals(max((row["iteration_s"] for row in rows), default=1.0))
    for i, (_, block) in enumerate(groupby(rows, key=lambda row: row["bandwidth_gbps"])):
        if i:
            table.add_row("")
        lines = list(block)
        fastest = min(row["iteration_s"] for row in lines)
        gain = max(row["perf_per_dollar_vs_fat_tree"] or 0.0 for row in lines)
        for j, row in enumerate(lines):
            texts = [Text(cell) for cell in cells(row, decimals)]
            if j:
                texts[0] = Text("")
            if row["iteration_s"] == fastest:
                texts[2].stylize("bold")
            if gain and row["perf_per_dollar_vs_fat_tree"] == gain:
                texts[8].stylize("bold")
            if row["pareto"]:
                texts[9].stylize("green")
            for text in texts[3:7]:
                if text.plain == "-":
                    text.stylize("dim")
            table.add_row(*texts)
    console.print(table)


# Figures of packets, and their headings; a Result of the flow engine has none of them.
PACKETS = {
    "packets": "packets",
    "packet_hops": "hops",
    "resent": "resent",
    "drops": "drops",
    "trims": "trims",
    "ecn_marks": "ECN\nmarks",
    "pauses": "pauses",
    "pause_s": "paused\ns",
    "timeouts": "time-\nouts",
}


def count(value: float) -> str:
    """Write a count in at most six characters.

    Examples
    --------
    >>> count(0), count(99_999), count(123_456_789), count(0.25)
    ('-', '99999', '123 M', '0.25')
    """
    if not value:
        return "-"
    for scale, unit in ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= 100 * scale or (value >= scale and value >= 1e5):
            return f"{value / scale:.3g}{unit}"
    return f"{value:.5g}" if value >= 1 else f"{value:.2g}"


def render_packets(rows: Sequence[Mapping[str, Any]], console: Console | None = None) -> None:
    """Print what packets did in each run; nothing where there were none.

    Examples
    --------
    >>> figures = dict.fromkeys(PACKETS, 0.0) | {"packets": 2e6, "packet_hops": 1.2e7}
    >>> run = {"bandwidth_gbps": 400.0, "fabric": "mixnet", **figures}
    >>> render_packets([run], Console(width=90, no_color=True))  # doctest: +NORMALIZE_WHITESPACE
    <BLANKLINE>
                                                       ECN           paused  time-
    Gbps  fabric  packets  hops  resent  drops  trims  marks  pauses      s   outs
     400  mixnet      2 M  12 M       -      -      -      -       -      -      -
    """
    if not rows or "packets" not in rows[0]:
        return
    console = console or Console(width=None if sys.stdout.isatty() else 100, highlight=False)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for heading in ("Gbps", "fabric", *PACKETS.values()):
        left = heading == "fabric"
        table.add_column(
            heading,
            justify="left" if left else "right",
            no_wrap=not left,
            overflow="fold",
            vertical="bottom",
        )
    for row in rows:
        figures = (count(row[name]) for name in PACKETS)
        table.add_row(f"{row['bandwidth_gbps']:g}", Text(str(row["fabric"])), *figures)
    console.print()
    console.print(table)


def _decimals(longest: float) -> int:
    """Return how many decimals show the longest time with four digits, and at least one.

    Examples
    --------
    >>> _decimals(9.1), _decimals(13.0), _decimals(0.021)
    (3, 2, 5)
    """
    return max(1, 3 - math.floor(math.log10(longest))) if longest > 0 else 3
