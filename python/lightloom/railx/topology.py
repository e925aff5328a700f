"""RailX's topologies: the rings of every optical switch, and what they give on the graph.

`build` sets the circuits of a torus, a HyperX, a dragonfly or a split into logical dimensions, and
measures them. Throughputs are flits a cycle and chip under uniform traffic, rails carrying one flit
a cycle each way.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lightloom import _core
from lightloom.errors import CoreErrors, InputError
from lightloom.presets import unknown

if TYPE_CHECKING:
    from lightloom.maps import PortMaps

TOPOLOGIES = ("torus", "hyperx", "dragonfly", "split")
"""What `build` knows."""


@dataclass(frozen=True)
class Switch:
    """What an optical switch is set to.

    ``axis`` is x or y, ``line`` the row (x) or column (y) of nodes, ``rail`` which of its rails.
    ``pairs`` are the ports that are joined: port 2 p is the + end of the node at position p of the
    line, port 2 p + 1 its - end.
    """

    axis: str
    line: int
    rail: int
    ports: int
    pairs: list[list[int]]


@dataclass(frozen=True)
class Formulas:
    """RailX, Table 2: the most chips, the diameter in optical hops, the uniform throughput."""

    chips: int
    diameter: int
    throughput: float


@dataclass(frozen=True)
class Measures:
    """What the graph gives.

    Attributes
    ----------
    diameter
        Most optical hops between two nodes.
    diameter_exact
        False if not every node was a source: then it is at least so much.
    bisection_circuits
        Fewest circuits found between two halves of the nodes.
    bisection_exact
        Whether every half was tried; if not, a thinner cut may exist.
    cut_throughput
        Least uniform throughput that a cut allows; None for one node.
    rail_load, rail_load_mean, mesh_load
        At an offered load of 1: flits a cycle on the busiest rail; on the rails of the busiest
        dimension, on average; on the busiest mesh link. None where the topology is too large.
    """

    diameter: int | None
    diameter_exact: bool
    bisection_circuits: int
    bisection_exact: bool
    cut_throughput: float | None
    rail_load: float | None
    rail_load_mean: float | None
    mesh_load: float | None

    def throughput(self, inside: float | None = None, *, even: bool = False) -> float | None:
        """Return what the busiest channel allows.

        Parameters
        ----------
        inside
            Width of mesh links, in flits a cycle; without limit if None.
        even
            Whether the rails of a dimension share evenly, rather than each chip taking the nearest.
        """
        rail = self.rail_load_mean if even else self.rail_load
        if rail is None or self.mesh_load is None:
            return None
        limits = [1 / rail] if rail else []
        if inside is not None and self.mesh_load:
            limits.append(inside / self.mesh_load)
        return min(limits, default=None)


@dataclass(frozen=True)
class Checked:
    """A routing function that is free of deadlock on a topology, all paths followed.

    Attributes
    ----------
    routing, vcs
        Its name, and the virtual channels of a port that it uses.
    channels, dependencies
        Virtual channels that packets use, and pairs of them of which one may wait for the other.
    hops
        Channels on the longest path that a packet may take, mesh links and rails.
    bubbles
        Rings that only bubbles keep moving; all else has no cycles.
    """

    routing: str
    vcs: int
    channels: int
    dependencies: int
    hops: int
    bubbles: int


@dataclass(frozen=True)
class Built:
    """A topology that is set.

    Examples
    --------
    >>> built = build("hyperx", mesh=4, ports=2, ocs=128)
    >>> built.columns, built.rows, built.chips
    (9, 9, 1296)
    >>> [round(built.measures.throughput(k), 2) for k in (1, 2, 4)]
    [0.36, 0.72, 1.12]
    """

    topology: str
    mesh: int
    ports: int
    ocs: int
    global_ocs: int
    columns: int
    rows: int
    chips: int
    nodes: int
    rails: int
    switches: int
    dark_switches: int
    circuits: int
    dimensions: list[dict[str, Any]] | None
    formulas: Formulas | None
    checked: Checked | None = None
    notes: list[str] = field(default_factory=list)
    _measures: Measures | None = None
    _maps: list[Switch] | None = None

    @property
    def measures(self) -> Measures:
        """What the graph gives; only if `build` measured."""
        if self._measures is None:
            raise InputError("measures = False: build the topology with measures=True")
        return self._measures

    @property
    def maps(self) -> list[Switch]:
        """The port map of every switch; only if `build` kept them."""
        if self._maps is None:
            raise InputError("maps = False: build the topology with maps=True")
        return self._maps

    def as_json(self) -> dict[str, Any]:
        """Return everything but the switches' maps."""
        names = (
            "topology", "mesh", "ports", "ocs", "global_ocs", "columns", "rows", "chips", "nodes",
            "rails", "switches", "dark_switches", "circuits", "dimensions",
        )  # fmt: skip
        document = {name: getattr(self, name) for name in names}
        document["measures"] = None if self._measures is None else vars(self._measures)
        document["table2"] = None if self.formulas is None else vars(self.formulas)
        document["checked"] = None if self.checked is None else vars(self.checked)
        return document | {"notes": self.notes}

    def port_maps(self) -> PortMaps:
        """Return the maps as a file has them, as `port_maps`."""
        by = f"railx build: {self.topology} of {self.columns} x {self.rows} nodes"
        return port_maps(by, self.maps, self.columns, self.rows, self.rails)


