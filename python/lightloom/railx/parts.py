"""What the networks of RailX's Section 6.2 are made of, counted from their shapes.

A chip has some ports to the outside, all of one rate. Counted: switches, passive copper cables,
transceivers (two an optical link between electrical ends, one a port of an optical switch, which
has none of its own). Left out, as there: links inside a package or on a board, fibre, racks, power.

Bandwidths are shares of what the chips inject, for large systems, both with the same definition for
every network: ``cut``, what crosses the thinnest cut into halves over what one half injects;
``uniform``, the throughput of uniform traffic that links allow.

Checked: every count against RailX, Table 6.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from lightloom.errors import InputError


class Tree(NamedTuple):
    """A tree of switches: how many, and the links from its endpoints upward."""

    switches: int
    links: int


@dataclass(frozen=True)
class Parts:
    """A network.

    Attributes
    ----------
    chips
        How many it joins.
    ports
        Of a chip, to the outside.
    packet_switches, optical_switches, copper_cables, transceivers
        Counts.
    cut, uniform
        Shares of injection, from 0 to 1.
    """

    name: str
    chips: int
    ports: int
    packet_switches: int
    optical_switches: int
    copper_cables: int
    transceivers: int
    cut: float
    uniform: float
    note: str = ""

    @property
    def switches(self) -> int:
        """Switches of either kind."""
        return self.packet_switches + self.optical_switches


def tree(endpoints: int, radix: int, tapers: tuple[int, ...] = ()) -> Tree:
    """Count a tree of switches of `radix` ports.

    Parameters
    ----------
    endpoints
        Ports below it.
    radix
        Ports of a switch.
    tapers
        Of each tier but the top one, ports down over ports up; without, the fewest tiers that
        block nothing.

    Raises
    ------
    InputError
        If a taper does not divide the ports of a switch.

    Examples
    --------
    >>> tree(2048, 64)
    Tree(switches=96, links=4096)
    >>> tree(3072, 64, (3,))
    Tree(switches=80, links=4096)
    """
    if not tapers:
        tiers, most = 1, radix
        while most < endpoints:
            tiers, most = tiers + 1, most * radix // 2
        tapers = (1,) * (tiers - 1)
    switches, links, incoming = 0, 0, endpoints
    for taper in tapers:
        if radix % (taper + 1):
            raise InputError(f"taper = {taper}: {radix} ports cannot be split {taper} to 1")
        up = radix // (taper + 1)
        count = -(-incoming // (radix - up))
        switches, links, incoming = switches + count, links + incoming, count * up
    return Tree(switches + -(-incoming // radix), links + incoming)


def fat_tree(chips: int, ports: int, radix: int, tapers: tuple[int, ...] = ()) -> Parts:
    """Count a fat-tree a port of the chips.

    Examples
    --------
    >>> found = fat_tree(2048, 36, 64)
    >>> found.packet_switches, found.transceivers, found.cut
    (3456, 294912, 1.0)
    """
    plane = tree(chips, radix, tapers)
    share = 1.0
    for taper in tapers:
        share /= taper
    return Parts(
        "fat-tree", chips, ports, ports * plane.switches, 0, 0, 2 * ports * plane.links,
        share, share,
    )  # fmt: skip


def hamming_mesh(mesh: int, ports: int, radix: int, columns: int, rows: int) -> Parts:
    """Count a HammingMesh of `columns` x `rows` boards of `mesh` x `mesh` chips.

    Each line of chips has a tree of switches, with both ends of the line on every board, in each
    plane; there is a plane for every four `ports`.

    Examples
    --------
    >>> found = hamming_mesh(4, 36, 64, 32, 32)
    >>> found.chips, found.packet_switches, found.transceivers
    (16384, 2304, 294912)
    """
    planes = _quarter(ports)
    row, column = tree(2 * columns, radix), tree(2 * rows, radix)
    switches = planes * mesh * (rows * row.switches + columns * column.switches)
    links = planes * mesh * (rows * row.links + columns * column.links)
    # Half of a line's ends can be heard by the other half; a board has m ends a plane and side.
    share = 1 / (2 * mesh)
    chips = columns * rows * mesh**2
    return Parts("HammingMesh", chips, ports, switches, 0, 0, 2 * links, share, share)


def torus(side: int, ports: int, optical_ports: int | None = None, cube: int = 4) -> Parts:
    """Count a 3D torus of `side`^3 chips in cubes of `cube`^3, made of boards of 2 x 2 chips.

    Parameters
    ----------
    optical_ports
        Of the switches that join the cubes, each with the two ends of a line of every cube; None
        for cables.

    Examples
    --------
    >>> found = torus(16, 36, 128)
    >>> found.optical_switches, found.copper_cables, found.transceivers
    (288, 30720, 36864)
    """
    if ports % 6 or side % cube or cube % 2:
        raise InputError(f"torus of side {side}: must be of whole cubes of 2 x 2 boards, 6 n ports")
    width, cubes = ports // 6, (side // cube) ** 3
    inside = 3 * cube**2 * (cube - 1)
    on_boards = cube**3  # four links for four chips
    faces = 6 * cube**2 * cubes * width
    switches = 0
    if optical_ports is not None:
        if optical_ports < 2 * cubes:
            raise InputError(
                f"torus of side {side}: its {cubes} cubes need optical switches of "
                f"{2 * cubes} ports"
            )
        switches = 3 * cube**2 * width
    # 2 side^2 links cross each way; half of the chips have 6 ports each.
    cut = 2 * side**2 / (side**3 / 2 * 6)
    name = "3D torus" if optical_ports is None else "3D torus, optical switches"
    copper = (inside - on_boards) * cubes * width
    return Parts(name, side**3, ports, 0, switches, copper, faces, cut, 2 * cut)


def rail_only(side: int, ports: int, radix: int) -> Parts:
    """Count a 2D fat-tree of `side`^2 chips: a tree a line of chips, half the ports each way.

    Examples
    --------
    >>> rail_only(64, 36, 64).packet_switches
    2304
    """
    line = tree(side, radix)
    lines = 2 * side * (ports // 2)
    return Parts(
        "rail-only", side**2, ports, lines * line.switches, 0, 0, 2 * lines * line.links, 0.5, 0.5
    )


def railx(mesh: int, ports: int, ocs: int, columns: int, rows: int) -> Parts:
    """Count a RailX of `columns` x `rows` nodes of `mesh` x `mesh` chips.

    Bandwidths are those of a HyperX; the note says where the nodes are too many for one.

    Examples
    --------
    >>> found = railx(7, 36, 128, 64, 64)
    >>> found.chips, found.optical_switches, found.transceivers
    (200704, 8064, 1032192)
    >>> railx(4, 36, 128, 64, 64).note
    'a HyperX of 36 rails joins at most 37 x 37 nodes, 21,904 chips: no topology of 64 x 64 nodes \
reaches these bandwidths'
    """
    rails = mesh * _quarter(ports)
    for key, value in (("columns", columns), ("rows", rows)):
        if not 1 <= value <= ocs // 2:
            raise InputError(
                f"{key} = {value}: must be from 1 to {ocs // 2}, as an optical switch of {ocs} "
                "ports holds so many nodes"
            )
    note = ""
    if max(columns, rows) > rails + 1:
        most = rails + 1
        note = (
            f"a HyperX of {rails} rails joins at most {most} x {most} nodes, "
            f"{most**2 * mesh**2:,} chips: no topology of {columns} x {rows} nodes reaches these "
            "bandwidths"
        )
    nodes = columns * rows
    return Parts(
        "RailX", nodes * mesh**2, ports, 0, rails * (columns + rows), 0, 4 * rails * nodes,
        1 / (4 * mesh), 1 / (2 * mesh), note,
    )  # fmt: skip


def _quarter(ports: int) -> int:
    """Return the ports at each side of a chip."""
    if ports < 4 or ports % 4:
        raise InputError(
            f"ports = {ports}: must be a multiple of 4, as many on each side of a chip"
        )
    return ports // 4
