"""RailS's schemes on a testbed of rails, over real TCP, beside the packet engine.

Modelled: a rank is a GPU, a server a domain, and NIC i of a server is its rank i's own. Schemes,
workloads, measures and pictures are those of `lightloom.rails`. All schemes run in one job, one
after the other on each demand, over the same connections: several between any two NICs of two
servers, each from a port of its own, so that the kernel's hash may give each another spine. Chunks
are as long for all, and from a server to a NIC of another as many bytes may be in flight for all.
Which NIC or connection a chunk takes is asked of the simulator's own decisions
(``crates/runtime/src/path.rs`` and ``exchange/flow.rs``). Ignored: see docs/rails.md, "On real
TCP". Checked: ``tests/test_testbed_schemes.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lightloom import _core
from lightloom.errors import InputError
from lightloom.oracle.rails import between_domains
from lightloom.rails.job import DEALT
from lightloom.rails.job import Job as RailsJob
from lightloom.rails.measures import mse, percentiles
from lightloom.rails.runs import Comparison as RailsComparison
from lightloom.rails.runs import Scheme, scheme, with_gains
from lightloom.rails.runs import run as simulate
from lightloom.rails.workloads import Bytes, demand
from lightloom.testbed import nics, record
from lightloom.testbed.collective import Outcome, carried_out
from lightloom.testbed.comparison import LEAST_BYTES
from lightloom.testbed.job import Job
from lightloom.testbed.lines import WINDOW_BYTES, port_frames
from lightloom.testbed.runtimes import Settings
from lightloom.testbed.shape import Shape

DEFAULT_SCHEMES = "rails,rails-hash,round-robin,ecmp,reps,plb,min-rtt"
# Connections between two NICs.
WAYS = 4
# How a runtime calls the paths of rules that deal chunks to rails.
_PATHS = {"lpt": "rails", "round-robin": "stripe", "hash": "hash", "pxn": "pxn", "source": "source"}
# What a process cannot do over TCP, and why.
_CANNOT = {
    "rails-both": "senders would have to know what all others send",
    "flowlets": "the gaps between packets are the kernel's, and no process sees them",
}
# The simulator resends what was not acknowledged for as long as so many full queues take.
_FULL_QUEUES = 5


@dataclass(frozen=True)
class SchemesRequest:
    """What is to be run.

    Attributes
    ----------
    workload, schemes
        As `lightloom rails` has them; schemes with commas.
    size_bytes
        What a rank sends in an all-to-all, on average over ranks [B].
    count
        All-to-alls by each scheme, each with another demand.
    chunk_bytes
        The longest chunk [B].
    window_bytes
        In flight from a server to one NIC of another, by any scheme [B].
    ways
        Connections between two NICs.
    seed
        Of the demands and of the simulator.

    Raises
    ------
    InputError
        If a value is not allowed; with the flag.
    """

    workload: str = "uniform"
    schemes: str = DEFAULT_SCHEMES
    size_bytes: int = 2_000_000
    count: int = 3
    chunk_bytes: int = 1 << 13
    window_bytes: int = WINDOW_BYTES
    ways: int = WAYS
    seed: int = 1

    def __post_init__(self) -> None:
        """Check every value that needs no testbed."""
        for flag, count, least, most in (
            ("--size", self.size_bytes, 1, 1 << 32),
            ("--count", self.count, 1, 1000),
            ("--chunk", self.chunk_bytes, 1 << 10, 1 << 20),
            ("--window", self.window_bytes, 1 << 10, 1 << 30),
            ("--ways", self.ways, 1, 16),
            ("--seed", self.seed, 0, 1 << 32),
        ):
            if not least <= count <= most:
                raise InputError(f"{flag}: {count}: must be from {least} to {most}")

    def job(self, shape: Shape) -> RailsJob:
        """Return the same for the simulator: the testbed's rates, NICs, spines, frames and queues.

        Raises
        ------
        InputError
            If the testbed is not of rails with a rank a NIC, or a value does not fit it.

        Examples
        --------
        >>> shape = Shape(servers=3, ranks_per_server=2, eps="rails", eps_nics=2)
        >>> job = SchemesRequest(schemes="rails,ecmp").job(shape)
        >>> job.domains, job.spines, str(job.spine_bandwidth), job.schemes
        (3, 2, '150 Mbps', ('rails', 'ecmp'))
        """
        _check_shape(shape)
        least = self.chunk_bytes * shape.eps_nics
        if self.window_bytes < least:
            raise InputError(
                f"--window: {self.window_bytes}: must be at least {least},"
                f" --chunk times {shape.eps_nics} NICs"
            )
        queue_bytes = port_frames(shape) * shape.mtu
        settings = {
            "engine.mtu": f"{nics.Framing.of(shape.mtu).payload} B",
            "engine.header": f"{nics.HEADERS + nics.ETHERNET} B",
            "engine.switch.queue": f"{queue_bytes} B",
            # Marks from a fifth to four fifths, as by default.
            "engine.switch.ecn_low": f"{queue_bytes // 5} B",
            "engine.switch.ecn_high": f"{queue_bytes * 4 // 5} B",
            "engine.transport.retransmit_after": f"{_full_us(shape, queue_bytes)} us",
        }
        job = RailsJob.of(
            domains=shape.servers, gpus_per_domain=shape.ranks_per_server,
            workload=self.workload, schemes=self.schemes, size=f"{self.size_bytes} B",
            collectives=self.count, bandwidth=str(shape.rate), chunk=f"{self.chunk_bytes} B",
            # On the testbed what goes to a server by a rail has one window.
            # Runtimes learn nothing of earlier all-to-alls.
            queue_pairs=1, feedback=False, seed=self.seed, settings=settings,
            spines=shape.spines, spine_bandwidth=str(shape.spine_rate),
        )  # fmt: skip
        for name in job.schemes:
            if name in _CANNOT:
                raise InputError(f"--schemes: {name}: cannot run over TCP: {_CANNOT[name]}")
        return job


def _full_us(shape: Shape, queue_bytes: int) -> int:
    return _FULL_QUEUES * queue_bytes * 8 * 1_000_000 // int(shape.rate)


def _check_shape(shape: Shape) -> None:
    where = f"--name: {shape.name}"
    if shape.eps != "rails":
        raise InputError(f"{where}: is not of rails; must be: `testbed up --eps rails`")
    if shape.ranks_per_server != shape.eps_nics:
        raise InputError(
            f"{where}: has {shape.ranks_per_server} ranks and {shape.eps_nics} packet NICs a"
            " server; must have as many"
        )
    if (shape.spines or 0) > shape.servers:
        raise InputError(
            f"{where}: has {shape.spines} spines; must be at most {shape.servers}, as many as"
            " servers: the simulator has no more"
        )


@dataclass(frozen=True)
class SchemesComparison:
    """Schemes on a testbed, and in the packet engine.

    Attributes
    ----------
    shape, request
        On which testbed, and what.
    measured, simulated
        By scheme, as `lightloom.rails` compares them. Of the measured, ``resent`` are chunks that
        were sent again since a connection broke; what TCP sent again, and packets, are not counted.
    detours
        By scheme: chunks that took another connection than the scheme chose.
    """

    shape: Shape
    request: SchemesRequest
    measured: RailsComparison
    simulated: RailsComparison
    detours: tuple[int, ...]

    def said(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "shape": self.shape.said(),
            "request": asdict(self.request),
            "schemes": [
                {
                    "scheme": ours.row.scheme,
                    "measured": _said(ours) | {"detours": detours},
                    "simulated": _said(theirs),
                }
                for ours, theirs, detours in zip(
                    self.measured.schemes, self.simulated.schemes, self.detours, strict=True
                )
            ],
            "notes": list(self.simulated.notes),
        }

    def save(self, out: str | PathLike[str], *, force: bool = False) -> Path:
        """Write ``schemes.json`` and pictures, of the testbed and of the simulator, to a directory.

        Raises
        ------
        InputError
            If the place is taken.
        """
        from lightloom import store
        from lightloom.rails import plots

        place = Path(out)
        with store.create(place, force=force) as draft:
            store.write_json(draft / "schemes.json", self.said())
            for side, found in (("measured", self.measured), ("simulated", self.simulated)):
                for name, figure in plots.all_of(found).items():
                    figure.savefig(draft / f"{side}_{name}.png", metadata={"Software": None})
            info = {
                "lightloom": _core.__version__, "kind": "testbed-rails", "seed": self.request.seed
            }  # fmt: skip
            store.write_json(draft / store.INFO, info)
        return place


def _said(it: Scheme) -> dict[str, Any]:
    return asdict(it.row) | {
        "completions_s": [one["completion_ps"] / 1e12 for one in it.collectives],
        "sent": it.sender_loads.tolist(),
        "received": it.receiver_loads.tolist(),
    }


def schemes(
    name: str, request: SchemesRequest, told: Callable[[str], None] = lambda line: None
) -> SchemesComparison:
    """Run all-to-alls by each scheme on a testbed of rails and in the packet engine.

    Parameters
    ----------
    name
        The testbed's name.
    request
        What is to be run.
    told
        Is called with what is done next.

    Raises
    ------
    InputError
        If there is no such testbed, a job is on it, it does not fit, or a value does not; before
        anything is begun.
    RunError
        If a rank fails, or a byte is wrong.
    """
    shape = record.known(name)
    job = request.job(shape)
    demands = demand(
        job.workload, job.domains, job.gpus_per_domain, job.size_bytes,
        collectives=job.collectives, seed=job.seed,
    )  # fmt: skip
    for at, matrix in enumerate(demands):
        sent = int(between_domains(matrix, job.gpus_per_domain).sum())
        if sent < LEAST_BYTES:
            raise InputError(
                f"--size: {request.size_bytes}: demand {at} sends {sent} B between servers; must"
                f" be at least {LEAST_BYTES} B"
            )
    # One after the other on each demand: what disturbs the computer disturbs all of them.
    steps = [
        {"path": path(one), "demand": at, "announce": False}
        for at in range(request.count)
        for one in job.schemes
    ]
    plan = {"kind": "alltoall", "bytes": request.size_bytes, "settle": True, "steps": steps}
    settings = Settings(path="rails", chunk_bytes=request.chunk_bytes, spread=_spread(request, job))
    with Job(name, settings) as running:
        told(f"{len(steps)} all-to-alls of {job.gpus} ranks")
        outcomes = carried_out(running, plan, demands)
    told(f"{len(steps)} all-to-alls in the packet engine")
    simulated = simulate(job)
    ours = [outcomes[at :: len(job.schemes)] for at in range(len(job.schemes))]
    made = [measured(job, one, demands, its) for one, its in zip(job.schemes, ours, strict=True)]
    return SchemesComparison(
        shape, request, RailsComparison(job, tuple(with_gains(made))), simulated,
        tuple(sum(outcome.detours for outcome in its) for its in ours),
    )  # fmt: skip


def path(name: str) -> str:
    """Return what runtimes call a scheme.

    Examples
    --------
    >>> path("rails"), path("rails-round-robin"), path("round-robin"), path("plb")
    ('rails', 'stripe', 'round-robin', 'plb')
    """
    kind, deal = DEALT[name]
    return _PATHS[deal] if kind == "rails" else kind


def _spread(request: SchemesRequest, job: RailsJob) -> dict[str, object]:
    """Return what runtimes are told of balancers: the simulator's settings of them."""
    balancers = {
        path(name): job.scenario(name).to_core()["engine"]["balancer"]
        for name in job.schemes
        if DEALT[name][0] != "rails"
    }
    return {"ways": request.ways, "window": request.window_bytes, "balancers": balancers}