def node_port(rails: int, axis: str, rail: int, *, plus: bool) -> int:
    """Return which port of a node is an end of a rail: two for each rail, + and -, X before Y.

    Examples
    --------
    >>> node_port(2, "x", 1, plus=False), node_port(2, "y", 0, plus=True)
    (3, 4)
    """
    return 2 * rail + (0 if axis == "x" else 2 * rails) + (0 if plus else 1)


def port_maps(by: str, switches: Iterable[Switch], columns: int, rows: int, rails: int) -> PortMaps:
    """Return the maps of a grid's switches as a file has them: a device each, named axis/line/rail.

    Nodes are numbered row by row, and their ports as `node_port` does.
    """
    from lightloom.maps import Device, PortMaps

    def device(switch: Switch) -> Device:
        along = columns if switch.axis == "x" else rows

        def node(position: int) -> int:
            x, y = (position, switch.line) if switch.axis == "x" else (switch.line, position)
            return y * columns + x

        ends = [(e, node_port(rails, switch.axis, switch.rail, plus=e == 0)) for e in (0, 1)]
        return Device.of(
            f"{switch.axis}/{switch.line}/{switch.rail}", (0, switch.ports - 1), duplex=True,
            attached=((2 * p + e, node(p), end) for p in range(along) for e, end in ends),
            initial=((a, b) for a, b in switch.pairs),
        )  # fmt: skip

    return PortMaps.of(by, (device(switch) for switch in switches))


def build(
    topology: str,
    *,
    mesh: int,
    ports: int,
    ocs: int,
    global_ocs: int | None = None,
    scale: str | None = None,
    x: str | None = None,
    y: str | None = None,
    uneven: bool = False,
    measures: bool = True,
    maps: bool = False,
    check_routing: str | None = None,
    vcs: int = 12,
) -> Built:
    """Set the circuits of a topology.

    Parameters
    ----------
    topology
        torus, hyperx, dragonfly or split.
    mesh, ports, ocs
        Chips along a side of a node, rail ports at a chip edge, ports of an optical switch.
    global_ocs
        Ports of the switches of rows, if other than `ocs`: a dragonfly's global ones.
    scale
        Columns and rows of nodes, such as "9x9"; the largest that the topology allows if None.
    x, y
        Parts of a split, such as "ring:3*1,all:3*1": how its nodes are joined (ring, or all to
        all), how many, and the rails it gets, of each chip edge or, if `uneven`, of the node.
        Rails are dealt evenly if no part says how many.
    measures, maps
        Whether to measure, and to keep the port maps.
    check_routing
        A routing function (deterministic, adaptive, non-minimal, bubble) that is to be followed
        from every chip to every other, for deadlock; of at most 2,048 chips.
    vcs
        Virtual channels of a port that it may use, 1 to 16.

    Raises
    ------
    InputError
        If there is no such topology or routing: what is wrong, and what is allowed.

    Examples
    --------
    >>> build("split", mesh=2, ports=2, ocs=128, x="ring:3,ring:4", y="all:3,ring:2").nodes
    72
    >>> checked = build("torus", mesh=2, ports=1, ocs=128, scale="5x5", vcs=2,
    ...                 check_routing="deterministic").checked
    >>> checked.channels, checked.hops  # half of ten chips round, along X and along Y
    (520, 10)
    >>> build("hyperx", mesh=4, ports=2, ocs=128, scale="10x9")
    Traceback (most recent call last):
    ...
    lightloom.errors.InputError: columns = 10: 8 rails join at most 9 nodes all to all
    """
    if topology not in TOPOLOGIES:
        raise InputError(f"topology = {topology}: no such topology{unknown(topology, TOPOLOGIES)}")
    limits = (("mesh", mesh, 64), ("ports", ports, 256))
    radices = (("ocs", ocs, 4096), ("global_ocs", global_ocs, 4096))
    for name, value, most in limits + radices:
        if value is not None and not 1 <= value <= most:
            raise InputError(f"{name} = {value}: must be from 1 to {most}")
    if not 1 <= vcs <= 16:
        raise InputError(f"vcs = {vcs}: must be from 1 to 16")
    split = topology == "split"
    for name, given, wanted in (("x", x, split), ("y", y, split), ("scale", scale, not split)):
        if given is not None and not wanted:
            raise InputError(f"{name} = {given}: not read for a {topology}")
    if split and x is None and y is None:
        raise InputError('x, y = none: a split has parts, such as x = "ring:3*1,all:3*1"')
    request = {
        "mesh": mesh, "ports": ports, "ocs": ocs, "global_ocs": global_ocs,
        "named": None if split else topology, "scale": None if scale is None else _scale(scale),
        "x": x, "y": y,
        "share": "uneven" if uneven else "balanced", "measures": measures, "maps": maps,
        "check": None if check_routing is None else {"routing": check_routing, "vcs": vcs},
    }  # fmt: skip
    with CoreErrors():
        answer = json.loads(_core.railx_build(json.dumps(request)))
    return _built(topology, answer)


