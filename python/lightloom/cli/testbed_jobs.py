"""``lightloom testbed run``, ``collective`` and ``turnaround``: what runs on a testbed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import typer

JSON = typer.Option(False, "--json", help="Print JSON.")
NAME = typer.Option("testbed", "--name", help="The testbed's name.")
PATH = typer.Option(
    "delegate", "--path",
    help="How bytes are shared over NICs: delegate, rails, stripe, hash, pxn or source.",
)  # fmt: skip
ALGORITHM = typer.Option(
    "direct", "--algorithm", help="How all but all-to-alls go: direct, or ring."
)
PART = typer.Option(0, "--job", help="On a grid of RailX, which of its jobs.")
CHUNK = typer.Option(
    None, "--chunk", help="The longest chunk: 2.5 ms of a NIC's rate, 4 to 256 KiB, unless given."
)
PARTS = typer.Option(
    None,
    "--parts",
    help="Parts of an all-reduce, or of a ring's slices, that are under way at once (4, or 2).",
)
OUT = typer.Option(
    None, "--out", help="A directory for what each server's runtime has counted, as JSON."
)


def parsed_bytes(flag: str, text: str) -> int:
    """Read a size as the command line writes it [B].

    Raises
    ------
    InputError
        If it is none; with the flag.
    """
    from lightloom.errors import InputError
    from lightloom.units import Size

    try:
        return int(Size.parse(text))
    except ValueError as error:
        raise InputError(f"{flag}: {text}: {error}") from None


def parsed_chunk(text: str | None) -> int | None:
    """Read `--chunk`, if it is given [B]."""
    return None if text is None else parsed_bytes("--chunk", text)


def run(
    context: typer.Context,
    path: str = PATH,
    algorithm: str = ALGORITHM,
    chunk: str | None = CHUNK,
    parts: int | None = PARTS,
    job: int = PART,
    spares: int = typer.Option(
        0, "--spares", help="Servers that stand by, the last ones, for others that fail."
    ),
    restarts: int | None = typer.Option(
        None, "--restarts", help="How often the job may begin anew (once for each spare)."
    ),
    name: str = NAME,
    out: Path | None = OUT,
    as_json: bool = JSON,
) -> None:
    """Run a program as every rank: a process a rank, in its server's namespace.

    Each finds RANK, WORLD_SIZE, LOCAL_RANK and MASTER_ADDR in its environment, as with torchrun,
    and LIGHTLOOM_RUNTIME, where `lightloom.runtime.Rank` reaches its server's runtime. If a rank
    fails, the others are told to end, and the exit code is 1.

    With --spares the job runs on all servers but the last ones. If a rank or a server's runtime
    fails, all end, and the program begins anew with a spare in the place of that server. It finds
    in TORCHELASTIC_RESTART_COUNT how often that was. Exit code 2, bad input, ends the job.

    Example: lightloom testbed run -- python job.py
    """
    from lightloom import testbed as beds
    from lightloom.errors import InputError
    from lightloom.testbed import rootless

    rootless.enter(name)
    command = list(context.args)
    if not command:
        raise InputError("testbed run: no program; `lightloom testbed run -- python job.py`")
    request = beds.Request(
        paths=(path,), algorithm=algorithm, chunk_bytes=parsed_chunk(chunk), parts=parts
    )
    settings = beds.Settings(path, algorithm, request.chunk_bytes, parts)
    if spares or restarts is not None:
        if job:
            raise InputError(f"--job: {job}: must be 0 with --spares")
        ran = beds.run(
            name, command, settings, spares, restarts, out,
            # One write: ranks write there, too.
            lambda line: sys.stderr.write(f"lightloom: {line}\n"),
        )  # fmt: skip
        if as_json:
            said = {"name": name, "ranks": ran.ranks, "command": command, "servers": ran.servers}
            print(json.dumps(said | {"restarts": [restart.said() for restart in ran.restarts]}))
        return
    with beds.Job(name, settings, job, out) as under_way:
        under_way.run(command)
        ranks = under_way.team.ranks
    if as_json:
        print(json.dumps({"name": name, "ranks": ranks, "command": command}))


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
    algorithm: str = typer.Option(
        "direct",
        "--algorithm",
        help="How all but all-to-alls go: direct, or ring; all-reduces on a grid of RailX also"
        " hierarchical (rings of rows and columns) or hyperx (rows and columns all at once).",
    ),
    chunk: str | None = CHUNK,
    parts: int | None = PARTS,
    job: int = PART,
    seed: int = typer.Option(1, "--seed", help="Of the demands."),
    name: str = NAME,
    out: Path | None = OUT,
    as_json: bool = JSON,
) -> None:
    """Run collectives of all ranks, check every byte, and say how long they took.

    With --path delegate, ranks first say what they will send, and the controller sets circuits.

    Example: lightloom testbed collective alltoall --demand e8k2 --path delegate,rails,stripe

    Example, to sum gradients over a ring: lightloom testbed collective allreduce --size "64 MB"
    --algorithm ring
    """
    from lightloom import testbed as beds
    from lightloom.testbed import rootless

    rootless.enter(name)
    request = beds.Request(
        kind=kind, size_bytes=parsed_bytes("--size", size), workload=demand,
        paths=tuple(path.split(",")), count=count, algorithm=algorithm,
        chunk_bytes=parsed_chunk(chunk), seed=seed, job=job, parts=parts,
    )  # fmt: skip
    outcomes = beds.collective(name, request, lambda line: print(line, file=sys.stderr), out=out)
    if as_json:
        print(json.dumps([outcome.said() for outcome in outcomes], indent=2))
        return
    _show_outcomes(outcomes)


def turnaround(
    pairs: str = typer.Option(
        "1,4,12", "--pairs", help="How many circuits change at a time: some of 1, 4, 8, 12, 16."
    ),
    rounds: int = typer.Option(50, "--rounds", help="How often."),
    delay: str = typer.Option("25 ms", "--delay", help="What the emulated switch takes."),
    nic_activation: str = typer.Option(
        "0 s",
        "--nic-activation",
        help="How long NICs take to become active once their circuits have light.",
    ),
    as_json: bool = JSON,
) -> None:
    """Measure how long circuits take to change, on testbeds that it builds and takes down.

    From the last rank's demand: until circuits may be used, of which the emulated switch's delay is
    a setting and the rest our control path; until runtimes are connected over them; until the first
    bytes have come over them. With --nic-activation also from active NICs to the first bytes.

    Example: lightloom testbed turnaround --pairs 1,4,12
    """
    from lightloom import testbed as beds
    from lightloom.errors import InputError
    from lightloom.units import Time

    try:
        counts = [int(word) for word in pairs.split(",")]
        taken, active = Time.parse(delay), Time.parse(nic_activation)
    except ValueError as error:
        flags = f"--pairs: {pairs}, --delay: {delay}, --nic-activation: {nic_activation}"
        raise InputError(f"{flags}: {error}") from None

    def told(line: str) -> None:
        print(line, file=sys.stderr)

    found = [beds.turnaround(count, rounds, taken, told, active).said() for count in counts]
    if as_json:
        print(json.dumps(found, indent=2))
        return
    print("milliseconds, median / 99 %")
    late = ("late",) if int(active) else ()
    if late:
        print(f"late: from active NICs, {active} after circuits may be used, to the first bytes")
    for row in found:
        parts = (
            f"{name} {row[f'{name}_p50_ms']:.1f} / {row[f'{name}_p99_ms']:.1f}"
            for name in ("control", "decided", "connected", "delivered", *late)
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
