"""Networks that RailX is compared with, as routers under a load.

Each says what the engine is asked for, and the load at which its busiest channel is full under
uniform traffic if nothing ever waits. `lightloom.railx.flits.simulate` runs them.

Modelled: tori, fat-trees of any taper, HammingMesh with one tier of switches a line, rail-only with
one tier in either dimension. Links side by side between two chips are one that is as wide; a chip
with several links to switches has one to each.
A chip sends and takes over `lanes`, each with its share of what it may inject and eject: in a cycle
a router moves one flit from an input, or as many as its widest channel is wide, so that one queue
does not fill eight narrow ports.
Checked: bounds against the loads of every channel, every pair of chips walked.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import prod
from typing import Any


@dataclass(frozen=True)
class Torus:
    """A torus of any number of dimensions; packets cross them in order, over datelines.

    Attributes
    ----------
    sides
        Chips along each dimension.
    width, delay
        Flits a cycle and cycles of a channel.
    lanes
        Of a chip.
    """

    sides: tuple[int, ...] = (6, 6, 6, 6)
    width: int = 1
    delay: int = 10
    lanes: int = 8
    routing: str = "dimension-order"

    def request(self) -> dict[str, Any]:
        """Return what the engine is asked for."""
        return _request("torus", self)

    @property
    def bound(self) -> float:
        """Flits a cycle and chip, at most.

        Examples
        --------
        >>> round(Torus((6, 6, 6, 6)).bound, 3), round(Torus((36, 36), width=2).bound, 3)
        (1.332, 0.444)
        """
        chips = prod(self.sides)
        loads = [
            sum(min(step, side - step) for step in range(side)) / 2 / side for side in self.sides
        ]
        return self.width / (max(loads) * chips / (chips - 1))


@dataclass(frozen=True)
class FatTree:
    """Fat-trees, as many as a chip has parents; up by ways drawn at random, and down.

    Attributes
    ----------
    children
        Of a switch, tier by tier from the leaves on.
    parents
        Of a chip, then of a switch of each tier below.
    width, delay
        Flits a cycle and cycles of a channel.
    lanes
        Of a chip.
    routing
        ``random``, or ``adaptive``: another way if the one that was drawn has no room.
    """

    children: tuple[int, ...] = (24, 54)
    parents: tuple[int, ...] = (8, 24)
    width: int = 1
    delay: int = 10
    lanes: int = 8
    routing: str = "random"

    def request(self) -> dict[str, Any]:
        """Return what the engine is asked for."""
        return _request("fat-tree", self)

    @property
    def bound(self) -> float:
        """Flits a cycle and chip, at most.

        Examples
        --------
        >>> FatTree((24, 54), (8, 24)).bound, round(FatTree((48, 27), (8, 16)).bound, 3)
        (8.0, 2.767)
        """
        chips = prod(self.children)
        below, ways, loads = 1, 1, []
        for children, parents in zip(self.children, self.parents, strict=True):
            ways *= parents
            loads.append(below * (chips - below) / (chips - 1) / ways)
            below *= children
        return self.width / max(loads)


@dataclass(frozen=True)
class HammingMesh:
    """Boards with a mesh of chips; lines of chips leave them at both ends, to a switch a plane.

    Attributes
    ----------
    board
        Chips along a side of a board.
    columns, rows
        Boards.
    planes
        Links of a chip in each direction, and switches of a line.
    short_delay, long_delay
        Cycles on a board and to a switch.
    lanes
        Of a chip.
    """

    board: int = 4
    columns: int = 9
    rows: int = 9
    planes: int = 2
    short_delay: int = 1
    long_delay: int = 10
    lanes: int = 8
    routing: str = "dimension-order"

    def request(self) -> dict[str, Any]:
        """Return what the engine is asked for."""
        return _request("hamming-mesh", self)

    @property
    def bound(self) -> float:
        """Flits a cycle and chip, at most.

        Examples
        --------
        >>> round(HammingMesh().bound, 3)
        1.124
        """
        side, planes = self.board, self.planes
        sides = [side * self.columns, side * self.rows]
        each = 1 / (prod(sides) - 1)  # of a chip's flits, to each other chip
        loads = []
        for length in sides:
            line = each * prod(sides) / length  # from a chip to each place along the line
            away, reach = length - side, range(side)
            # Share of what leaves or enters at a place that does so by the + end.
            plus = [(0.0, 0.5, 1.0)[1 + (2 * at > side - 1) - (2 * at < side - 1)] for at in reach]
            loads.append(sum(plus) * line * away / planes)
            for at in range(side - 1):
                local = (at + 1) * (side - at - 1)
                out = sum(plus[: at + 1]) + sum(1 - share for share in plus[at + 1 :])
                loads.append(line * (local + away * out) / planes)
        return 1 / max(loads)


@dataclass(frozen=True)
class RailOnly:
    """Chips on the switches of their node, and on those of their rail, one of which is a rank's.

    Attributes
    ----------
    nodes, chips
        How many, and chips of each.
    inside, rails
        Switches of a node and of a rail: links of a chip in either dimension.
    inside_width, rail_width, short_delay, long_delay
        Flits a cycle and cycles of a link to either.
    lanes
        Of a chip.
    """

    nodes: int = 36
    chips: int = 36
    inside: int = 4
    rails: int = 4
    inside_width: int = 1
    rail_width: int = 1
    short_delay: int = 1
    long_delay: int = 10
    lanes: int = 8
    routing: str = "dimension-order"

    def request(self) -> dict[str, Any]:
        """Return what the engine is asked for."""
        return _request("rail-only", self)

    @property
    def bound(self) -> float:
        """Flits a cycle and chip, at most.

        Examples
        --------
        >>> round(RailOnly().bound, 3)
        4.111
        """
        chips = self.nodes * self.chips
        across = (chips - self.nodes) / (chips - 1) / (self.inside * self.inside_width)
        along = (chips - self.chips) / (chips - 1) / (self.rails * self.rail_width)
        return 1 / max(across, along)


def _request(kind: str, network: Torus | FatTree | HammingMesh | RailOnly) -> dict[str, Any]:
    settings = asdict(network)
    routing = settings.pop("routing")
    return {"network": {"kind": kind, **settings}, "routing": routing}