def _built(topology: str, answer: dict[str, Any]) -> Built:
    grid = answer["grid"]
    formulas = None if answer["formulas"] is None else Formulas(**answer["formulas"])
    measures = None if answer["measures"] is None else Measures(**answer["measures"])
    maps, checked = answer["maps"], answer["checked"]
    built = Built(
        topology=topology, mesh=grid["mesh"], ports=grid["ports"], ocs=grid["radix"],
        global_ocs=grid.get("global_radix", grid["radix"]), columns=grid["columns"],
        rows=grid["rows"], dimensions=answer["dimensions"], formulas=formulas,
        checked=None if checked is None else Checked(**checked),
        _measures=measures, _maps=None if maps is None else [Switch(**switch) for switch in maps],
        **{name: answer[name] for name in
           ("chips", "nodes", "rails", "switches", "dark_switches", "circuits")},
    )  # fmt: skip
    built.notes.extend(_notes(built, measures))
    return built


def _notes(built: Built, measures: Measures | None) -> list[str]:
    """Say where a figure is not what it seems, or departs from the paper's."""
    notes = []
    if built.dark_switches and built.nodes > 1:
        notes.append(
            f"{built.dark_switches:,} of {built.switches:,} switches are dark: rails beyond the "
            "last whole set, so that all pairs have equally many circuits"
        )
    if built.formulas is not None and built.chips < built.formulas.chips:
        notes.append(
            f"Table 2's scale is {built.formulas.chips:,} chips; this is set on {built.chips:,}"
        )
    if built.topology == "torus":
        notes.append(
            "Table 2 prints R hops; a ring of R/2 nodes is R/4 across, so two make R/2. After an "
            "X-rail packets are in the outer mesh columns, whose Y-rails are then the nearest"
        )
    if built.topology == "hyperx":
        notes.append("2n/m is 2(r + 1)/m^2 rounded: that, at r + 1 nodes a line, is the cut")
    if built.topology == "dragonfly":
        notes.append(
            "2n/m counts global circuits alone: a packet takes local rails before and after, which "
            "leaves about n/m"
        )
    if measures is None:
        return notes
    if built.topology == "dragonfly" and measures.diameter == 2:
        notes.append("the groups are joined so often that two hops reach every node")
    if not measures.bisection_exact:
        notes.append("bisection: the thinnest cut that was found; a thinner one may exist")
    if not measures.diameter_exact:
        notes.append("diameter: at least so much; not every node was a source")
    even, nearest = measures.throughput(even=True), measures.throughput()
    if even is not None and nearest is not None and nearest < 0.97 * even:
        notes.append(
            f"the nearest exit loads rails unevenly: {nearest / even:.0%} of what they could carry"
        )
    if measures.rail_load is None:
        notes.append("throughput by channels: not worked out, as there are too many chips")
    return notes


def _scale(text: str) -> list[int]:
    found = re.fullmatch(r"(\d{1,6})x(\d{1,6})", text.strip())
    if found is None:
        raise InputError(f"scale = {text}: must be columns x rows of nodes, such as 9x9")
    return [int(found[1]), int(found[2])]
