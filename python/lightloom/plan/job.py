"""What a collective's plan is made for, checked once, and what the schedulers answer.

Modelled: nodes joined by k planes that share the node's bandwidth, each B / k, rounded down to a
whole bit per second. Sizes are a node's buffer; MB is 10^6 bytes. Checked: every refusal, through
the command line.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from lightloom import __version__, _core
from lightloom.errors import InputError, RunError
from lightloom.plan.file import FORMAT, VERSION, CollectiveTask, Made, Plan, parse
from lightloom.presets import unknown
from lightloom.trace.wording import reason
from lightloom.units import Quantity, Rate, Size, Time

SCHEDULERS = ("swot", "lockstep", "one-shot", "milp")
INITIAL = ("first-step", "free", "dark")
EFFORTS = ("quick", "normal", "thorough")
PRIMITIVES = ("reduce-scatter", "all-gather", "all-reduce", "all-to-all", "broadcast")
# What is compared, in the order of the table.
COMPARED = ("one-shot", "lockstep", "ideal", "swot")
MOST_NODES = 4096
MOST_PLANES = 64

_Quantity = TypeVar("_Quantity", bound=Quantity)


@dataclass(frozen=True)
class Planes:
    """k optical planes between nodes: all values in base units."""

    nodes: int
    planes: int
    node_bandwidth: Rate
    """Of a node over all planes [bit/s]."""
    reconfiguration: Time
    latency: Time

    @classmethod
    def of(
        cls, *, nodes: int, planes: int, node_bandwidth: str, reconfiguration: str, latency: str
    ) -> Planes:
        """Read and check.

        Raises
        ------
        InputError
            Naming the value and what is allowed.

        Examples
        --------
        >>> Planes.of(nodes=8, planes=0, node_bandwidth="800 Gbps", reconfiguration="1 us",
        ...           latency="0 us")
        Traceback (most recent call last):
        ...
        lightloom.errors.InputError: planes = 0: must be 1 to 64
        """
        within("nodes", nodes, 2, MOST_NODES)
        within("planes", planes, 1, MOST_PLANES)
        rate = quantity("node-bandwidth", node_bandwidth, Rate)
        if rate < planes:
            raise InputError(f'node-bandwidth "{node_bandwidth}": must be at least 1 bit/s a plane')
        dark = quantity("reconfiguration", reconfiguration, Time)
        return cls(nodes, planes, rate, dark, quantity("latency", latency, Time))

    @property
    def port(self) -> Rate:
        """Rate of a node on one plane."""
        return Rate(self.node_bandwidth // self.planes)


@dataclass(frozen=True)
class Job:
    """One collective on planes.

    Examples
    --------
    >>> job = Job.of("rabenseifner-allreduce", nodes=8, size="40 MB", planes=2,
    ...              reconfiguration="200 us", latency="0 us")
    >>> rows = plan_collective(job).rows
    >>> [row.scheduler for row in rows if row.completion_ps is not None]
    ['lockstep', 'ideal', 'swot']
    >>> [str(Time(row.completion_ps)) for row in rows if row.completion_ps is not None]
    ['1.5 ms', '700 us', '1.2 ms']
    """

    algorithm: str
    size: Size
    planes: Planes
    initial: str
    maps: tuple[tuple[int, ...], ...] | None
    """Port maps at the beginning, where they came from a file."""
    effort: str

    @classmethod
    def of(
        cls,
        algorithm: str,
        *,
        nodes: int,
        size: str,
        planes: int = 4,
        node_bandwidth: str = "800 Gbps",
        reconfiguration: str = "200 us",
        latency: str = "5 us",
        initial: str = "first-step",
        effort: str = "normal",
    ) -> Job:
        """Read what users write.

        Parameters
        ----------
        algorithm
            A name of `algorithms`, such as ``bruck-alltoall:4``.
        nodes
            2 to 4096.
        size
            Buffer of a node, such as ``"64 MB"``.
        planes, node_bandwidth
            1 to 64 planes that share the bandwidth of a node.
        reconfiguration, latency
            How long a plane that switches is dark; what a transmission takes beyond its bytes.
        initial
            ``first-step``, ``free``, ``dark``, or a file: a plan, whose last circuits stand, or a
            JSON list with a port map (or null) a plane.
        effort
            ``quick``, ``normal`` or ``thorough``: how long SWOT searches and proves.

        Raises
        ------
        InputError
            Naming the value and what is allowed.
        """
        place = Planes.of(
            nodes=nodes, planes=planes, node_bandwidth=node_bandwidth,
            reconfiguration=reconfiguration, latency=latency,
        )  # fmt: skip
        name, colon, _ = algorithm.partition(":")
        if name not in algorithms() or (colon and name != "bruck-alltoall"):
            known = (*algorithms(), "bruck-alltoall:RADIX")
            raise InputError(f'algorithm "{algorithm}": no such algorithm{unknown(name, known)}')
        if effort not in EFFORTS:
            raise InputError(f'effort "{effort}": no such effort{unknown(effort, EFFORTS)}')
        maps = None
        if initial not in INITIAL:
            maps = read_initial(Path(initial), place)
        bytes_ = quantity("size", size, Size)
        return cls(algorithm, bytes_, place, initial, maps, effort)

    def request(
        self, schedulers: Sequence[str], plan: str | None = None, given: Any = None
    ) -> dict[str, Any]:
        """Return what the compiled core reads."""
        initial: Any = self.initial
        if self.maps is not None:
            initial = {"maps": self.maps}
        return {
            "algorithm": self.algorithm,
            "nodes": self.planes.nodes,
            "size_bytes": int(self.size),
            "planes": self.planes.planes,
            "node_bps": int(self.planes.node_bandwidth),
            "reconfiguration_ps": int(self.planes.reconfiguration),
            "latency_ps": int(self.planes.latency),
            "initial": initial,
            "effort": self.effort,
            "schedulers": list(schedulers),
            "plan": plan,
            "given": given,
        }


@dataclass(frozen=True)
class Row:
    """What one scheduler answered; times in ps."""

    scheduler: str
    completion_ps: int | None
    """None if there is no schedule."""
    bound_ps: int | None
    """No schedule of the same problem completes before; None where the problem is another."""
    gap: float | None
    """(completion - bound) / completion."""
    infeasible: str | None
    """Why there is no schedule."""
    switches: int
    """Reconfigurations, of planes or, in an all-to-all on ports, of circuits."""
    dark_ps: int
    """How long planes (ports) are dark, summed."""
    exposed_ps: int
    """How long of that nothing is sent on any plane (by the node that waits)."""
    algorithm: str = ""

    @property
    def exposed(self) -> float | None:
        """Share of the dark time during which nothing is sent; None without dark time."""
        return self.exposed_ps / self.dark_ps if self.dark_ps else None


@dataclass(frozen=True)
class Outcome:
    """The schedulers' answers to one job, and the plan of one of them."""

    job: Job
    steps: int
    configurations: int
    rows: tuple[Row, ...]
    plan: Plan | None

    def row(self, scheduler: str) -> Row:
        """Return the answer of a scheduler that was asked."""
        return next(row for row in self.rows if row.scheduler == scheduler)


