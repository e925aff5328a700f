"""Says what a testbed is at: its controller, and what went through its switch and filters."""

from __future__ import annotations

import json
import sys
from typing import Any

from lightloom import daemon
from lightloom.errors import RunError
from lightloom.testbed import network, record, system
from lightloom.testbed.shape import Shape
from lightloom.testbed.switches import counts, switches


def status(name: str) -> dict[str, Any]:
    """Return what a testbed is at.

    Returns
    -------
    dict
        ``shape``; ``controller``, as ``lightloom controller status --json`` has it, or none if it
        does not answer; ``network``, of a grid of RailX, what it is set to, or none; ``switch``, a
        row a port of each optical switch; ``filters``, a row a NIC, and none with a crossbar of
        redirections, a grid or planes;
        ``ethernet``, a row a cable of each Ethernet switch, with what that has sent into it. Rows
        of both switches say whether the cable is ``in``.

    Raises
    ------
    InputError
        If there is no such testbed.
    """
    shape = record.known(name)
    system.check()
    program = daemon.find()
    return {
        "shape": shape.said(),
        "controller": _controller(shape) if shape.region else None,
        "network": network.status(name),
        "switch": carried(shape),
        "filters": _filters(shape, program) if shape.crossbar == "bpf" and shape.region else [],
        "ethernet": [row for namespace in shape.switches for row in _sent(shape, namespace)],
    }


def _filters(shape: Shape, program: str) -> list[dict[str, Any]]:
    filters: list[dict[str, Any]] = []
    for server, node in enumerate(shape.nodes):
        words = [program, "filter", "show", "--json", str(record.place(shape.name) / "bpf" / node)]
        rows = _rows(*system.within(shape.namespace(server), *words))
        filters += [row | {"server": node} for row in rows]
    return filters


def _sent(shape: Shape, namespace: str) -> list[dict[str, Any]]:
    """Return what each end of a cable has sent that is at an Ethernet switch."""
    said = json.loads(system.call("tc", "-netns", namespace, "-s", "-j", "qdisc", "show"))
    plugged = _plugged(namespace)
    return [
        {"switch": namespace.removeprefix(f"{shape.name}-"), "nic": row["dev"]}
        | {"frames": row["packets"], "bytes": row["bytes"], "dropped": row["drops"]}
        | {"in": row["dev"] in plugged}
        for row in said
        if row["kind"] == "tbf"
    ]


def _rows(*words: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in system.call(*words).splitlines()]


def _plugged(namespace: str) -> set[str]:
    """Return the NICs of a switch whose cables are not out."""
    said = json.loads(system.call("ip", "-n", namespace, "-j", "link", "show", "up"))
    return {row["ifname"] for row in said if row}


def carried(shape: Shape) -> list[dict[str, Any]]:
    """Return what went through the optical switches, a row a port, and whether its cable is in.

    Raises
    ------
    RunError
        If a switch's counts cannot be read.
    """
    program, plugged, found = daemon.find(), _plugged(shape.ocs), []
    for switch in switches(shape):
        words = [program, "ocs", "counts", "--json", str(counts(shape, switch))]
        rows = _rows(*system.within(shape.ocs, *words))
        found += [
            row
            | {"switch": switch.name, "server": shape.nodes[nic.server], "nic": nic.name}
            | {"in": nic.far in plugged}
            for row, nic in zip(rows, switch.nics, strict=True)
        ]
    return found


def _controller(shape: Shape) -> dict[str, Any] | None:
    words = ["-m", "lightloom", "controller", "status", "--json"]
    words += ["--url", f"http://{record.CONTROLLER}"]
    words += ["--token-file", str(record.token_file(shape.name))]
    try:
        said = system.call(*system.within(shape.ocs, sys.executable, *words))
    except RunError:
        return None
    return dict(json.loads(said))
