"""What can go wrong in a testbed, on purpose, and be put right again.

Modelled: a cable that is pulled out: the NIC at its far end is down, and that at the server has no
carrier; a shutter of the optical switch that is shut, by TL1 as an operator would; a switch that
hears and says nothing, while its mirrors stand: its process is stopped (all of a grid of RailX); a
node that is lost: all its cables are out, and its processes are killed. Ignored: what emulators are
told when they begin (``lightloom ocs serve --fault``); NICs that take long to become active.
Checked: ``tests/test_testbed_fault.py``.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from lightloom.errors import InputError, RunError
from lightloom.testbed import system
from lightloom.testbed.cables import EPS
from lightloom.testbed.shape import Nic, Shape
from lightloom.testbed.switches import counts, switches

# Of each fault: how it is called that something is wrong, and that it is right.
STATES = {
    "cable": ("out", "in"), "shutter": ("shut", "open"), "silent": ("on", "off"),
    "node": ("lost", "back"),
}  # fmt: skip
# Where the optical switch is: says a command as an operator, and fails if that is denied.
_TL1 = """
import socket, sys
host, _, port = sys.argv[1].partition(":")
with socket.create_connection((host, int(port)), 5) as stream:
    for number, command in enumerate(["ACT-USER::root:1::root;", sys.argv[2]], 1):
        stream.sendall(command.encode())
        heard = ""
        while f"M  {number} " not in heard or not heard.rstrip().endswith(";"):
            more = stream.recv(65536).decode()
            if not more:
                sys.exit("the switch has ended the session")
            heard += more
        if f"M  {number} COMPLD" not in heard:
            sys.exit(" ".join(heard.split()))
"""


def fault(shape: Shape, kind: str, words: list[str]) -> None:
    """Make something go wrong in a testbed, or put it right.

    Parameters
    ----------
    shape
        The testbed's.
    kind, words
        ``cable NODE NIC out`` or ``in``; ``shutter NODE NIC shut`` or ``open``; ``silent on`` or
        ``off``; ``node NODE lost`` or ``back``.

    Raises
    ------
    InputError
        If there is no such thing in this testbed.
    RunError
        If the kernel or the switch will not.

    Examples
    --------
    >>> fault(Shape(), "cable", ["node-04", "eps0", "out"])
    Traceback (most recent call last):
    ...
    lightloom.errors.InputError: node-04: no such server; allowed: node-00 to node-03
    """
    *where, state = words
    if state not in STATES[kind]:
        raise InputError(f"{kind}: {state}: must be one of {', '.join(STATES[kind])}")
    wrong = state == STATES[kind][0]
    if kind == "silent":
        _silent(shape, wrong)
        return
    if kind == "node":
        _node(shape, _server(shape, *where), wrong)
        return
    nic = _nic(shape, *where)
    does: dict[str, Callable[[Shape, Nic, bool], None]] = {"cable": _cable, "shutter": _shutter}
    does[kind](shape, nic, wrong)


def _server(shape: Shape, node: str) -> int:
    if node not in shape.nodes:
        raise InputError(f"{node}: no such server; allowed: {shape.nodes[0]} to {shape.nodes[-1]}")
    return shape.nodes.index(node)


def _nic(shape: Shape, node: str, name: str) -> Nic:
    server = _server(shape, node)
    nics = {nic.name: nic for nic in (*shape.packet(server), *shape.optical(server))}
    if name not in nics:
        raise InputError(f"{name}: no such NIC; allowed: {', '.join(nics)}")
    return nics[name]


def _cable(shape: Shape, nic: Nic, out: bool) -> None:
    optical = nic in shape.optical(nic.server)
    at = shape.ocs if optical else EPS[shape.eps].switch(shape, nic)
    system.call("ip", "-n", at, "link", "set", nic.far, "down" if out else "up")


def _shutter(shape: Shape, nic: Nic, shut: bool) -> None:
    switch = next((switch for switch in switches(shape) if nic in switch.nics), None)
    if switch is None:
        allowed = ", ".join(optical.name for optical in shape.optical(nic.server))
        raise InputError(f"{nic.name}: has no shutter; allowed: {allowed}")
    # Ports of light in, then those of light out.
    port = 1 + switch.nics.index(nic)
    verb = "OPR" if shut else "RLS"
    command = f"{verb}-PORT-SHUTTER::{port}&{len(switch.nics) + port}:2:;"
    words = [sys.executable, "-c", _TL1, switch.address, command]
    system.call(*system.within(shape.ocs, *words))


def _node(shape: Shape, server: int, lost: bool) -> None:
    for nic in (*shape.packet(server), *shape.optical(server)):
        _cable(shape, nic, lost)
    for pid in system.processes(shape.namespace(server)) if lost else ():
        with contextlib.suppress(ProcessLookupError):  # it has ended
            os.kill(pid, signal.SIGKILL)


def _silent(shape: Shape, silent: bool) -> None:
    wanted = {str(counts(shape, switch)).encode() for switch in switches(shape)}
    found = set()
    for pid in system.processes(shape.ocs):
        with contextlib.suppress(OSError):  # it has ended
            counted = wanted.intersection(Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"))
            if counted:
                os.kill(pid, signal.SIGSTOP if silent else signal.SIGCONT)
                found |= counted
    if found != wanted:
        raise RunError("an optical switch has ended" if len(wanted) > 1 else
                       "the optical switch has ended")  # fmt: skip
