"""``lightloom testbed``: a small cluster in this machine, with an optical switch in the kernel."""

from __future__ import annotations

import json
import sys
from typing import Any

import typer

from lightloom.cli.testbed_compare import compare
from lightloom.cli.testbed_jobs import JSON, NAME, collective, run, turnaround
from lightloom.cli.testbed_plan import plan
from lightloom.cli.testbed_rails import rails
from lightloom.cli.testbed_railx import railx
from lightloom.cli.testbed_replay import demo, replay
from lightloom.cli.testbed_status import show

app = typer.Typer(no_args_is_help=True)
broken = typer.Typer(no_args_is_help=True)
app.add_typer(broken, name="fault")


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
    servers: int | None = typer.Option(
        None, "--servers", help="Servers, each a network namespace (4)."
    ),
    ranks_per_server: int = typer.Option(8, "--ranks-per-server", help="Processes on each."),
    eps_nics: int | None = typer.Option(
        None, "--eps-nics", help="NICs of each server to the Ethernet switch (1)."
    ),
    ocs_nics: int | None = typer.Option(
        None, "--ocs-nics", help="NICs of each server to the optical switch (3)."
    ),
    rate: str = typer.Option("100 Mbps", "--rate", help="Of each NIC, each way."),
    delay: str = typer.Option("25 ms", "--delay", help="What the optical switch takes to change."),
    nic_activation: str = typer.Option(
        "0 s",
        "--nic-activation",
        help="How long NICs take to become active once their circuits have light.",
    ),
    told_activation: str | None = typer.Option(
        None, "--told-activation", help="What the controller is told of it (the truth)."
    ),
    decision: str = typer.Option(
        "timed", "--decision", help="The controller's rule: timed, algorithm-1 or matchings."
    ),
    hysteresis: bool = typer.Option(
        True, "--hysteresis/--no-hysteresis", help="Circuits change only where that pays."
    ),
    faults: list[str] = typer.Option(
        [],
        "--fault",
        help="What the optical switch does wrong: silent, late=2s, lies=0.1, ..., then @FROM..TO"
        " if not always; repeated.",
    ),
    eps: str = typer.Option(
        "bridge", "--eps", help="The Ethernet: bridge, one switch; rails, a leaf a NIC, and spines."
    ),
    grid: str | None = typer.Option(
        None,
        "--railx",
        help="A grid of RailX in place of all these: columns x rows of nodes, such as 3x3.",
    ),
    rails: int | None = typer.Option(
        None, "--rails", help="Of RailX: a node's rails along each axis, two NICs each (2)."
    ),
    planes: int | None = typer.Option(
        None,
        "--planes",
        help="Optical planes in place of optical NICs: NIC ocsI of every server leads to plane I,"
        " a switch of its own, which `testbed plan` sets.",
    ),
    spines: int | None = typer.Option(None, "--spines", help="Spines of rails (2)."),
    spine_rate: str | None = typer.Option(
        None,
        "--spine-rate",
        help="Of each link of a leaf and a spine (its uplinks carry what its NICs carry).",
    ),
    mtu: int = typer.Option(
        1500, "--mtu", help="What a frame holds, in bytes: 576 to 9000 (jumbo frames)."
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

    given = {"servers": servers, "eps_nics": eps_nics, "ocs_nics": ocs_nics}
    counts = {key: count for key, count in given.items() if count is not None}
    if grid is not None:
        for key, count in counts.items():
            flag = f"--{key.replace('_', '-')}"
            raise InputError(f"{flag}: {count}: is not read with --railx, whose grid says it")
        if eps != "bridge":
            raise InputError(f"--eps: {eps}: is not read with --railx, which has no Ethernet")
        eps = "railx"
    if planes is not None and ocs_nics is not None:
        raise InputError(f"--ocs-nics: {ocs_nics}: is not read with --planes, which say it")
    shape = beds.Shape(
        name=name,
        planes=planes,
        ranks_per_server=ranks_per_server,
        grid=grid,
        rails=rails,
        **counts,
        rate=parsed(Rate, "--rate", rate),
        delay=parsed(Time, "--delay", delay),
        activation=parsed(Time, "--nic-activation", nic_activation),
        told_activation=None
        if told_activation is None
        else parsed(Time, "--told-activation", told_activation),
        decision=decision,
        hysteresis=hysteresis,
        faults=tuple(faults),
        eps=eps,
        spines=spines,
        mtu=mtu,
        crossbar=crossbar or ("mirred" if rootless else "bpf"),
        spine_rate=None if spine_rate is None else parsed(Rate, "--spine-rate", spine_rate),
    )
    beds.up(shape, lambda line: print(line, file=sys.stderr), without_root=rootless)
    if as_json:
        print(json.dumps({"name": name, "namespaces": shape.namespaces}))
        return
    nics = f"{shape.eps_nics} + {shape.ocs_nics} NICs of {shape.rate}"
    print(f"{name} is up: {shape.servers} servers of {nics}, {ranks_per_server} ranks each")
    if shape.eps == "railx":
        lines = f"{shape.rows} switches of rows, {shape.columns} of columns"
        print(f"{lines}: dark until `lightloom testbed railx torus` sets circuits")
        return
    if shape.planes is not None:
        print(f"{shape.planes} planes: dark until `lightloom testbed plan alltoall` has a plan")
        return
    if shape.crossbar == "mirred":
        print("no filters stand at NICs: runtimes keep leases by themselves")
    if shape.eps == "rails":
        print(
            f"{shape.eps_nics} leaves, each joined to {shape.spines} spines at {shape.spine_rate}"
        )


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


app.command(context_settings={"allow_extra_args": True})(run)
app.command()(collective)
app.command()(turnaround)
app.command()(compare)
app.command()(rails)
app.command()(railx)
app.command()(replay)
app.command()(demo)
app.command()(plan)


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
    show(now)


@broken.callback()
def fault() -> None:
    """Make something go wrong in a testbed, or put it right.

    Example: lightloom testbed fault cable node-01 ocs0 out
    """


NODE = typer.Argument(..., metavar="NODE", help="A server, as node-01.")
NIC = typer.Argument(..., metavar="NIC", help="Its NIC, as eps0 or ocs0.")


@broken.command()
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


@broken.command()
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


@broken.command("node")
def node_(
    node: str = NODE,
    state: str = typer.Argument(..., metavar="lost|back", help="Lose it, or get it back, empty."),
    name: str = NAME,
) -> None:
    """Lose a server: all its cables are out, and its processes are killed.

    Example: lightloom testbed fault node node-04 lost
    """
    _fault(name, "node", node, state)


@broken.command()
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
