"""The tables that ``lightloom compare`` and ``simulate`` print.

One block a bandwidth, one line a fabric; each cause of time in seconds, so that a line adds up to
its iteration. As wide as the terminal at most (`lightloom.screen`); colour only there, and no
meaning in colour alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.text import Text

from lightloom import screen
from lightloom.screen import Column
from lightloom.style.palette import CAUSES

COLUMNS = (
    Column("Gbps"),
    Column("fabric", name=True),
    Column("iteration\ns", "iter.\ns"),
    Column("compute\ns", rank=1),
    Column("all-to-all\ns", "all-to-\nall s"),
    Column("other\ns", rank=4),
    Column("reconf.\ns", "re-\nconf.\ns", rank=3),
    Column("MFU\n%", rank=5),
    Column("tokens\nper s", rank=6),
    Column("network\nM$", "net-\nwork\nM$"),
    Column("cluster\nM$", "clus-\nter\nM$"),
    Column("perf per\nnetwork $", "perf/\nnetw.\n$"),
    Column("perf per\ncluster $", "perf/\nclus-\nter $"),
    Column("k$ per T\ntokens", "k$/T\nto-\nkens", rank=2),
    Column("Pareto", "Pa-\nreto", left=True),
)

# Performance per cluster dollar: of each rate's fabrics the best is bold.
HEADLINE = "perf_per_cluster_dollar_vs_fat_tree"


def cells(row: Mapping[str, Any], decimals: int = 3) -> tuple[str, ...]:
    """Write one run as text, in the order of `COLUMNS`; times with so many `decimals`.

    Examples
    --------
    >>> cells(
    ...     dict(
    ...         bandwidth_gbps=400.0, fabric="mixnet", iteration_s=5.25, compute_s=4.0,
    ...         exposed_a2a_s=1.0, exposed_other_s=0.25, reconfiguration_s=0.0, network_usd=3.1e6,
    ...         perf_per_network_dollar_vs_fat_tree=2.25, pareto=True,
    ...     )
    ... )[:6], cells(dict(bandwidth_gbps=1.0, fabric="x", iteration_s=1.0, network_usd=3.1e6,
    ...     perf_per_network_dollar_vs_fat_tree=2.25, pareto=True))[-6:]
    (('400', 'mixnet', '5.250', '4.000', '1.000', '0.250'), ('3.10', '-', '2.25x', '-', '-', 'yes'))
    """
    # What an earlier version wrote has no money, and maybe no speed.
    mfu, tokens = row.get("mfu"), row.get("tokens_per_s")
    ratios = (row.get(f"perf_per_{part}_dollar_vs_fat_tree") for part in ("network", "cluster"))
    times = [row["iteration_s"], *(row.get(cause.column) for cause in CAUSES)]
    return (
        f"{row['bandwidth_gbps']:g}",
        str(row["fabric"]),
        *(f"{time:.{decimals}f}" if time else "-" for time in times),
        "-" if mfu is None else f"{100 * mfu:.1f}",
        "-" if tokens is None else count(tokens),
        *(_scaled(row.get(f"{part}_usd"), 1e6) for part in ("network", "cluster")),
        *("-" if gain is None or math.isnan(gain) else f"{gain:.2f}x" for gain in ratios),
        _scaled(row.get("usd_per_trillion_tokens"), 1e3),
        "yes" if row["pareto"] else "",
    )


def _scaled(usd: float | None, unit: float) -> str:
    """Write dollars in a unit with four digits, or at most two decimals.

    Examples
    --------
    >>> _scaled(3.1e6, 1e6), _scaled(123_456_000, 1e6), _scaled(None, 1e6)
    ('3.10', '123.5', '-')
    """
    if usd is None:
        return "-"
    value = usd / unit
    return f"{value:.{2 if value < 100 else 1 if value < 1000 else 0}f}"


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
    ...     exposed_a2a_s=1.0, exposed_other_s=0.25, reconfiguration_s=0.0, network_usd=3.1e6,
    ...     perf_per_network_dollar_vs_fat_tree=2.25, pareto=True, mfu=0.312, tokens_per_s=1.25e6,
    ...     cluster_usd=4.4e7, perf_per_cluster_dollar_vs_fat_tree=1.05,
    ...     usd_per_trillion_tokens=1.1e5, missing="watts of NIC 400 Gbps",
    ... )
    >>> render_compare([run], Console(width=100, no_color=True))  # doctest: +NORMALIZE_WHITESPACE
                                              re-             net- clus- perf/ perf/  k$/T
                iter. compute all-to- other conf.  MFU tokens work   ter netw. clus-   to- Pa-
    Gbps fabric     s       s   all s     s     s    %  per s   M$    M$     $ ter $  kens reto
     400 mixnet 5.250   4.000   1.000 0.250     - 31.2 1.25 M 3.10 44.00 2.25x 1.05x 110.0 yes
    reconf. "-": no iteration waited for circuits that change; none changed
    perf/$: vs fat-tree; cluster: servers, network, energy over the years; Pareto: by network
    dollars
    missing: watts of NIC 400 Gbps (mixnet); a sum with a missing price is -, energy is without
    missing
    watts
    """
    rows: Sequence[Mapping[str, Any]] = runs.to_pylist() if isinstance(runs, pa.Table) else runs
    table: list[list[Text] | None] = []
    decimals = _decimals(max((row["iteration_s"] for row in rows), default=1.0))
    for i, (_, block) in enumerate(groupby(rows, key=lambda row: row["bandwidth_gbps"])):
        if i:
            table.append(None)
        lines = list(block)
        fastest = min(row["iteration_s"] for row in lines)
        gain = max(row.get(HEADLINE) or 0.0 for row in lines)
        for j, row in enumerate(lines):
            texts = [Text(cell) for cell in cells(row, decimals)]
            if j:
                texts[0] = Text("")
            if row["iteration_s"] == fastest:
                texts[2].stylize("bold")
            if gain and row.get(HEADLINE) == gain:
                texts[12].stylize("bold")
            if row["pareto"]:
                texts[14].stylize("green")
            for text in texts[3:7]:
                if text.plain == "-":
                    text.stylize("dim")
            table.append(texts)
    out = console or screen.console()
    screen.print_table(COLUMNS, table, out)
    _explain_dashes(rows, out)
    _explain_money(rows, out)
    _name_carriers(rows, out)
    _name_topologies(rows, out)


