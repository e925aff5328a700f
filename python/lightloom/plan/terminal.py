"""The tables that ``lightloom plan`` prints: schedulers side by side, and tracks."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from lightloom import screen
from lightloom.plan.collective import Row
from lightloom.plan.file import Plan
from lightloom.plan.grid import text
from lightloom.plan.job import Planes
from lightloom.screen import Column

NAMES = {
    "one-shot": "one-shot", "lockstep": "lockstep", "ideal": "ideal", "swot": "SWOT",
    "milp": "MILP", "matchings": "matchings", "ports": "ports",
}  # fmt: skip


_UNITS = (
    ("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10),
    ("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3),
)  # fmt: skip


def describe(planes: Planes, initial: str) -> str:
    """Say what a plan is made for, on one line.

    Examples
    --------
    >>> describe(Planes.of(nodes=8, planes=2, node_bandwidth="800 Gbps", reconfiguration="1 us",
    ...                    latency="0 us"), "dark")
    '2 planes x 400 Gbps, reconfiguration 1 us, latency 0 us, dark at first'
    """
    latency = str(planes.latency) if planes.latency else "0 us"
    dark = str(planes.reconfiguration) if planes.reconfiguration else "0 us"
    count = f"{planes.planes} plane{'s' if planes.planes > 1 else ''}"
    if planes.grid:
        count = f"grid {text(planes.grid)}"
    known = {
        "dark": "dark at first", "free": "set for free at first",
        "first-step": "set for the first step",
    }  # fmt: skip
    said = known.get(initial, f"at first as in {initial}")
    return f"{count} x {planes.port}, reconfiguration {dark}, latency {latency}, {said}"


def print_schedulers(rows: Sequence[Row], out: Console, algorithms: bool = False) -> None:
    """Print what schedulers answered.

    Parameters
    ----------
    rows
        One a scheduler; the reference of the second column is lockstep.
    out
        Where to print.
    algorithms
        Whether rows are of different algorithms.
    """
    columns = [
        Column("scheduler", name=True), Column("completion\nus", "comple-\ntion us"),
        Column("under\nlockstep"), Column("bound\nus"), Column("gap"),
        Column("reconfigured", "recon-\nfigured", rank=3), Column("dark time\nexposed", rank=2),
        Column("over\nideal", rank=1),
    ]  # fmt: skip
    if algorithms:
        columns.insert(1, Column("algorithm", name=True))
    table = []
    ends = {row.scheduler: row.completion_ps for row in rows}
    lockstep, ideal = ends.get("lockstep"), ends.get("ideal")
    for row in rows:
        cells = [NAMES.get(row.scheduler, row.scheduler)]
        if algorithms:
            cells.append("-" if row.completion_ps is None else row.algorithm)
        if row.completion_ps is None:
            # A reason does not fit in a column of numbers.
            table.append([*cells, "infeasible", *["-"] * 6])
            continue
        done = row.completion_ps
        compared = row.scheduler != "lockstep"
        table.append([
            *cells,
            microseconds(done),
            _percent(1 - done / lockstep) if lockstep and compared else "-",
            "-" if row.bound_ps is None else microseconds(row.bound_ps),
            "-" if row.gap is None else _percent(row.gap),
            str(row.switches) if row.switches else "-",
            "-" if row.exposed is None else _percent(row.exposed),
            "-" if ideal is None or row.scheduler == "ideal" else _percent(1 - ideal / done),
        ])  # fmt: skip
    screen.print_table(columns, table, out)


def print_node(plan: Plan, node: int, out: Console) -> None:
    """Print what a node sends, in order."""
    columns = ("step", "start\nus", "end\nus", "peer", "plane", "bytes", "after step")
    table = []
    for send in plan.nodes[node].transmissions:
        after = "-" if send.after_step is None else str(send.after_step)
        table.append([
            str(send.step), microseconds(send.start_ps), microseconds(send.end_ps),
            str(send.peer), str(send.plane), f"{send.bytes:,}", after,
        ])  # fmt: skip
    screen.print_table(columns, table, out)


def print_planes(plan: Plan, out: Console) -> None:
    """Print what the controller does, plane by plane."""
    first = Column("the first of them", name=True)
    table = []
    for track in plan.planes:
        for one in track.reconfigurations:
            some = ", ".join(f"{a}>{b}" for a, b in one.circuits[:6])
            more = ", ..." if len(one.circuits) > 6 else ""
            table.append([
                str(track.plane), microseconds(one.start_ps), microseconds(one.ready_ps),
                str(len(one.circuits)), some + more,
            ])  # fmt: skip
    screen.print_table(("plane", "dark\nus", "ready\nus", "circuits", first), table, out)


def summary(plan: Plan) -> str:
    """Say what a plan is, in two lines."""
    task, machine = plan.task, plan.machine
    what = {"all-to-all": "all-to-all", "other": "plan"}.get(task.kind, "")
    if task.kind == "collective":
        what = f"{task.algorithm}, {size_text(task.size_bytes)}"
    sends = sum(len(node.transmissions) for node in plan.nodes)
    sets = sum(len(plane.reconfigurations) for plane in plan.planes)
    where = f"{machine.planes} planes"
    if machine.grid:
        where = f"grid {text(tuple((one.nodes, one.planes) for one in machine.grid))}"
    first = (
        f"{what}, {machine.nodes} nodes, {where}, by "
        f"{NAMES.get(plan.made.scheduler, plan.made.scheduler)}"
    )
    return (
        f"{first}\n{sends} transmissions, {sets} reconfigurations; complete at "
        f"{microseconds(plan.completion_ps)} us, bound {microseconds(plan.bound_ps)} us, "
        f"gap {_percent(plan.gap)}"
    )


def microseconds(ps: int) -> str:
    """Write a time in microseconds, rounded to a nanosecond.

    Examples
    --------
    >>> microseconds(1_200_000_000), microseconds(1_234_567_891), microseconds(1_500_000)
    ('1,200', '1,234.568', '1.5')
    """
    text = f"{ps / 10**6:,.3f}"
    return text.rstrip("0").rstrip(".")


def size_text(size: int) -> str:
    """Write a size exactly, in the unit that makes the shortest number.

    Examples
    --------
    >>> size_text(64_000_000), size_text(64 << 20), size_text(1_234_567)
    ('64 MB', '64 MiB', '1234567 B')
    """
    whole = [(size // scale, name) for name, scale in _UNITS if size and size % scale == 0]
    number, name = min(whole, default=(size, "B"))
    return f"{number} {name}"


def _percent(share: float) -> str:
    """Write a share; what is not quite zero does not look like it."""
    if 0 < abs(share) < 0.0005:
        return "<0.1 %" if share > 0 else ">-0.1 %"
    return f"{100 * share:.1f} %"
