"""What a collective's plan is made for, read from text and checked once.

Modelled: nodes joined by k planes that share the node's bandwidth, each B / k, rounded down to a
whole bit per second. Sizes are a node's buffer; MB is 10^6 bytes. Checked: every refusal, through
the command line.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from lightloom import _core, kinds, maps
from lightloom.errors import InputError
from lightloom.maps import Device, PortMaps
from lightloom.plan import grid as grids
from lightloom.plan.file import FORMAT, parse
from lightloom.plan.grid import Grid
from lightloom.presets import unknown
from lightloom.trace.wording import reason
from lightloom.units import Quantity, Rate, Size, Time

INITIAL = ("first-step", "free", "dark")
EFFORTS = ("quick", "normal", "thorough")
PRIMITIVES = ("reduce-scatter", "all-gather", "all-reduce", "all-to-all", "broadcast")
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
    grid: Grid = ()
    """(nodes of a line, planes) of each dimension; empty without a grid."""

    @classmethod
    def of(
        cls, *, nodes: int, planes: int | str, node_bandwidth: str, reconfiguration: str,
        latency: str, grid: str | None = None,
    ) -> Planes:  # fmt: skip
        """Read and check.

        Over a grid, such as ``"8x8"``, planes are of one dimension each, such as ``"2,2"``.

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
        dimensions, planes = grids.parse(grid, planes, nodes)
        within("planes", planes, 1, MOST_PLANES)
        rate = quantity("node-bandwidth", node_bandwidth, Rate)
        if rate < planes:
            raise InputError(f'node-bandwidth "{node_bandwidth}": must be at least 1 bit/s a plane')
        dark = quantity("reconfiguration", reconfiguration, Time)
        return cls(nodes, planes, rate, dark, quantity("latency", latency, Time), dimensions)

    @property
    def port(self) -> Rate:
        """Rate of a node on one plane."""
        return Rate(self.node_bandwidth // self.planes)


@dataclass(frozen=True)
class Job:
    """One collective on planes.

    Examples
    --------
    >>> from lightloom.plan import plan_collective
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
        planes: int | str = 4,
        grid: str | None = None,
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
            1 to 64 planes that share the bandwidth of a node; over a grid those of each dimension,
            such as ``"2,2"``.
        grid
            Such as ``"8x8"``: each plane joins the nodes of the lines of its dimension.
        reconfiguration, latency
            How long a plane that switches is dark; what a transmission takes beyond its bytes.
        initial
            ``first-step``, ``free``, ``dark``, or a file: a plan, or port maps; the circuits that
            it leaves stand.
        effort
            ``quick``, ``normal`` or ``thorough``: how long SWOT searches and proves.

        Raises
        ------
        InputError
            Naming the value and what is allowed.
        """
        place = Planes.of(
            nodes=nodes, planes=planes, node_bandwidth=node_bandwidth,
            reconfiguration=reconfiguration, latency=latency, grid=grid,
        )  # fmt: skip
        name, colon, _ = algorithm.partition(":")
        with_radix = kinds.family("collective").able("radix")
        if name not in algorithms() or (colon and name not in with_radix):
            known = (*algorithms(), *(f"{kind}:RADIX" for kind in with_radix))
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
            "grid": [{"nodes": nodes, "planes": own} for nodes, own in self.planes.grid],
            "node_bps": int(self.planes.node_bandwidth),
            "reconfiguration_ps": int(self.planes.reconfiguration),
            "latency_ps": int(self.planes.latency),
            "initial": initial,
            "effort": self.effort,
            "schedulers": list(schedulers),
            "plan": plan,
            "given": given,
        }


def algorithms(primitive: str | None = None, nodes: int = 2, grid: Grid = ()) -> tuple[str, ...]:
    """Return the names of collective algorithms: all, or a primitive's for so many nodes.

    Over a grid, those whose steps go dimension by dimension.

    Raises
    ------
    InputError
        If there is no such primitive.

    Examples
    --------
    >>> algorithms("all-gather", nodes=6)
    ('ring-allgather', 'rabenseifner-allgather')
    >>> algorithms("all-reduce", nodes=6, grid=((2, 1), (3, 1)))
    ('ring-allreduce', 'rabenseifner-allreduce', 'recursive-doubling-allreduce')
    """
    if primitive is None:
        return tuple(kinds.family("collective").kinds)
    plain = primitive.replace("-", "").lower()
    known = {name.replace("-", ""): name for name in PRIMITIVES}
    if plain not in known:
        end = unknown(primitive, PRIMITIVES)
        raise InputError(f'primitive "{primitive}": no such primitive{end}')
    within("nodes", nodes, 2, MOST_NODES)
    return tuple(_core.plan_algorithms(known[plain], nodes, [line for line, _ in grid]))


def read_initial(path: Path, planes: Planes) -> tuple[tuple[int, ...], ...]:
    """Read what circuits stand at the beginning: those that a plan or port maps leave.

    Raises
    ------
    InputError
        If the file is neither, or of other nodes or planes.

    Examples
    --------
    >>> import tempfile
    >>> from lightloom.maps import Device, PortMaps
    >>> file = Path(tempfile.mkdtemp()) / "maps.json"
    >>> ends = [[(0, 0, p), (1, 1, p)] for p in (0, 1)]
    >>> PortMaps.of("by hand", [
    ...     Device.of("plane 0", (0, 1), attached=ends[0], initial=[(0, 1), (1, 0)]),
    ...     Device.of("plane 1", (0, 1), attached=ends[1], initial=[]),
    ... ]).write(file)
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
        given = _port_maps(text)
        if not planes.grid and len(given.devices) != planes.planes:
            raise InputError(f"devices: must be {planes.planes}, one a plane")
        peers = [[-1] * planes.nodes for _ in range(planes.planes)]
        for at, device in enumerate(given.devices):
            try:
                plane = _plane(device, planes) if planes.grid else at
                left = device.peers(planes.nodes)
            except InputError as error:
                raise InputError(f"devices[{at}]: {error}") from None
            peers[plane] = [b if a < 0 else a for a, b in zip(left, peers[plane], strict=True)]
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return tuple(map(tuple, peers))


def _plane(device: Device, planes: Planes) -> int:
    """Return the plane that a device is a line of: the port of its nodes."""
    own = {port for _, _, port in device.attached}
    if len(own) != 1 or max(own) >= planes.planes:
        most = planes.planes - 1
        raise InputError(f"attached: must be one port of each node, its plane, 0 to {most}")
    return own.pop()


def _port_maps(text: bytes) -> PortMaps:
    """Read a plan's maps, or a file of port maps."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise InputError("not JSON; allowed: a plan, or port maps") from None
    if isinstance(found, dict) and found.get("format") == FORMAT:
        return parse(text).port_maps()
    return maps.parse(text)


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