def measured(job: RailsJob, name: str, demands: Bytes, outcomes: Sequence[Outcome]) -> Scheme:
    """Return what a scheme did on the testbed, as the simulator says what it does there.

    Parameters
    ----------
    job
        Of the simulator.
    name
        The scheme.
    demands
        What ranks sent each other [B]: [collective, source rank, destination rank].
    outcomes
        One for each of them.

    Examples
    --------
    >>> job = RailsJob.of(domains=2, gpus_per_domain=1, schemes="ecmp", collectives=1)
    >>> demands = np.array([[[0, 1000], [3000, 0]]], np.uint64)
    >>> ends = ((0, 1, 0.5), (1, 0, 1.0))
    >>> one = Outcome("ecmp", 0, 1.25, 0, 1, 0, 0, 4000, 1, 1, [[1000], [3000]],
    ...     [[3000], [1000]], 0, 0, None, None, ends)
    >>> row = measured(job, "ecmp", demands, [one]).row
    >>> row.completion_s, row.cct_mean_s, round(row.bus_bandwidth_gbps * 1e9)
    (1.25, 0.75, 12800)
    """
    rails = job.gpus_per_domain
    sent, received = (
        np.array([getattr(one, side) for one in outcomes], np.uint64)[:, :, :rails]
        for side in ("sent", "received")
    )
    collectives, rows, ends = [], [], []
    for at, one in enumerate(outcomes):
        landed = np.array([round(end * 1e12) for _, _, end in one.landed], np.uint64)
        ends.append(landed)
        matrix = demands[one.demand]
        rows += [(at, s, d, int(matrix[s, d]), 0, round(end * 1e12)) for s, d, end in one.landed]
        collectives.append(
            {
                "completion_ps": round(one.seconds * 1e12),
                **{f"cct_{key}_ps": value for key, value in percentiles(landed).items()},
                "inter_domain_bytes": int(between_domains(matrix, rails).sum()),
                "sender_mse": mse(sent[at]),
                "receiver_mse": mse(received[at]),
            }
        )
    names = ("collective", "source", "destination", "bytes", "start_ps", "end_ps")
    columns = np.array(rows, np.int64).reshape(-1, len(names)).T
    counts = dict.fromkeys(("packets", "drops", "trims", "timeouts"), 0)
    counts["resent"] = sum(one.resent for one in outcomes)
    all_ends: npt.NDArray[np.uint64] = np.sort(np.concatenate(ends))
    return scheme(
        job, name, demands, sent, received, collectives, counts, all_ends,
        dict(zip(names, columns, strict=True)),
    )  # fmt: skip
