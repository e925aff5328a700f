"""Figure 28: how slow an optical switch may be, Mixtral 8x22B on 128 servers at 400 Gbps.

Three ways to use it. *reuse, then hide* is the paper's (Appendix D.7): the first all-to-all of a
forward pass keeps the circuits that stand, the others' are set under the compute before them.
*block* sets one matching for every demand and waits. *inside* sets circuits again and again during
each all-to-all, or none, whatever should be over sooner; what a matching would do is among its
choices. *never* keeps the circuits of an even demand, whatever the switch can do. Points at 1 us
say what is left of it once packet NICs take a part of pairs that have circuits too (`share_eps`).

With both tables of compute times. Beside the curves: the compute between all-to-alls, under which a
change can hide, as it is in an iteration whose switch takes no time; and what the first
micro-batch's dispatches send, as time that it would take over all NICs of the busiest server.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from lightloom.papers.mixnet.jobs import TABLES, mean, run, some
from lightloom.papers.part import Context, Line, Part, Picture, Rows
from lightloom.papers.runs import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NUMBER = 28
TITLE = "Reconfiguration delay"
MODEL, GBPS, NICS = "mixtral-8x22b", 400, 8
PAPER, INSIDE, BLOCK, NEVER = "reuse, then hide", "inside", "block", "never"
POLICIES = {
    PAPER: ("reuse", "hide", "hide"),
    INSIDE: ("inside", "inside", "inside"),
    BLOCK: ("block", "block", "block"),
}
# The paper's compute times hide a change of tens of milliseconds: no other policy has work there.
POLICIES_OF = {"roofline": tuple(POLICIES), "paper-profile": (PAPER,)}
SHARED = {INSIDE: POLICIES[INSIDE], BLOCK: POLICIES[BLOCK], NEVER: ("reuse", "reuse", "reuse")}
DELAYS = {
    "1 us": 1e-6, "10 us": 1e-5, "100 us": 1e-4, "300 us": 3e-4, "1 ms": 1e-3, "3 ms": 3e-3,
    "10 ms": 1e-2, "25 ms": 2.5e-2, "50 ms": 5e-2, "100 ms": 0.1, "300 ms": 0.3, "1 s": 1.0,
    "10 s": 10.0,
}  # fmt: skip
PHASES = ("first_forward", "second_forward", "backward")
FLAT = 1.01
"""A curve is flat, and two are alike, within this ratio."""
BEFORE = ("dispatch forward", "combine forward", "combine backward", "dispatch backward")


def _run(table: str, name: str, delay: str, *, shared: bool = False) -> Run:
    policies = {**POLICIES, **SHARED}[name]
    changes: dict[str, Any] = {
        "fabric.decision": "algorithm-1",
        "fabric.hysteresis": False,
        "fabric.ocs.delay": delay,
    }
    for phase, policy in zip(PHASES, policies, strict=True):
        changes[f"fabric.reconfigure.{phase}"] = policy
    if shared:
        changes["fabric.share_eps"] = True
    return run("mixnet", MODEL, GBPS, table=table, changes=changes)


def _points(table: str) -> dict[tuple[str, bool], Run]:
    """Return runs at 1 us, by name and whether packet NICs share."""
    names = [name for name in SHARED if name in (*POLICIES_OF[table], NEVER)]
    each = {(name, True): _run(table, name, "1 us", shared=True) for name in names}
    return {**each, (NEVER, False): _run(table, NEVER, "1 us")}


def parts() -> tuple[Part, ...]:
    """Return the curves, and what explains them, by table of compute times."""
    made = []
    for table in TABLES:
        curves = (_run(table, name, delay) for name in POLICIES_OF[table] for delay in DELAYS)
        runs = (*curves, *_points(table).values())
        made += [
            Part(f"figure 28 {table}", partial(_curves, table), runs=runs),
            Part(f"figure 28 gaps {table}", partial(_why, table)),
        ]
    return tuple(made)


def _curves(table: str, context: Context) -> Rows:
    points: Rows = [
        {
            "table": table,
            "what": "point",
            "name": name,
            "shared": shared,
            "iteration_s": context.outcomes[each].iteration_s,
            "exposed_a2a_s": context.outcomes[each].exposed_a2a_s,
        }
        for (name, shared), each in _points(table).items()
    ]
    return points + [
        {
            "table": table,
            "what": "curve",
            "name": name,
            "delay_s": seconds,
            "iteration_s": context.outcomes[_run(table, name, delay)].iteration_s,
            "exposed_a2a_s": context.outcomes[_run(table, name, delay)].exposed_a2a_s,
            "reconfiguration_s": context.outcomes[_run(table, name, delay)].reconfiguration_s,
        }
        for name in POLICIES_OF[table]
        for delay, seconds in DELAYS.items()
    ]


def _why(table: str, context: Context) -> Rows:
    """Return the compute before each kind of all-to-all, and how long dispatches take."""
    from lightloom.simulation import run_all

    rows: Rows = []
    for at, name in enumerate(POLICIES_OF[table]):
        done = run_all([_run(table, name, "1 us").scenario()], priced=False)
        if done.stopped is not None:
            raise done.stopped
        tables = done.finished[0].tables
        tasks = tables["tasks"].to_pylist()
        if name == PAPER:
            rows += gaps(tasks)
        took = [
            (task["end_ps"] - task["start_ps"]) / 1e12
            for task in tasks
            if task["kind"] == "dispatch" and task["pass"] == "forward" and task["micro_batch"] == 0
        ]
        rows.append({"what": "dispatch", "name": name, "mean_s": mean(took)})
        if name == PAPER:
            rows.append({"what": "dispatch", "name": "all NICs", "mean_s": _bound(tables)})
        context.progress((at + 1) / len(POLICIES_OF[table]))
    return [{"table": table, **row} for row in rows]


def gaps(tasks: Rows) -> Rows:
    """Return the time between a region's all-to-alls: least, median, mean [s] by the later one.

    >>> def task(kind, start, end):
    ...     return {"kind": kind, "pass": "forward", "replica": 0, "stage": 0,
    ...             "start_ps": start * 10**12, "end_ps": end * 10**12}
    >>> gaps([task("dispatch", 0, 1), task("expert", 1, 3), task("combine", 3, 4)])
    [{'what': 'gap', 'name': 'combine forward', 'least_s': 2.0, 'median_s': 2.0, 'mean_s': 2.0}]
    """
    regions: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for task in tasks:
        if task["kind"] in ("dispatch", "combine"):
            regions.setdefault((task["replica"], task["stage"]), []).append(task)
    found: dict[str, list[float]] = {}
    for region in regions.values():
        region.sort(key=lambda task: task["start_ps"])
        for before, after in pairwise(region):
            name = f"{after['kind']} {after['pass']}"
            found.setdefault(name, []).append((after["start_ps"] - before["end_ps"]) / 1e12)
    return [
        {
            "what": "gap",
            "name": name,
            "least_s": min(found[name]),
            "median_s": sorted(found[name])[len(found[name]) // 2],
            "mean_s": mean(found[name]),
        }
        for name in BEFORE
        if name in found
    ]


def _bound(tables: Any) -> float:
    """Return the mean time of the recorded dispatches if the busiest server's NICs all shared."""
    lines: dict[tuple[int, int], dict[tuple[str, int], int]] = {}
    for row in tables["demand"].to_pylist():
        if row["source"] != row["destination"]:
            loads = lines.setdefault((row["stage"], row["layer"]), {})
            for line in (("out", row["source"]), ("in", row["destination"])):
                loads[line] = loads.get(line, 0) + row["bytes"]
    most = [max(loads.values()) for loads in lines.values()]
    return mean([bytes_ * 8 / (NICS * GBPS * 1e9) for bytes_ in most])


