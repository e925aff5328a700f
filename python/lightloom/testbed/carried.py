"""Carries one plan out on a testbed of planes: its controller, and a process a node with bytes.

Modelled: `lightloom controller run` sets every plane's circuits as the plan's track says, over TL1;
`lightloomd node` sends what the nodes' track says, over TCP, each part once its circuit stands, and
checks every byte that came. Neither decides anything: what a node may send, and when a circuit may
change, is asked of the same machine that emulated nodes have (``docs/execution.md``). A plan that
falls back is not the end: what is left takes packet NICs, and the outcome says why. Ignored: ranks.
Checked: ``tests/test_testbed_plan.py``.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lightloom import _core, daemon
from lightloom.errors import InputError, RunError
from lightloom.plan.file import CollectiveTask, Plan
from lightloom.testbed import ends, record, system
from lightloom.testbed.planes import receiving
from lightloom.testbed.runtimes import LOST_MS
from lightloom.testbed.shape import Shape
from lightloom.testbed.status import carried as through
from lightloom.testbed.switches import switches_file

# By what the command line says: the primitive that a plan is of.
KINDS = {"alltoall": "all-to-all", "allreduce": "all-reduce"}
# Where nodes listen, at each NIC: a job's runtimes may be there, too.
PORT = 9101
# Nodes that hear nothing of a controller for so long go on without circuits.
GIVE_UP = "10 s"
# So long a controller and nodes may take to start and to end, besides the plan [s].
START_S, MOST_S = 20.0, 300.0


@dataclass(frozen=True)
class Carried:
    """What became of a plan.

    Attributes
    ----------
    planned_seconds
        What the plan says that it takes [s].
    seconds
        From when all nodes could know that the plan had begun until the last one had sent and
        received everything [s].
    without
        Why nodes went on without circuits, each reason once; none if the plan was carried out.
    detoured_bytes
        What took packet NICs [B].
    resent, breaks
        Chunks that were sent again; why connections broke, each one.
    dark
        Frames with data that optical switches lost, in the dark or at a port without a circuit.
    settings
        Changes of a plane that the controller has verified.
    turnaround_seconds
        By change: from when the last node had said that it had done with a circuit of before until
        the last new circuit was connected [s]; a setting may have waited for its time.
    latency_seconds
        By transmission: from its beginning to its acknowledgement, less its bytes at the plan's
        rate [s].
    """

    planned_seconds: float
    seconds: float
    without: tuple[str, ...]
    detoured_bytes: int
    resent: int
    breaks: tuple[str, ...]
    dark: int
    settings: int
    turnaround_seconds: tuple[float, ...]
    latency_seconds: tuple[float, ...]


def need_planes(shape: Shape) -> None:
    """Refuse a testbed without planes.

    Raises
    ------
    InputError
        If it has none.
    """
    if shape.planes is None:
        raise InputError(
            f"--name: {shape.name}: has no planes: `lightloom testbed up --planes 4` makes some"
        )


def refuse_misfit(shape: Shape, plan: Plan, kind: str | None = None) -> None:
    """Refuse a plan that the testbed cannot carry out, or that is of another collective.

    Parameters
    ----------
    shape
        The testbed.
    plan
        The plan.
    kind
        ``alltoall`` or ``allreduce``: what is to be run, if that is known.

    Raises
    ------
    InputError
        With the first thing that does not fit, and what would.

    Examples
    --------
    >>> from lightloom.plan import Job, plan_collective
    >>> job = Job.of("pairwise-alltoall", nodes=3, size="3 MB", planes=2)
    >>> plan = plan_collective(job, plan="swot").plan
    >>> refuse_misfit(Shape(servers=4, planes=2), plan)
    Traceback (most recent call last):
    ...
    lightloom.errors.InputError: the plan is of 3 nodes; the testbed has 4 servers
    """
    need_planes(shape)
    machine = plan.machine
    if machine.grid:
        raise InputError("the plan is over a grid; planes of a testbed join all servers")
    for what, planned, there in (
        ("nodes", machine.nodes, f"{shape.servers} servers"),
        ("planes", machine.planes, f"{shape.planes} planes"),
    ):
        if planned != int(there.split()[0]):
            raise InputError(f"the plan is of {planned} {what}; the testbed has {there}")
    task = _collective(plan)
    primitive = _messages(plan)["primitive"]
    if primitive not in KINDS.values() or (kind is not None and primitive != KINDS[kind]):
        allowed = ", ".join(KINDS.values()) if kind is None else KINDS[kind]
        raise InputError(f"the plan is of an {primitive} ({task.algorithm}); allowed: {allowed}")
    plan.check()


def _collective(plan: Plan) -> CollectiveTask:
    if plan.task.kind != "collective":
        raise InputError(f"the plan is of {plan.task.kind}; allowed: plans of algorithms")
    return plan.task


def _messages(plan: Plan) -> dict[str, Any]:
    task = _collective(plan)
    text = _core.plan_messages(task.algorithm, plan.machine.nodes, int(task.size_bytes), "[]")
    return dict(json.loads(text))


def _sent(plan: Plan) -> Plan:
    """Return a plan without transmissions of nodes that have nothing to send in a step.

    A plan has its circuits for all nodes, and the same bytes over each: of a double tree not all
    nodes send in every step.
    """
    steps = _messages(plan)["steps"]
    known = {(step, one["node"], one["peer"]) for step, all_ in enumerate(steps) for one in all_}
    nodes = tuple(
        track.model_copy(
            update={
                "transmissions": tuple(
                    one for one in track.transmissions if (one.step, track.node, one.peer) in known
                )
            }
        )
        for track in plan.nodes
    )
    return plan.model_copy(update={"nodes": nodes})


def block_bytes(plan: Plan) -> int:
    """Return how large the blocks of a plan's messages are [B].

    Examples
    --------
    >>> from lightloom.plan import Job, plan_collective
    >>> job = Job.of("ring-allreduce", nodes=3, size="10 B", planes=2)
    >>> block_bytes(plan_collective(job, plan="swot").plan)
    4
    """
    blocks = max(1, len(_messages(plan)["steps"][0][0]["blocks"]))
    return sum(size for _, size in next(iter(plan.splits()))) // blocks


def block_count(plan: Plan) -> int:
    """Return how many blocks a node has at the beginning, and at the end."""
    messages = _messages(plan)
    return plan.machine.nodes if messages["primitive"] == "all-to-all" else int(messages["blocks"])


def description(
    shape: Shape, plan: Plan, chunk_bytes: int | None = None, element: str | None = None
) -> dict[str, Any]:
    """Return a job's file, for ``lightloomd node``; elements are of 4 B unless one is given."""
    messages = _messages(plan)
    each = block_bytes(plan)
    return {
        "job": secrets.randbits(63),
        "secret": secrets.token_hex(32),
        "chunk": shape.chunk(chunk_bytes),
        "lost_ms": LOST_MS,
        "element": element or ("int32" if each % 4 == 0 else "uint8"),
        "messages": messages,
        "nodes": [
            {
                "packets": [f"{nic.address}:{PORT}" for nic in shape.packet(server)],
                "sends": [f"{nic.address}:{PORT}" for nic in shape.optical(server)],
                "receives": [f"{receiving(nic)}:{PORT}" for nic in shape.optical(server)],
            }
            for server in range(shape.servers)
        ],
    }


