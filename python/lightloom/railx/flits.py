"""Networks of routers under a load, flit by flit.

`simulate` measures latency and throughput of a network at each load. Loads are in flits a cycle and
chip; a rail carries one flit a cycle.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from lightloom import _core
from lightloom.errors import CoreErrors, InputError
from lightloom.railx import traffics
from lightloom.railx.networks import Network, Router


@dataclass(frozen=True)
class Point:
    """What was measured at one load.

    Latencies are in cycles from a packet's creation until its tail was ejected, over packets that
    were ejected while it was measured. ``unstable``: less than 95 % of what was offered arrived, so
    that latencies only say how long the run was.
    """

    offered: float
    accepted: float
    mean_latency: float
    p99_latency: int
    least_latency: int
    mean_hops: float
    packets: int
    flits: int
    flit_hops: int
    busiest: float
    unstable: bool


@dataclass(frozen=True)
class Simulated:
    """A curve, and everything that made it."""

    network: Network
    router: Router
    traffic: str
    chips: int
    points: list[Point] = field(default_factory=list)

    @property
    def saturation(self) -> float:
        """The most that was accepted at any load."""
        return max((point.accepted for point in self.points), default=0.0)

    def as_json(self) -> dict[str, Any]:
        """Return all of it for JSON."""
        network = {"kind": self.network.kind, **asdict(self.network)}
        return {**asdict(self), "network": network, "saturation": self.saturation}


def simulate(
    network: Network,
    loads: Iterable[float],
    *,
    traffic: str = "uniform",
    router: Router | None = None,
    hot: tuple[int, float] = (1, 0.1),
    trace: Path | None = None,
    threads: int = 1,
    on_progress: Callable[[float], None] | None = None,
) -> Simulated:
    """Measure a network at each load.

    Parameters
    ----------
    network, router
        What is wired, and how routers work.
    loads
        Offered loads [flits a cycle and chip].
    traffic
        One of `traffics.PATTERNS`; or ``matrix`` with a `trace`.
    hot
        Of ``hot-spot``: how many chips, from the first, and the share of the packets to them.
    trace
        A gating trace, whose mean demand from sources to experts, each a chip in turn, is the
        matrix.
    threads
        How many; the result is the same for any number.
    on_progress
        Told the share that is done; may raise to stop.

    Raises
    ------
    InputError
        What cannot be built or run, by name and value.
    RunError
        A deadlock.

    Examples
    --------
    >>> from lightloom.railx import Mesh
    >>> quick = Router(vcs=4, warm_up=200, cycles=1_000)
    >>> curve = simulate(Mesh(4, 4), [0.1, 0.9], router=quick)
    >>> [point.unstable for point in curve.points]
    [False, True]
    """
    router = router or Router()
    wanted = list(loads)
    if not wanted:
        raise InputError("no loads: at least one is needed")
    for load in wanted:
        if not (math.isfinite(load) and load > 0):
            raise InputError(f"load {load}: must be above 0")
        if load > router.injection:
            raise InputError(f"load {load}: must be at most injection = {router.injection}")
    if threads < 1:
        raise InputError(f"threads {threads}: must be at least 1")
    lanes = _lanes(network, router)
    request = network.request() | {
        "traffic": traffics.request(traffic, hot, trace, network),
        "settings": asdict(router)
        | {"injection": router.injection // lanes, "ejection": router.ejection // lanes},
    }
    with CoreErrors():
        built = _core.FlitNetwork(json.dumps(request))
        made = Simulated(network, router, traffic, built.terminals // lanes)
        for at, load in enumerate(wanted):
            done = at / len(wanted)

            def tell(share: float, done: float = done) -> None:
                if on_progress is not None:
                    on_progress(done + share / len(wanted))

            point = Point(**json.loads(built.measure(load / lanes, threads, tell)))
            made.points.append(replace(point, offered=load, accepted=point.accepted * lanes))
    return made


def _lanes(network: Network, router: Router) -> int:
    """Return a chip's lanes, if what it may send and take can be dealt to them."""
    for key, flits in (("injection", router.injection), ("ejection", router.ejection)):
        if network.lanes < 1 or flits % network.lanes:
            raise InputError(f"{key} = {flits}: must be a multiple of lanes = {network.lanes}")
    return network.lanes


def parse_loads(text: str) -> list[float]:
    """Read loads: numbers with commas, or ranges such as ``0.1..1.0`` or ``0.1..1.0:0.05``.

    Examples
    --------
    >>> parse_loads("0.1..0.3,0.8")
    [0.1, 0.2, 0.3, 0.8]
    >>> parse_loads("0.2..0.3:0.05")
    [0.2, 0.25, 0.3]
    """
    loads: list[float] = []
    for part in text.split(","):
        ends, _, step = part.partition(":")
        first, dots, last = ends.partition("..")
        low, high, by = _number(first), _number(last if dots else first), _number(step or "0.1")
        if by <= 0 or high < low or (high - low) / by > 1_000:
            raise InputError(f'load "{part}": must rise, by steps above 0, at most 1,000 of them')
        count = math.floor((high - low) / by + 1e-9) + 1
        loads += [round(low + by * at, 12) for at in range(count)]
    return loads


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise InputError(f'load "{text}": must be a number, or a range such as 0.1..1.0') from None
    if not math.isfinite(value):
        raise InputError(f'load "{text}": must be finite')
    return value