def algorithms(primitive: str | None = None, nodes: int = 2) -> tuple[str, ...]:
    """Return the names of collective algorithms: all, or a primitive's for so many nodes.

    Raises
    ------
    InputError
        If there is no such primitive.

    Examples
    --------
    >>> algorithms("all-gather", nodes=6)
    ('ring-allgather',)
    """
    if primitive is None:
        return tuple(_core.plan_algorithms())
    plain = primitive.replace("-", "").lower()
    known = {name.replace("-", ""): name for name in PRIMITIVES}
    if plain not in known:
        end = unknown(primitive, PRIMITIVES)
        raise InputError(f'primitive "{primitive}": no such primitive{end}')
    within("nodes", nodes, 2, MOST_NODES)
    return tuple(_core.plan_algorithms(known[plain], nodes))


def plan_collective(
    job: Job,
    *,
    schedulers: Sequence[str] = COMPARED,
    plan: str | None = None,
    seconds: float = 120.0,
) -> Outcome:
    """Ask schedulers for a collective's schedule; each answer has been replayed.

    Parameters
    ----------
    job
        What to plan.
    schedulers
        ``one-shot``, ``lockstep``, ``ideal``, ``swot``, ``milp``.
    plan
        The scheduler whose plan is wanted; it is asked in any case.
    seconds
        How long HiGHS may take, if it is asked.

    Raises
    ------
    InputError
        If the collective cannot be built, or does not fit the planes.
    RunError
        If the solver fails, or a schedule fails its replay.
    """
    asked = list(schedulers)
    if plan is not None and plan not in asked:
        asked.append(plan)
    given = None
    if "milp" in asked:
        given = _solved(job, seconds)
    answer, tracks = _asked(job.request(asked, plan, given))
    rows = tuple(Row(**row, algorithm=job.algorithm) for row in answer["rows"])
    made = None
    if tracks is not None and plan is not None:
        task = CollectiveTask(kind="collective", algorithm=job.algorithm, size_bytes=int(job.size))
        how = Made(lightloom=__version__, scheduler=plan, initial=job.initial, demand=None)
        made = assembled(tracks, how, task)
    return Outcome(job, answer["steps"], answer["configurations"], rows, made)


