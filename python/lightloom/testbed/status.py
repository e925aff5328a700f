"""Says what a testbed is at: its controller, and what went through its switch and filters."""

from __future__ import annotations

import json
import sys
from typing import Any

from lightloom import daemon
from lightloom.errors import RunError
from lightloom.testbed import record, system
from lightloom.testbed.shape import Shape


def status(name: str) -> dict[str, Any]:
    """Return what a testbed is at.

    Returns
    -------
    dict
        ``shape``; ``controller``, as ``lightloom controller status --json`` has it, or none if it
        does not answer; ``switch``, a row a port of the optical switch; ``filters``, a row a NIC,
        and none with a crossbar of redirections;
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
    words = [program, "ocs", "counts", "--json", str(record.counts(shape))]
    return {
        "shape": shape.said(),
        "controller": _controller(shape),
        "switch": _switch(shape, _rows(*system.within(shape.ocs, *words)), _plugged(shape.ocs)),
        "filters": _filters(shape, program) if shape.crossbar == "bpf" else [],
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


def _switch(shape: Shape, rows: list[dict[str, Any]], plugged: set[str]) -> list[dict[str, Any]]:
    nics = shape.ports()
    return [
        row | {"server": shape.nodes[nic.server], "nic": nic.name, "in": nic.far in plugged}
        for row, nic in zip(rows, nics, strict=True)
    ]


def _controller(shape: Shape) -> dict[str, Any] | None:
    words = ["-m", "lightloom", "controller", "status", "--json"]
    words += ["--url", f"http://{record.CONTROLLER}"]
    words += ["--token-file", str(record.token_file(shape.name))]
    try:
        said = system.call(*system.within(shape.ocs, sys.executable, *words))
    except RunError:
        return None
    return dict(json.loads(said))