def flat_until(rows: Rows, name: str) -> float:
    """Return the longest delay [s] up to which a curve stays as low as where it begins.

    >>> rows = [{"what": "curve", "name": "x", "delay_s": d, "iteration_s": t}
    ...         for d, t in ((1, 5.0), (2, 5.01), (3, 6.0), (4, 5.0))]
    >>> flat_until(rows, "x")
    2.0
    """
    curve = sorted(some(rows, what="curve", name=name), key=lambda row: row["delay_s"])
    until = curve[0]["delay_s"]
    for row in curve:
        if row["iteration_s"] > FLAT * curve[0]["iteration_s"]:
            break
        until = row["delay_s"]
    return float(until)


def faster_until(rows: Rows, name: str, rival: str) -> float | None:
    """Return the longest delay [s] up to which one curve is below another, or None."""
    rivals = {row["delay_s"]: row["iteration_s"] for row in some(rows, what="curve", name=rival)}
    for row in some(rows, what="point", name=rival, shared=False):  # whatever the delay
        rivals = dict.fromkeys(DELAYS.values(), row["iteration_s"])
    until = None
    for row in sorted(some(rows, what="curve", name=name), key=lambda row: row["delay_s"]):
        if row["iteration_s"] * FLAT > rivals[row["delay_s"]]:
            break
        until = row["delay_s"]
    return until


def lines(rows: Rows) -> list[Line]:
    """Return where the paper's curve stops being flat, and what circuits inside are worth."""
    return [line for table in TABLES for line in _lines(some(rows, table=table), table)]


