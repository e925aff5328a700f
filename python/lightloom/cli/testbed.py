"""``lightloom testbed``: a small cluster in this machine, with an optical switch in the kernel."""

from __future__ import annotations

import json
import sys
from typing import Any

import typer

from lightloom.cli.testbed_compare import compare

app = typer.Typer(no_args_is_help=True)
faults = typer.Typer(no_args_is_help=True)
app.add_typer(faults, name="fault")

JSON = typer.Option(False, "--json", help="Print JSON.")
NAME = typer.Option("testbed", "--name", help="The testbed's name.")


@app.callback()
def testbed() -> None:
    """Build a small cluster in this machine: servers, shaped NICs, an optical switch, a controller.

    Servers are network namespaces, the Ethernet switch is a bridge (or rails: leaves and spines),
    and the optical switch is a crossbar in the kernel that the controller drives over TL1. Needs
    root, but for `up --rootless`.

    Example: lightloom testbed up --servers 4 --ocs-nics 3 --rate "100 Mbps"
    """


@app.command()
def up(
    servers: int = typer.Option(4, "--servers", help="Servers, each a network namespace."),
    ranks_per_server: int = typer.Option(8, "--ranks-per-server", help="Processes on each."),
    eps_nics: int = typer.Option(
        1, "--eps-nics", help="NICs of each server to the Ethernet switch."
    ),
    ocs_nics: int = typer.Option(
        3, "--ocs-nics", help="NICs of each server to the optical switch."
    ),
    rate: str = typer.Option("100 Mbps", "--rate", help="Of each NIC, each way."),
    delay: str = typer.Option("25 ms", "--delay", help="What the optical switch takes to change."),
    eps: str = typer.Option(
        "bridge", "--eps", help="The Ethernet: bridge, one switch; rails, a leaf a NIC, and spines."
    ),
    spines: int | None = typer.Option(None, "--spines", help="Spines of rails (2)."),
    spine_rate: str | None = typer.Option(
        None,
        "--spine-rate",
        help="Of each link of a leaf and a spine (its uplinks carry what its NICs carry).",
    ),
    crossbar: str | None = typer.Option(
        None,
        "--crossbar",
        help="What carries frames through the optical switch: bpf, or mirred, which has no filters"
        " at NICs (bpf; with --rootless mirred).",
    ),
    rootless: bool = typer.Option(
        False, "--rootless", help="In a user namespace: needs no root, and has no filters at NICs."
    ),
    name: str = NAME,
    as_json: bool = JSON,
) -> None:
    """Build it. If that fails or is interrupted, nothing is left.

    Example: lightloom testbed up --servers 4 --ocs-nics 3 --rate "100 Mbps"
    """
    from lightloom import testbed as beds
    from lightloom.errors import InputError
    from lightloom.units import Rate, Time

    def parsed(kind: Any, flag: str, text: str) -> Any:
        try:
            return kind.parse(text)
        except ValueError as error:
            raise InputError(f"{flag}: {text}: {error}") from None

    shape = beds.Shape(
        name=name,
        servers=servers,
        ranks_per_server=ranks_per_server,
        eps_nics=eps_nics,
        ocs_nics=ocs_nics,
        rate=parsed(Rate, "--rate", rate),
        delay=parsed(Time, "--delay", delay),
        eps=eps,
        spines=spines,
        crossbar=crossbar or ("mirred" if rootless else "bpf"),
        spine_rate=None if spine_rate is None else parsed(Rate, "--spine-rate", spine_rate),
    )
    beds.up(shape, lambda line: print(line, file=sys.stderr), without_root=rootless)
    if as_json:
        print(json.dumps({"name": name, "namespaces": shape.namespaces}))
        return
    nics = f"{eps_nics} + {ocs_nics} NICs of {shape.rate}"
    print(f"{name} is up: {servers} servers of {nics}, {ranks_per_server} ranks each")
    if shape.crossbar == "mirred":
        print("no filters stand at NICs: runtimes keep leases by themselves")
    if shape.eps == "rails":
        print(f"{eps_nics} leaves, each joined to {shape.spines} spines at {shape.spine_rate}")


@app.command()
def down(name: str = NAME, as_json: bool = JSON) -> None:
    """Remove a testbed, whole or half built, and nothing else. May be done twice.

    Example: lightloom testbed down
    """
    from lightloom import testbed as beds

    there = beds.down(name)
    if as_json:
        print(json.dumps({"name": name, "removed": there}))
        return
    print(f"{name} is down" if there else f"{name}: there was none")


PATH = typer.Option(
    "delegate", "--path",
    help="How bytes are shared over NICs: delegate, rails, stripe, hash, pxn or source.",
)  # fmt: skip
ALGORITHM = typer.Option(
    "direct", "--algorithm", help="How all but all-to-alls go: direct, or ring."
)
CHUNK = typer.Option("64 KiB", "--chunk", help="The longest chunk.")


def _bytes(flag: str, text: str) -> int:
    from lightloom.errors import InputError
    from lightloom.units import Size

    try:
        return int(Size.parse(text))
    except ValueError as error:
        raise InputError(f"{flag}: {text}: {error}") from None


