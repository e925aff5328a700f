"""Builds a testbed: namespaces, cables, switches, filters, the controller."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from lightloom import daemon
from lightloom.errors import InputError, RunError
from lightloom.testbed import record, system
from lightloom.testbed.cables import batches, cables, sysctls
from lightloom.testbed.down import remove
from lightloom.testbed.shape import Shape
from lightloom.testbed.switches import Switch, counts, switches

# Longer than a full queue at a NIC, which is 5 ms, and short enough to see what goes wrong.
LEASE, GRACE = "1 s", "100 ms"
# Servers share a machine's cores: their demands of a round come further apart than a cluster's.
GATHER = "1 s"


def up(shape: Shape, told: Callable[[str], None] = lambda line: None) -> None:
    """Build a testbed; if that fails, or is interrupted, nothing is left.

    Parameters
    ----------
    shape
        How large it is.
    told
        Is called with what is done next.

    Raises
    ------
    InputError
        If rights or programs are missing, or something of these names is there.
    RunError
        If the kernel or a daemon will not.
    """
    system.check()
    program = daemon.find()
    for namespace in shape.namespaces:
        if system.exists(namespace):
            raise InputError(
                f"--name: {shape.name}: network namespace {namespace} is there already;"
                " `lightloom testbed down` removes it if a testbed has made it"
            )
    _check_faults(shape, program)
    directory = record.write(shape)
    try:
        told(f"{len(shape.namespaces)} network namespaces")
        _namespaces(shape)
        told(f"{cables(shape)} cables, NICs of {shape.rate}")
        for batch in batches(shape):
            system.run(batch)
        filters = ", filters at its NICs" if shape.crossbar == "bpf" else ""
        boards = len(switches(shape))
        told(
            f"the optical switch{filters}, the controller" if shape.region
            else f"{boards} optical switches"
        )  # fmt: skip
        _start(shape, directory, program)
    except BaseException:
        remove(shape)
        raise


def _check_faults(shape: Shape, program: str) -> None:
    """Ask the emulator whether it knows these faults, before anything is made."""
    faults = [f"--fault={fault}" for fault in shape.faults]
    asked = subprocess.run(
        [program, "ocs", "serve", "--check", *faults], capture_output=True, text=True, check=False
    )
    if asked.returncode:
        raise InputError(asked.stderr.strip())


def _namespaces(shape: Shape) -> None:
    for namespace in shape.namespaces:
        system.call("ip", "netns", "add", namespace)
        quiet = "".join(
            f"[ ! -e /proc/sys/{key} ] || echo {value} > /proc/sys/{key};"
            for key, value in sysctls(shape, namespace).items()
        )
        system.call(*system.within(namespace, "sh", "-c", quiet))


def _start(shape: Shape, directory: Path, program: str) -> None:
    if shape.crossbar == "bpf":
        (directory / "bpf").mkdir()
        system.call("mount", "-t", "bpf", "bpf", str(directory / "bpf"))
    for switch in switches(shape):
        _daemon(shape, directory, switch.name, program, *_serve(shape, directory, switch))
    if not shape.region:
        return  # `lightloom testbed railx` or `plan` is the controller
    if shape.crossbar == "bpf":
        _filters(shape, directory / "bpf", program)
    region = directory / "region.toml"
    region.write_text(region_file(shape, directory))
    _daemon(shape, directory, "controller", program, "controller", "serve", str(region))


def _serve(shape: Shape, directory: Path, switch: Switch) -> list[str]:
    nics = [word for nic in switch.nics for word in ("--nic", nic.far)]
    words = ["ocs", "serve", "--ports", str(len(switch.nics)), "--listen", switch.address, *nics]
    words += ["--delay", str(shape.delay), "--counts", str(counts(shape, switch))]
    words += ["--crossbar", shape.crossbar, "--state", str(directory / f"{switch.name}.json")]
    words += ["--nic-activation", str(shape.activation)]
    return [*words, *(f"--fault={fault}" for fault in shape.faults)]


def _filters(shape: Shape, pins: Path, program: str) -> None:
    """Put filters at optical NICs, which keep leases: they let nothing out yet."""
    for server, node in enumerate(shape.nodes):
        own = [word for nic in shape.optical(server) for word in ("--nic", nic.name)]
        words = [program, "filter", "attach", str(pins / node), *own]
        system.call(*system.within(shape.namespace(server), *words))


def region_file(shape: Shape, directory: Path) -> str:
    """Return the region's file, for the controller.

    Examples
    --------
    >>> print(region_file(Shape(), Path("/run/x")).splitlines()[0])
    name = "testbed"
    """
    told = shape.activation if shape.told_activation is None else shape.told_activation
    return f"""name = {json.dumps(shape.name)}
[listen]
address = "{record.CONTROLLER}"
[journal]
path = {json.dumps(str(directory / "controller.journal"))}
[servers]
count = {shape.servers}
ports_each = {shape.ocs_nics}
[switch]
protocol = "tl1"
address = "{record.SWITCH}"
ports = {shape.servers * shape.ocs_nics}
[decision]
kind = {json.dumps(shape.decision)}
hysteresis = {json.dumps(shape.hysteresis)}
delay = "{shape.delay}"
optical_bandwidth = "{shape.rate}"
packet_bandwidth = "{shape.rate}"
packet_nics = {shape.eps_nics}
activation = "{told}"
[timing]
lease = "{LEASE}"
grace = "{GRACE}"
gather = "{GATHER}"
"""


def _daemon(shape: Shape, directory: Path, name: str, program: str, *words: str) -> None:
    """Start a daemon beside the optical switch, and wait until it listens.

    Raises
    ------
    RunError
        If it ends, or does not listen within 20 s; with the last line of its log.
    """
    log = directory / f"{name}.log"
    with log.open("w") as file, (directory / f"{name}.out").open("w") as out:
        process = subprocess.Popen(
            system.within(shape.ocs, program, *words),
            stdin=subprocess.DEVNULL, stdout=out, stderr=file, start_new_session=True,
            env=os.environ | {"XDG_RUNTIME_DIR": str(directory)},  # for the controller's own token
        )  # fmt: skip
    until = time.monotonic() + 20
    while "listening" not in (directory / f"{name}.out").read_text():
        if process.poll() is not None or time.monotonic() > until:
            said = log.read_text().strip().splitlines() or ["it does not listen"]
            raise RunError(f"the {name} does not start: {said[-1]}")
        time.sleep(0.02)
