"""What does a fault cost a training? One after the other, each on a new testbed, as a table.

    sudo python tests/training_faults.py
    sudo python tests/training_faults.py --only controller,rank --json

Four servers of one rank, a packet NIC and two optical ones each, train the MoE transformer of
``lightloom.runtime.train``; a fifth server stands by. After the fifth step something breaks, and
stays so. Said of each: whether the losses are those of a training without a fault (which runs
first), the longest step, the median of the steps after it, and, where a server was replaced, how
long each part of that took.

The exit code is 0 if every training has ended with the right losses; 1 if not; 2 for bad input;
3 if no testbed can be built here.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from lightloom import testbed
from lightloom.errors import InputError, RunError
from lightloom.testbed import record, system
from lightloom.testbed.shape import Shape
from lightloom.units import Rate
from testbed_beds import kill, processes

TRAIN = "lightloom.runtime.train"
SERVERS, BREAKS_AFTER, LONGEST_S = 4, 5, 300.0
# What is kept of a training.
KEPT = (
    "from_step", "restore_s", "step_s", "whole_s", "restarts", "plans", "rounds", "decided",
    "circuits", "waited_s",
)  # fmt: skip
# Losses that are not alike within this are wrong [nats a token], as in tests/pytorch.
ALIKE = 1e-3
HIT = 1


def links(shape: Shape, kinds: str, count: int | None = None) -> None:
    """Take NICs of a server down: ``eps`` or ``ocs``, all or the first ones."""
    nics = shape.packet(HIT) if kinds == "eps" else shape.optical(HIT)
    for nic in nics[:count]:
        system.call("ip", "-n", shape.namespace(HIT), "link", "set", nic.name, "down")


def cables(shape: Shape, names: list[str]) -> None:
    """Pull cables of a server out."""
    for name in names:
        testbed.fault(shape.name, "cable", [shape.nodes[HIT], name, "out"])


def rank(shape: Shape) -> None:
    """Kill a rank."""
    here = set(system.processes(shape.namespace(HIT)))
    for pid in here.intersection(processes(shape, TRAIN)):
        os.kill(pid, signal.SIGKILL)


# What breaks, in words, and how; all but the last three leave all servers there.
FAULTS: dict[str, tuple[str, Callable[[Shape], None]]] = {
    "none": ("nothing", lambda _: None),
    "nic": ("an optical NIC", lambda shape: links(shape, "ocs", 1)),
    "cable": ("the cable of an optical NIC", lambda shape: cables(shape, ["ocs0"])),
    "switch": ("the optical switch, killed", lambda shape: kill(shape, "ocs", "serve")),
    "controller": ("the controller, killed", lambda shape: kill(shape, "controller", "serve")),
    "agent": ("an agent, killed", lambda shape: kill(shape, "agent", "serve", shape.nodes[HIT])),
    "packet-nics": ("a server's packet NICs", lambda shape: links(shape, "eps")),
    "rank": ("a rank, killed", rank),
    "runtime": (
        "a server's runtime, killed",
        lambda shape: kill(shape, "runtime", "serve", shape.nodes[HIT]),
    ),
    "server": (
        "a server",
        lambda shape: testbed.fault(shape.name, "node", [shape.nodes[HIT], "lost"]),
    ),
}


def trained(
    shape: Shape, fault: Callable[[Shape], None], steps: int, place: Path
) -> dict[str, Any]:
    """Train on a testbed, break something, and return what came of it.

    Raises
    ------
    RunError
        If the training fails, or does not end.
    """
    latest, said = place / "checkpoints" / "latest", place / "said"
    line = ["sh", "-c", 'exec "$@" >> "$0"', str(said), sys.executable, "-m", TRAIN, "--json"]
    line += ["--iterations", str(steps), "--every", str(BREAKS_AFTER)]
    line += ["--checkpoint", str(latest.parent)]
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    begun = time.monotonic()
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(testbed.run, shape.name, line, testbed.Settings(), 1)
        try:
            while not latest.exists() and not running.done():
                if time.monotonic() > begun + LONGEST_S:
                    raise RunError("no checkpoint was written")
                time.sleep(0.01)
            broken = time.monotonic()
            fault(shape)
            ran = running.result(LONGEST_S)
        except BaseException as error:
            while not running.done():  # it may begin anew
                for pid in processes(shape, TRAIN):
                    os.kill(pid, signal.SIGKILL)
                time.sleep(0.1)
            if isinstance(error, TimeoutError):
                raise RunError(f"the training does not end in {LONGEST_S:g} s") from None
            raise
    found = dict(json.loads(said.read_text().splitlines()[-1]))
    found["whole_s"] = time.monotonic() - begun
    found["restarts"] = [restart.said() for restart in ran.restarts]
    for restart in found["restarts"]:
        restart["after_break_s"] = restart["seen_seconds"] - (broken - begun)
    return found


def measured(name: str, rate: str, steps: int, right: list[float] | None) -> dict[str, Any]:
    """Build a testbed, train on it with a fault, and take it down."""
    shape = Shape(
        name=f"e{os.getpid() % 1_000_000}", servers=SERVERS + 1, ranks_per_server=1, eps_nics=1,
        ocs_nics=2, rate=Rate.parse(rate),
    )  # fmt: skip
    words, fault = FAULTS[name]
    row: dict[str, Any] = {"fault": name, "words": words}
    testbed.up(shape)
    try:
        with tempfile.TemporaryDirectory() as place:
            found = trained(shape, fault, steps, Path(place))
            found["plans"] = plans(shape)
    except RunError as error:
        return row | {"error": str(error)}
    finally:
        testbed.down(shape.name)
    losses, times = found.pop("losses"), found["step_s"]
    after = times if found["from_step"] else times[BREAKS_AFTER:]
    apart = max(abs(one - other) for one, other in zip(losses, right or losses, strict=True))
    return (
        row
        | {key: found[key] for key in KEPT}
        | {"losses": losses, "apart": apart, "right": apart <= ALIKE}
        | {"longest_s": max(after), "median_s": statistics.median(after)}
    )


def plans(shape: Shape) -> list[dict[str, Any]]:
    """Return what the controller says has happened; nothing if there is none any more."""
    words = ["-m", "lightloom", "controller", "events", "--json", "--limit", "500"]
    words += ["--url", f"http://{record.CONTROLLER}"]
    words += ["--token-file", str(record.token_file(shape.name))]
    try:
        said = system.call(*system.within(shape.ocs, sys.executable, *words))
    except RunError:
        return []
    return [json.loads(line) for line in said.splitlines()]


def show(row: dict[str, Any]) -> None:
    """Print a row of the table."""
    if "error" in row:
        print(f"| {row['words']} | {row['error']} | | | |", flush=True)
        return
    right = "yes" if row["right"] else "no"
    print(
        f"| {row['words']} | {right} ({row['apart']:.1g}) | {row['longest_s']:.2f} | "
        f"{row['median_s']:.2f} | {row['whole_s']:.1f} |",
        flush=True,
    )
    for it in row["restarts"]:
        print(
            f"    {it['why']}: seen after {it['after_break_s'] * 1e3:.0f} ms; from then: ended "
            f"{it['ended_seconds']:.2f} s, runtimes {it['runtimes_seconds']:.2f} s, agents "
            f"{it['agents_seconds'] or float('nan'):.2f} s; went on from {row['from_step']} "
            f"steps, restored in {row['restore_s']:.3f} s",
            flush=True,
        )


def main() -> int:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--iterations", type=int, default=12, help="training steps")
    parser.add_argument("--rate", default="20 Mbps", help="of each NIC")
    parser.add_argument("--only", default=",".join(FAULTS), help="some of these, in this order")
    parser.add_argument("--json", action="store_true", help="print JSON, an object a fault")
    given = parser.parse_args()
    names = list(dict.fromkeys(["none", *given.only.split(",")]))
    unknown = [name for name in names if name not in FAULTS]
    if unknown or given.iterations <= BREAKS_AFTER:
        why = f"--only: {unknown[0]}: must be one of {', '.join(FAULTS)}" if unknown else (
            f"--iterations: {given.iterations}: must be more than {BREAKS_AFTER}"
        )  # fmt: skip
        print(why, file=sys.stderr)
        return 2
    try:
        system.check()
    except InputError as error:
        print(error, file=sys.stderr)
        return 3
    right: list[float] | None = None
    well = True
    for name in names:
        row = measured(name, given.rate, given.iterations, right)
        right = right or row.get("losses")
        well &= row.get("right", False)
        print(json.dumps(row), flush=True) if given.json else show(row)
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