@app.command(context_settings={"allow_extra_args": True})
def run(
    context: typer.Context,
    path: str = PATH,
    algorithm: str = ALGORITHM,
    chunk: str = CHUNK,
    name: str = NAME,
    as_json: bool = JSON,
) -> None:
    """Run a program as every rank: a process a rank, in its server's namespace.

    Each finds RANK, WORLD_SIZE, LOCAL_RANK and MASTER_ADDR in its environment, as with torchrun,
    and LIGHTLOOM_RUNTIME, where `lightloom.runtime.Rank` reaches its server's runtime. If a rank
    fails, the others are told to end, and the exit code is 1.

    Example: lightloom testbed run -- python job.py
    """
    from lightloom import testbed as beds
    from lightloom.errors import InputError
    from lightloom.testbed import rootless

    rootless.enter(name)
    command = list(context.args)
    if not command:
        raise InputError("testbed run: no program; `lightloom testbed run -- python job.py`")
    request = beds.Request(paths=(path,), algorithm=algorithm, chunk_bytes=_bytes("--chunk", chunk))
    settings = beds.Settings(path, algorithm, request.chunk_bytes)
    with beds.Job(name, settings) as job:
        job.run(command)
        ranks = job.shape.servers * job.shape.ranks_per_server
    if as_json:
        print(json.dumps({"name": name, "ranks": ranks, "command": command}))


@app.command()
def collective(
    kind: str = typer.Argument(
        "alltoall", help="alltoall, allreduce, reducescatter, allgather, broadcast or barrier."
    ),
    demand: str = typer.Option(
        "even",
        "--demand",
        help="Of alltoall: even, a recording such as e8k2, or a workload of `lightloom rails`.",
    ),
    size: str = typer.Option(
        "8 MB", "--size", help="What a rank sends, on average over ranks; or has, if no alltoall."
    ),
    path: str = typer.Option(
        "delegate", "--path", help="One or several of delegate, rails, stripe, hash, pxn, source."
    ),
    count: int = typer.Option(1, "--count", help="How many, each with a demand of its own."),
    algorithm: str = ALGORITHM,
    chunk: str = CHUNK,
    seed: int = typer.Option(1, "--seed", help="Of the demands."),
    name: str = NAME,
    as_json: bool = JSON,
) -> None:
    """Run collectives of all ranks, check every byte, and say how long they took.

    With --path delegate, ranks first say what they will send, and the controller sets circuits.

    Example: lightloom testbed collective alltoall --demand e8k2 --path delegate,rails,stripe
    """
    from lightloom import testbed as beds
    from lightloom.testbed import rootless

    rootless.enter(name)
    request = beds.Request(
        kind=kind, size_bytes=_bytes("--size", size), workload=demand,
        paths=tuple(path.split(",")), count=count, algorithm=algorithm,
        chunk_bytes=_bytes("--chunk", chunk), seed=seed,
    )  # fmt: skip
    outcomes = beds.collective(name, request, lambda line: print(line, file=sys.stderr))
    if as_json:
        print(json.dumps([outcome.said() for outcome in outcomes], indent=2))
        return
    _show_outcomes(outcomes)


@app.command()
def turnaround(
    pairs: str = typer.Option(
        "1,4,12", "--pairs", help="How many circuits change at a time: some of 1, 4, 8, 12, 16."
    ),
    rounds: int = typer.Option(50, "--rounds", help="How often."),
    delay: str = typer.Option("25 ms", "--delay", help="What the emulated switch takes."),
    as_json: bool = JSON,
) -> None:
    """Measure how long circuits take to change, on testbeds that it builds and takes down.

    From the last rank's demand: until circuits may be used, of which the emulated switch's delay is
    a setting and the rest our control path; until runtimes are connected over them; until the first
    bytes have come.

    Example: lightloom testbed turnaround --pairs 1,4,12
    """
    from lightloom import testbed as beds
    from lightloom.errors import InputError
    from lightloom.units import Time

    try:
        counts = [int(word) for word in pairs.split(",")]
        taken = Time.parse(delay)
    except ValueError as error:
        raise InputError(f"--pairs: {pairs}, --delay: {delay}: {error}") from None
    found = [
        beds.turnaround(count, rounds, taken, lambda line: print(line, file=sys.stderr)).said()
        for count in counts
    ]
    if as_json:
        print(json.dumps(found, indent=2))
        return
    print("milliseconds, median / 99 %")
    for row in found:
        parts = (
            f"{name} {row[f'{name}_p50_ms']:.1f} / {row[f'{name}_p99_ms']:.1f}"
            for name in ("control", "decided", "connected", "delivered")
        )
        print(f"{row['pairs']:>3} circuits: {', '.join(parts)}")