def carry_out(
    shape: Shape,
    plan: Plan,
    chunk_bytes: int | None = None,
    buffers: Path | None = None,
    element: str | None = None,
) -> Carried:
    """Carry a plan out on a testbed that no job is on, which the caller holds.

    Parameters
    ----------
    shape
        The testbed's.
    plan
        A plan that fits it (`refuse_misfit`).
    chunk_bytes
        The longest chunk [B]; `Shape.chunk` unless given.
    buffers
        A directory with what nodes begin with, such as ``node-00.begin``, and where what they have
        at the end is written, ``node-00.end``: blocks one after the other. Without it, bytes are
        made up and checked.
    element
        What all-reduces add up.

    Raises
    ------
    RunError
        If a node fails, or a byte is wrong.
    """
    place = record.place(shape.name) / "plan"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(mode=0o700)
    _sent(plan).write(place / "plan.json")
    plan.port_maps().write(place / "maps.json")
    (place / "switches.toml").write_text(switches_file(shape))
    file = place / "job.json"
    file.touch(mode=0o600)
    file.write_text(json.dumps(description(shape, plan, chunk_bytes, element)))
    lost = _dark(shape)
    with _processes() as processes:
        controller = _controller(shape, place, processes)
        alone = None
        if controller.poll() is not None:
            alone = f"the plan cannot begin: {_last(place, 'controller')}"
        servers = range(shape.servers)
        nodes = [_node(shape, place, at, processes, buffers, alone) for at in servers]
        until = time.monotonic() + MOST_S
        while any(node.poll() is None for node in nodes):
            for server, node in enumerate(nodes):
                if node.poll() not in (None, 0):
                    raise RunError(_last(place, shape.nodes[server]))
            if time.monotonic() > until:
                raise RunError(f"nodes do not end in {MOST_S:g} s")
            time.sleep(0.01)
        for server, node in enumerate(nodes):
            if node.poll():
                raise RunError(_last(place, shape.nodes[server]))
        controller.wait(START_S)
    rows = [json.loads((place / f"{node}.out").read_text()) for node in shape.nodes]
    return _outcome(plan, rows, _said(place), _dark(shape) - lost)