def _lines(rows: Rows, table: str) -> list[Line]:
    setting = f"{MODEL}, {GBPS} Gbps, {table}"
    at = {(row["name"], row["delay_s"]): row for row in some(rows, what="curve")}
    first = at[PAPER, 1e-6]["iteration_s"]

    def ratio(name: str, delay: float) -> str:
        return f"{at[name, delay]['iteration_s'] / first:.2f}"

    made = [
        Line(28, setting, f"{PAPER}: flat up to", "1 s", _said(flat_until(rows, PAPER))),
        Line(28, setting, f"{PAPER}: 25 ms over 1 us", "about 1", ratio(PAPER, 2.5e-2)),
        Line(28, setting, f"{PAPER}: 1 s over 1 us", "rises beyond", ratio(PAPER, 1.0)),
    ]
    others = [name for name in (BLOCK, INSIDE) if name in POLICIES_OF[table]]
    for name in others:
        made.append(Line(28, setting, f"{name}: flat up to", "", _said(flat_until(rows, name))))
    for delay, seconds in (("1 us", 1e-6), ("1 ms", 1e-3), ("25 ms", 2.5e-2)) if others else ():
        each = ", ".join(f"{ratio(name, seconds)} ({name})" for name in others)
        made.append(Line(28, setting, f"at {delay}, over {PAPER} at 1 us", "", each))
    for shared, how in ((False, ""), (True, ", packet NICs filled")):
        points = [row for row in some(rows, what="point") if row["shared"] == shared]
        ours = ", ".join(f"{row['iteration_s'] / first:.2f} ({row['name']})" for row in points)
        made.append(Line(28, setting, f"at 1 us{how}, over {PAPER}", "", ours))
    for rival in (PAPER, BLOCK, NEVER) if others else ():
        until = faster_until(rows, INSIDE, rival)
        ours = "never" if until is None else f"up to {_said(until)}"
        made.append(Line(28, setting, f"{INSIDE} beats {rival} by 1 %", "", ours))
    for row in some(rows, what="gap"):
        ours = f"{_said(row['least_s'])}, {_said(row['median_s'])}"
        made.append(Line(28, setting, f"compute before {row['name']}: least, median", "", ours))
    took = ", ".join(
        f"{_said(row['mean_s'])} ({row['name']})" for row in some(rows, what="dispatch")
    )
    made.append(Line(28, setting, "a forward dispatch, switch of 1 us", "", took))
    return made


def _said(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size * 0.9995:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def draw(rows: Rows) -> Picture:
    """Draw the curves over the delay, whole and near 1, a row a table of compute times."""
    from lightloom.style.figures import legend, page

    with page(11, 8.6, f"Figure {NUMBER}: reconfiguration delay, {MODEL} at {GBPS} Gbps") as figure:
        shown = []
        for (whole, near), table in zip(figure.subplots(len(TABLES), 2), TABLES, strict=True):
            mine = some(rows, table=table)
            first = some(mine, what="curve", name=PAPER, delay_s=1e-6)[0]["iteration_s"]
            for axes in (whole, near):
                _draw_curves(axes, mine, first)
            whole.set_title(table, fontsize=10)
            whole.set_yscale("log")
            whole.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
            whole.set_ylabel(f"iteration over '{PAPER}' at 1 us")
            _draw_gaps(near, mine, first)
            shown.append(whole)
        legend(figure, shown, side="lower")
    return figure


def _draw_curves(axes: Axes, rows: Rows, first: float) -> None:
    from matplotlib.ticker import LogLocator, NullLocator

    from lightloom.style.palette import HUES, MUTED, SHAPES

    drawn = {row["name"] for row in some(rows, what="curve")}
    for name, color, shape in zip(POLICIES, HUES, SHAPES, strict=False):
        if name not in drawn:
            continue
        curve = sorted(some(rows, what="curve", name=name), key=lambda row: row["delay_s"])
        x = [row["delay_s"] for row in curve]
        y = [row["iteration_s"] / first for row in curve]
        axes.plot(x, y, label=name, color=color, marker=shape, markersize=5, linewidth=1.4)
    axes.axvline(0.025, color=MUTED, linewidth=0.8, linestyle=":")
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(numticks=12))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda value, _: _said(value))
    axes.set_xlabel("reconfiguration delay (dotted: 25 ms)")
    axes.grid(axis="y")


def _draw_gaps(near: Axes, rows: Rows, first: float) -> None:
    from lightloom.style.palette import MUTED

    for at, row in enumerate(some(rows, what="gap")):
        low, high, height = max(row["least_s"], 1e-6), row["median_s"], 1.5 - 0.04 * at
        near.plot([low, high], [height] * 2, color=MUTED, linewidth=3, marker="|", markersize=7)
        said = f"before {row['name']}"
        paper = {"facecolor": "white", "edgecolor": "none", "pad": 1}
        near.text(high * 1.3, height, said, va="center", fontsize=7, color=MUTED, bbox=paper)
    for row in some(rows, what="point", name=NEVER, shared=False):
        near.axhline(row["iteration_s"] / first, color=MUTED, linewidth=1, linestyle="--")
        near.text(8e-7, row["iteration_s"] / first + 0.004, NEVER, fontsize=8, color=MUTED)
    near.set_xlim(7e-7, 1.0)
    near.set_ylim(0.9, 1.55)
    near.set_title("near 1; bars: compute before an all-to-all, least to median", fontsize=9)