def _show_outcomes(outcomes: list[Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(
        "path", "demand", "ms", "of placed bound", "of ideal", "MB between", "gather ms",
        "exchange ms", "scatter ms", "circuits", "detours", box=None,
    )  # fmt: skip
    for row in outcomes:
        seconds = max(row.seconds, 1e-9)
        table.add_row(
            row.path, str(row.demand), f"{row.seconds * 1e3:,.1f}",
            f"{row.placed_seconds / seconds:.1%}", f"{row.ideal_seconds / seconds:.1%}",
            f"{row.between_bytes / 1e6:,.1f}", f"{row.gather_seconds * 1e3:.1f}",
            f"{row.exchange_seconds * 1e3:,.1f}", f"{row.scatter_seconds * 1e3:.1f}",
            "" if row.circuits is None else str(row.circuits), str(row.detours),
        )  # fmt: skip
    Console(width=None if sys.stdout.isatty() else 140, highlight=False).print(table)


app.command()(compare)


@app.command()
def status(
    name: str = NAME,
    spec: bool = typer.Option(
        False, "--spec", help="Print it as a specification (TOML) for `lightloom simulate`."
    ),
    as_json: bool = JSON,
) -> None:
    """Show circuits, and what went through the optical switch and the filters at its NICs.

    Example: lightloom testbed status
    """
    from lightloom import testbed as beds
    from lightloom.errors import InputError

    if spec and as_json:
        raise InputError("--json: --spec prints TOML")
    if spec:
        print(beds.specification(beds.known(name)), end="")
        return
    now = beds.status(name)
    if as_json:
        print(json.dumps(now, indent=2))
        return
    _show(now)


@faults.callback()
def fault() -> None:
    """Make something go wrong in a testbed, or put it right.

    Example: lightloom testbed fault cable node-01 ocs0 out
    """


NODE = typer.Argument(..., metavar="NODE", help="A server, as node-01.")
NIC = typer.Argument(..., metavar="NIC", help="Its NIC, as eps0 or ocs0.")


@faults.command()
def cable(
    node: str = NODE,
    nic: str = NIC,
    state: str = typer.Argument(..., metavar="out|in", help="Pull it out, or put it in again."),
    name: str = NAME,
) -> None:
    """Pull out the cable of a NIC.

    Example: lightloom testbed fault cable node-01 ocs0 out
    """
    _fault(name, "cable", node, nic, state)


@faults.command()
def shutter(
    node: str = NODE,
    nic: str = NIC,
    state: str = typer.Argument(..., metavar="shut|open", help="Shut it, or open it again."),
    name: str = NAME,
) -> None:
    """Shut the optical switch's port of a NIC, as an operator does by TL1.

    Example: lightloom testbed fault shutter node-01 ocs0 shut
    """
    _fault(name, "shutter", node, nic, state)


@faults.command()
def silent(
    state: str = typer.Argument(..., metavar="on|off", help="Begin to be silent, or end."),
    name: str = NAME,
) -> None:
    """Let the optical switch hear and say nothing; its mirrors stand.

    Example: lightloom testbed fault silent on
    """
    _fault(name, "silent", state)


def _fault(name: str, kind: str, *words: str) -> None:
    from lightloom import testbed as beds

    beds.fault(name, kind, [*words])
    print(f"{name}: {kind} {' '.join(words)}")


def _yes(is_so: bool) -> str:
    return "yes" if is_so else "no"


def _show(now: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    shape, controller = now["shape"], now["controller"]
    out = [f"{row['server']} {row['nic']}" for row in now["switch"] if not row["in"]]
    out += [f"{row['nic']} at {row['switch']}" for row in now["ethernet"] if not row["in"]]
    print(
        f"{shape['name']}: {shape['servers']} servers of {shape['eps_nics']} + {shape['ocs_nics']}"
        f" NICs of {shape['rate']}; the optical switch takes {shape['delay']}"
    )
    if controller is None:
        print("the controller does not answer")
    else:
        alarms = ", ".join(alarm["text"] for alarm in controller["alarms"]) or "none"
        print(f"plan {controller['generation']}, alarms: {alarms}")
    if out:
        print(f"cables that are out: {', '.join(out)}")
    filters = {(row["server"], row["nic"]): row for row in now["filters"]}
    table = Table(
        "server", "NIC", "sends", "refused", "forwarded", "MB", "dark", "unconnected", box=None
    )
    for row in now["switch"]:
        at = filters.get((row["server"], row["nic"]))
        sends, refused = ("any", "-") if at is None else (_yes(at["open"]), f"{at['refused']:,}")
        table.add_row(
            row["server"], row["nic"], sends, refused,
            f"{row['forwarded']:,}", f"{row['bytes'] / 1e6:,.1f}", f"{row['dark']:,}",
            f"{row['unconnected']:,}",
        )  # fmt: skip
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    console.print(table)
    between = [row for row in now["ethernet"] if row["nic"].startswith(("leaf-", "spine-"))]
    if not between:
        return
    table = Table("Ethernet switch", "sends to", "frames", "MB", "dropped", box=None)
    for row in between:
        table.add_row(
            row["switch"], row["nic"], f"{row['frames']:,}", f"{row['bytes'] / 1e6:,.1f}",
            f"{row['dropped']:,}",
        )  # fmt: skip
    console.print(table)
