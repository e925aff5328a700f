"""How long circuits take to change: from a demand to the first bytes over the new circuits.

Modelled: servers in pairs, each pair with all of its ports; every round joins other pairs, so that
each circuit is a new one. The times of a round, by CLOCK_BOOTTIME, are when the last rank announces
what it will send, when the last agent says that the circuits may be used, when the last runtime has
a connection over each, and when the last rank has a few bytes that came over them. Of the second,
the emulated switch's delay is a setting; what is left is the control path: agents, the controller's
decision, drains, TL1, reading back. NICs take as long to become active as is said (MixNet, Figure
23: 5.7 s), always the same; the first bytes that count are those that came over circuits. Checked:
``tests/test_testbed_turnaround.py``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lightloom.errors import InputError, RunError
from lightloom.testbed.commands import down, up
from lightloom.testbed.job import Job
from lightloom.testbed.shape import AT_ONCE, Shape
from lightloom.units import Time

# Servers and ports of each, by how many circuits change at a time.
SHAPES = {1: (3, 1), 4: (4, 2), 8: (4, 4), 12: (4, 6), 16: (4, 8)}


@dataclass(frozen=True)
class Turnaround:
    """How long circuits took to change.

    Attributes
    ----------
    pairs
        How many circuits changed at a time.
    delay_ms, activation_ms
        What the emulated switch takes, and NICs until they are active after that [ms].
    decided_ms, connected_ms, delivered_ms
        By round: from the last announcement until all agents have said that the circuits may be
        used, until all runtimes are connected over them, and until bytes have come [ms].
    """

    pairs: int
    delay_ms: float
    activation_ms: float
    decided_ms: tuple[float, ...]
    connected_ms: tuple[float, ...]
    delivered_ms: tuple[float, ...]

    @property
    def control_ms(self) -> tuple[float, ...]:
        """The control path: until circuits may be used, less what the switch takes [ms]."""
        return tuple(time - self.delay_ms for time in self.decided_ms)

    @property
    def late_ms(self) -> tuple[float, ...]:
        """From active NICs to the first bytes, if NICs become active when they have light [ms].

        Runtimes open connections, and try again while NICs are not active.
        """
        both = zip(self.delivered_ms, self.decided_ms, strict=True)
        return tuple(there - light - self.activation_ms for there, light in both)

    def said(self) -> dict[str, Any]:
        """Return medians and 99th percentiles for JSON."""
        named = {
            "decided": self.decided_ms, "control": self.control_ms,
            "connected": self.connected_ms, "delivered": self.delivered_ms, "late": self.late_ms,
        }  # fmt: skip
        settings = {"delay_ms": self.delay_ms, "activation_ms": self.activation_ms}
        return (
            {"pairs": self.pairs, "rounds": len(self.decided_ms)}
            | settings
            | {
                f"{name}_{label}_ms": round(float(np.percentile(times, share)), 2)
                for name, times in named.items()
                for label, share in (("p50", 50), ("p99", 99))
            }
        )


def turnaround(
    pairs: int,
    rounds: int,
    delay: Time,
    told: Callable[[str], None] = lambda line: None,
    activation: Time = AT_ONCE,
) -> Turnaround:
    """Measure on a testbed that is built for it, and taken down.

    Parameters
    ----------
    pairs
        How many circuits change at a time: 1, 4, 8, 12 or 16.
    rounds
        How often.
    delay
        What the emulated switch takes.
    told
        Is called with what is done next.
    activation
        How long NICs take to become active once they have light.

    Raises
    ------
    InputError
        If a value is not allowed, or a testbed cannot be built here.
    RunError
        If a round fails, or changes no circuit.
    """
    if pairs not in SHAPES:
        allowed = ", ".join(map(str, SHAPES))
        raise InputError(f"--pairs: {pairs}: must be one of {allowed}")
    if not 1 <= rounds <= 10_000:
        raise InputError(f"--rounds: {rounds}: must be from 1 to 10000")
    servers, ports = SHAPES[pairs]
    shape = Shape(
        name=f"turnaround-{pairs}", servers=servers, ranks_per_server=1, ocs_nics=ports,
        delay=delay, activation=activation,
    )  # fmt: skip
    told(f"{pairs} circuits at a time, {rounds} rounds")
    up(shape)
    try:
        with Job(shape.name) as job:
            (job.directory / "rounds").write_text(str(rounds))
            job.run([sys.executable, "-m", "lightloom.ranks.turnaround", str(job.directory)])
            said = [
                json.loads((job.directory / f"rank-{rank}.json").read_text())
                for rank in range(servers)
            ]
    finally:
        down(shape.name)
    # [rank, round, (announced, decided, connected, delivered)], of the ranks that are in a pair.
    times = np.array(said, dtype=np.float64)
    last = np.nanmax(times, axis=0) / 1e6
    since = last[:, 1:] - last[:, :1]
    decided, connected, delivered = (tuple(map(float, column)) for column in since.T)
    if min(decided) < int(delay) / 1e9:
        raise RunError(f"{pairs} circuits: a round has changed none")
    taken = int(delay) / 1e9, int(activation) / 1e9
    return Turnaround(pairs, *taken, decided, connected, delivered)