@contextmanager
def _processes() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Yield a list of processes, which have ended afterwards."""
    processes: list[subprocess.Popen[bytes]] = []
    try:
        yield processes
    finally:
        with system.uninterrupted():
            ends.end(processes)


def _start(
    shape: Shape, place: Path, name: str, processes: list[subprocess.Popen[bytes]], *words: str
) -> subprocess.Popen[bytes]:
    """Start a process beside the switches, with files of what it says."""
    program = [daemon.find(), "--log-level", "warn", *words]
    with (place / f"{name}.out").open("wb") as out, (place / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            system.within(shape.ocs, *program), stdin=subprocess.DEVNULL, stdout=out, stderr=log,
            start_new_session=True,
            env=os.environ | {"XDG_RUNTIME_DIR": str(record.place(shape.name))},  # its own token
        )  # fmt: skip
    processes.append(process)
    return process


def _controller(
    shape: Shape, place: Path, processes: list[subprocess.Popen[bytes]]
) -> subprocess.Popen[bytes]:
    """Start the plan's controller; it listens, or has ended: then nodes go without circuits."""
    words = ["controller", "run", str(place / "maps.json"), "--json"]
    words += ["--switches", str(place / "switches.toml")]
    process = _start(shape, place, "controller", processes, *words)
    until = time.monotonic() + START_S
    while "listening" not in (place / "controller.out").read_text():
        if process.poll() is not None:
            break
        if time.monotonic() > until:
            raise RunError("the plan's controller does not start")
        time.sleep(0.01)
    return process


def _node(
    shape: Shape, place: Path, server: int, processes: list[subprocess.Popen[bytes]],
    buffers: Path | None, alone: str | None,
) -> subprocess.Popen[bytes]:  # fmt: skip
    name = shape.nodes[server]
    words = ["node", str(place / "plan.json"), "--job", str(place / "job.json")]
    words += ["--node", str(server), "--controller", f"http://{record.CONTROLLER}"]
    words += ["--token-file", str(record.token_file(shape.name)), "--give-up", GIVE_UP]
    words += ["--nics-in", str(system.NAMESPACES / shape.namespace(server))]
    if alone is not None:
        words += ["--alone", alone]
    if buffers is not None:
        words += ["--begin", str(buffers / f"{name}.begin"), "--end", str(buffers / f"{name}.end")]
    return _start(shape, place, name, processes, *words)


def _last(place: Path, name: str) -> str:
    return ((place / f"{name}.log").read_text().strip().splitlines() or [f"{name} has ended"])[-1]


def _said(place: Path) -> dict[str, Any]:
    """Return how the controller says that it ended; nothing if it says nothing."""
    lines = (place / "controller.out").read_text().splitlines()
    found = [json.loads(line) for line in lines if '"ending"' in line]
    return dict(found[-1]) if found else {"ready": []}


def _dark(shape: Shape) -> int:
    """Return how many frames with data the optical switches have lost so far."""
    return sum(row["dark"] + row["unconnected"] for row in through(shape))


def _outcome(plan: Plan, rows: list[dict[str, Any]], ended: dict[str, Any], dark: int) -> Carried:
    began = [row["began_ns"] for row in rows if row["began_ns"] is not None]
    begins = [one["begin_ns"] for row in rows for one in row["sent"]]
    # A run that never began has no clock: from the first byte.
    begun = min(began) if len(began) == len(rows) else min(begins)
    sent = [one for row in rows for one in row["sent"]]
    rate = plan.machine.rate_bps / 8
    return Carried(
        planned_seconds=plan.completion_ps / 1e12,
        seconds=(max(row["over_ns"] for row in rows) - begun) / 1e9,
        without=tuple(dict.fromkeys(row["without"] for row in rows if row["without"])),
        detoured_bytes=sum(row["detoured_bytes"] for row in rows),
        resent=sum(row["resent"] for row in rows),
        breaks=tuple(why for row in rows for why in row["breaks"]),
        dark=dark,
        settings=len(ended["ready"]),
        turnaround_seconds=tuple(_turnarounds(rows)),
        latency_seconds=tuple(
            (one["end_ns"] - one["begin_ns"]) / 1e9 - one["bytes"] / rate for one in sent
        ),
    )


def _turnarounds(rows: list[dict[str, Any]]) -> Iterator[float]:
    """Yield how long each change took whose both circuits were in use at all nodes [s].

    Examples
    --------
    >>> one = {"port": 0, "number": 1, "told_ns": 0, "up_ns": 1, "done_ns": 5_000_000}
    >>> two = {"port": 0, "number": 2, "told_ns": 6_000_000, "up_ns": 9_000_000, "done_ns": None}
    >>> list(_turnarounds([{"circuits": [one, two]}]))
    [0.004]
    """
    by: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for row in rows:
        for one in row["circuits"]:
            by.setdefault((one["port"], one["number"]), []).append(one)
    for (port, number), new in sorted(by.items()):
        old = by.get((port, number - 1), [])
        done = [one["done_ns"] for one in old]
        up = [one["up_ns"] for one in new]
        # A circuit over which nothing went was never told of, and is done with before it ends.
        told = [one["told_ns"] for one in new]
        if old and None not in (*done, *up) and max(done) < min(told):
            yield (max(up) - max(done)) / 1e9