def best(
    job: Callable[[str], Job],
    primitive: str,
    nodes: int,
    *,
    scheduler: str = "swot",
    on_progress: Callable[[float], None] = lambda _: None,
) -> tuple[dict[str, Row], str]:
    """Find, for each scheduler, the algorithm whose schedule completes first.

    Parameters
    ----------
    job
        Makes the job of an algorithm.
    primitive
        One of `PRIMITIVES`; every algorithm that can be built is tried, Bruck's with every radix
        up to 64.
    nodes
        Nodes of the job.
    scheduler
        Whose best algorithm is returned.
    on_progress
        Given the share that is done.

    Returns
    -------
    tuple
        The best answer of each scheduler, and the algorithm of `scheduler`'s. SWOT's is not asked
        where even the ideal is slower than the best so far.
    """
    plain = [s for s in COMPARED if s != "swot"]
    found: dict[str, Row] = {}
    ideals: list[tuple[int, str]] = []

    def keep(rows: Sequence[Row]) -> None:
        for row in rows:
            now = found.get(row.scheduler)
            if row.completion_ps is not None and (
                now is None or now.completion_ps is None or row.completion_ps < now.completion_ps
            ):
                # The bound is that of one algorithm, and a quick one.
                found[row.scheduler] = replace(row, bound_ps=None, gap=None)
            elif now is None:
                reason = "one-shot: each algorithm that there is needs more planes"
                found[row.scheduler] = replace(row, algorithm="", infeasible=reason)

    names = algorithms(primitive, nodes)
    for at, name in enumerate(names):
        outcome = plan_collective(replace(job(name), effort="quick"), schedulers=plain)
        keep(outcome.rows)
        ideals.append((outcome.row("ideal").completion_ps or 0, name))
        on_progress(0.2 * (at + 1) / len(names))
    # The most promising first: the others are then known to be slower without being planned.
    for at, (ideal_ps, name) in enumerate(sorted(ideals)):
        least = found["swot"].completion_ps if "swot" in found else None
        if least is None or ideal_ps < least:
            quick = replace(job(name), effort="quick")
            keep(plan_collective(quick, schedulers=["swot"]).rows)
        on_progress(0.2 + 0.8 * (at + 1) / len(names))
    return found, found["swot" if scheduler == "milp" else scheduler].algorithm


