"""A decision of circuits written in Python, for `lightloom.simulate`.

The simulator asks the function where it would ask the rule of ``fabric.decision``; all else (what
lies ahead, hysteresis, the controller that drains, patches and verifies) stays. It is asked up to
twice for each layer, pass, micro-batch and region. What the function computes is what it costs:
crossing into Python takes some 11 us a call for eight servers, so that Mixtral 8x22B on 512 GPUs
(four micro-batches, 444 calls) needs 0.18 s of CPU with a function that returns what stands, as
with the core's Algorithm 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lightloom.errors import InputError
from lightloom.scenario import Scenario


class Rates(NamedTuple):
    """What a server's NICs carry.

    Attributes
    ----------
    circuit_bps
        Rate of a circuit [bit/s].
    packet_bps
        What other traffic leaves of a packet NIC [bit/s].
    packet_nics
        Packet NICs of a server.
    """

    circuit_bps: int
    packet_bps: int
    packet_nics: int


Decision = Callable[
    [npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64], Rates], npt.ArrayLike
]
"""``f(demand, standing, ports, rates)``: bytes from each server (row) to each other (column),
circuits that stand between them, usable ports by server, and `Rates`. It returns circuits between
servers: a symmetric array of whole numbers with zeros on its diagonal, no row of which sums to more
than the server's ports."""


def prepared(decision: Decision | None, scenario: Scenario) -> Callable[..., Any] | None:
    """Return what the core calls for a decision.

    Raises
    ------
    InputError
        If the fabric has no circuits that are chosen while it runs.
    """
    if decision is None:
        return None
    if not hasattr(scenario.fabric, "decision"):
        kind = scenario.fabric.kind
        raise InputError(f'decision: fabric.kind = "{kind}" chooses no circuits; allowed: "mixnet"')

    def asked(
        demand: list[list[int]], standing: list[list[int]], ports: list[int], rates: tuple[int, ...]
    ) -> list[list[int]]:
        bytes_, joined, usable = (np.array(x, dtype=np.int64) for x in (demand, standing, ports))
        circuits = np.asarray(decision(bytes_, joined, usable, Rates(*rates)))
        if circuits.dtype.kind not in "iu" or (circuits < 0).any():
            raise InputError(f"decision: {name(decision)} must return whole numbers from 0 on")
        return [[int(count) for count in row] for row in circuits.tolist()]

    return asked


def name(function: Callable[..., Any]) -> str:
    """Return what a Result calls a function.

    Examples
    --------
    >>> name(prepared)
    'lightloom.decision.prepared'
    """
    inside = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{getattr(function, '__module__', '?')}.{inside}"