def _explain_dashes(rows: Sequence[Mapping[str, Any]], out: Console) -> None:
    """Say under the table why a column holds nothing."""
    dashes = [row for row in rows if not row["reconfiguration_s"]]
    counts = {row["run"]: int(row.get("reconfigurations") or 0) for row in dashes if "run" in row}
    changed = [f"{run} {count:,} times" for run, count in counts.items() if count]
    if changed or len(dashes) == len(rows) > 0:
        said = f"under compute they did: {', '.join(changed)}" if changed else "none changed"
        who = "no iteration waited" if len(dashes) == len(rows) else "the iteration did not wait"
        out.print(f'reconf. "-": {who} for circuits that change; {said}', style="dim")


def _explain_money(rows: Sequence[Mapping[str, Any]], out: Console) -> None:
    """Say under the table what dollars are, and which figures no list has."""
    if not any("cluster_usd" in row for row in rows):
        return
    out.print(
        "perf/$: vs fat-tree; cluster: servers, network, energy over the years; Pareto: by network "
        "dollars",
        style="dim",
    )
    lacking: dict[str, list[str]] = {}
    for row in rows:
        for name in filter(None, str(row.get("missing") or "").split("; ")):
            lacking.setdefault(name, []).append(str(row.get("fabric")))
    said = [f"{name} ({', '.join(dict.fromkeys(runs))})" for name, runs in lacking.items()]
    if said:
        out.print(
            f"missing: {'; '.join(said)}; a sum with a missing price is -, energy is without "
            "missing watts",
            style="dim",
        )


def _name_carriers(rows: Sequence[Mapping[str, Any]], out: Console) -> None:
    """Say under the table how all-to-alls travelled, where not as each paper has it."""
    runs: dict[str, list[str]] = {}
    for row in rows:
        runs.setdefault(row.get("carrier") or "paper", []).append(str(row.get("run")))
    if set(runs) - {"paper", "none"}:
        said = "; ".join(f"{carrier}: {', '.join(names)}" for carrier, names in runs.items())
        out.print(f"all-to-alls by {said}", style="dim")


def _name_topologies(rows: Sequence[Mapping[str, Any]], out: Console) -> None:
    """Say under the table which topologies were taken for the job."""
    found = {str(row.get("run")): row.get("topology") or "none" for row in rows}
    said = [f"{run}: {topology}" for run, topology in found.items() if topology != "none"]
    if said:
        out.print(f"topology taken for the job, {'; '.join(said)}", style="dim")


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
    table = [
        [
            Text(f"{row['bandwidth_gbps']:g}"),
            Text(str(row["fabric"])),
            *(Text(count(row[name])) for name in PACKETS),
        ]
        for row in rows
    ]
    out = console or screen.console()
    out.print()
    ranks = {"timeouts": 1, "pause_s": 2, "resent": 3, "packet_hops": 4}
    figures = (Column(heading, rank=ranks.get(name, 0)) for name, heading in PACKETS.items())
    screen.print_table((*COLUMNS[:2], *figures), table, out)


def _decimals(longest: float) -> int:
    """Return how many decimals show the longest time with four digits, and at least one.

    Examples
    --------
    >>> _decimals(9.1), _decimals(13.0), _decimals(0.021)
    (3, 2, 5)
    """
    return max(1, 3 - math.floor(math.log10(longest))) if longest > 0 else 3