def assembled(tracks: str, made: Made, task: Any) -> Plan:
    """Return the plan that the compiled core made, with how it was made."""
    head = f'{{"format": "{FORMAT}", "version": {VERSION}, "made": {made.model_dump_json()}, '
    head += f'"task": {task.model_dump_json()}, '
    return parse((head + tracks.removeprefix("{")).encode())


def _asked(request: Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
    try:
        answer, tracks = _core.plan_collective(json.dumps(request))
    except ValueError as error:
        raise InputError(str(error)) from None
    except RuntimeError as error:
        raise RunError(str(error)) from None
    return json.loads(answer), tracks


def _solved(job: Job, seconds: float) -> dict[str, Any]:
    """Return what HiGHS finds of a job in so many seconds."""
    from lightloom.oracle import swot

    try:
        posed = json.loads(_core.plan_problem(json.dumps(job.request([]))))
    except ValueError as error:
        raise InputError(str(error)) from None
    held = {"dark": None, "free": "free"}
    planes = posed["planes"]
    found = swot.solve(
        [(step["configuration"], step["volume_bytes"]) for step in posed["steps"]],
        [one["configuration"] if isinstance(one, dict) else held[one] for one in posed["initial"]],
        planes["rate_bps"], planes["reconfiguration_ps"], planes["latency_ps"], seconds,
    )  # fmt: skip
    return {"parts": found.parts, "bound_ps": int(found.bound_ps)}


def read_initial(path: Path, planes: Planes) -> tuple[tuple[int, ...], ...]:
    """Read what circuits stand at the beginning: of a plan's end, or a list of port maps.

    Raises
    ------
    InputError
        If the file is neither, or of other nodes or planes.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "maps.json"
    >>> _ = file.write_text("[[1, 0], null]")
    >>> two = Planes.of(nodes=2, planes=2, node_bandwidth="1 Gbps", reconfiguration="1 us",
    ...                 latency="0 us")
    >>> read_initial(file, two)
    ((1, 0), (-1, -1))
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        allowed = f"{', '.join(INITIAL)}, or a file"
        raise InputError(f"initial {path}: {reason(error)}; allowed: {allowed}") from None
    try:
        maps = json.loads(text)
        if isinstance(maps, dict):
            maps = parse(text).circuits_left()
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except (ValueError, RecursionError):
        raise InputError(f"{path}: not JSON; allowed: a plan, or a port map a plane") from None
    if not isinstance(maps, list) or len(maps) != planes.planes:
        raise InputError(f"{path}: must have {planes.planes} port maps, one a plane")
    for plane, one in enumerate(maps):
        if one is None:
            maps[plane] = one = [-1] * planes.nodes
        if not isinstance(one, list) or len(one) != planes.nodes:
            raise InputError(f"{path}: [{plane}]: must be {planes.nodes} nodes' peers, or null")
        for node, peer in enumerate(one):
            if type(peer) is not int or not -1 <= peer < planes.nodes:
                shown = json.dumps(peer)[:40]
                raise InputError(
                    f"{path}: [{plane}][{node}] = {shown}: must be -1 to {planes.nodes - 1}"
                )
    return tuple(tuple(one) for one in maps)


def quantity(name: str, text: str, kind: type[_Quantity]) -> _Quantity:
    """Read a quantity that is at most 2^63 - 1.

    Raises
    ------
    InputError
        Naming it.
    """
    try:
        value = kind.parse(text)
    except ValueError as error:
        raise InputError(f"{name}: {error}") from None
    if value >= 1 << 63:
        raise InputError(f'{name} "{text}": must be less than 2^63 ({kind(2**63)})')
    return value


def within(name: str, value: int, low: int, high: int) -> None:
    """Refuse a number that is not `low` to `high`."""
    if not low <= value <= high:
        raise InputError(f"{name} = {value}: must be {low} to {high}")


ROW_KEYS = tuple(field.name for field in fields(Row))
