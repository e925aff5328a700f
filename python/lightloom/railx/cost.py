"""What a network of chips costs: switches, copper cables and transceivers, counted from its shape.

Modelled: fat-trees, HammingMesh, 3D tori with and without optical switches, rail-only and RailX,
each as in RailX's Tables 3 and 6. A link of packet switches has a transceiver at either end; an
optical switch has none, so that a circuit has those of its two chips alone. Links inside a node, a
board or a package are free. Ignored: fibre, power, racks, spare parts, and links left unused
because a size does not fill its switches.

Global bandwidth is a share of what all chips can inject. `uniform` is the throughput under uniform
traffic, which is what RailX's column says (1 / 2m for RailX and HammingMesh); `cut` is the thinnest
cut into halves. Every packet is taken to cross every dimension, so that traffic which stays in a
row counts as if it left: a little too little for small networks.

Checked: every cell of Tables 3 and 6 but those of `NOT_FOLLOWING`, counts against the circuits that
`lightloom.railx.topology` sets, and counts and cuts against small networks wired link by link.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from typing import Any

from lightloom import presets
from lightloom.errors import InputError
from lightloom.presets import unknown

PRICES = "railx-table-6"
"""The list of prices unless another is named."""
CUBE = 4  # chips along a side of a torus's block, wired by copper (TPU v4)
BOARD = 2  # chips along a side of a torus's board, wired on the board
MOST = 10**9  # chips; more is no network of this century


@dataclass(frozen=True)
class Components:
    """Prices of parts [US dollars] and the ports of a switch that costs so much."""

    name: str
    link_rate: str
    switch_ports: int
    switch_usd: float
    ocs_ports: int
    ocs_usd: float
    copper_usd: float
    transceiver_usd: float
    sources: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def load(cls, name: str = PRICES, given: Mapping[str, Any] | None = None) -> Components:
        """Read a preset, with some values of one's own.

        Raises
        ------
        InputError
            If there is no such preset or key, or a value is no price or number of ports.

        Examples
        --------
        >>> Components.load(given={"ocs_usd": 50_000}).ocs_usd
        50000.0
        """
        preset = presets.load("components", name)
        values = dict(preset.values["components"])
        sources = {key: preset.source(f"components.{key}") for key in values}
        keys = tuple(key for key in values if key.endswith(("_ports", "_usd")))
        for key, value in (given or {}).items():
            if key not in keys:
                raise InputError(f'"{key}": is no price{unknown(key, keys)}')
            values[key] = _price(key, value)
            sources[key] = "given"
        return cls(**values, sources=sources)


@dataclass(frozen=True)
class System:
    """A network: its parts, and its bandwidth between all chips as a share of their injection."""

    name: str
    chips: int
    switches: int
    optical_switches: int
    copper_cables: int
    transceivers: int
    uniform: Fraction
    cut: Fraction
    notes: tuple[str, ...] = ()

    def usd(self, components: Components) -> float:
        """Return the price of all parts [US dollars].

        Examples
        --------
        >>> railx(4).usd(Components.load())
        751104000.0
        """
        return (
            self.switches * components.switch_usd
            + self.optical_switches * components.ocs_usd
            + self.copper_cables * components.copper_usd
            + self.transceivers * components.transceiver_usd
        )


def fat_tree(
    chips: int | None = None, *, tiers: int, taper: int = 1, ports: int = 36, radix: int = 64
) -> System:
    """Return as many fat-trees as a chip has ports, each of `tiers` tiers of packet switches.

    Parameters
    ----------
    chips
        How many; as many as the tiers can join if None.
    tiers
        Of switches.
    taper
        Ports down for one up, at every tier but the last.
    ports, radix
        Of a chip; of a switch.

    Raises
    ------
    InputError
        If the tiers cannot join so many chips, or the radix cannot be split so.

    Examples
    --------
    >>> tree = fat_tree(tiers=2)
    >>> tree.chips, tree.switches, tree.transceivers
    (2048, 3456, 294912)
    """
    _whole("radix", radix, 2)
    if radix % (taper + 1):
        raise InputError(f"radix = {radix}: does not split {taper}:1; must divide by {taper + 1}")
    most = _tree_ends(tiers, taper, radix)
    chips = most if chips is None else chips
    if not 2 <= chips <= most:
        raise InputError(
            f"chips = {chips}: must be 2 to {most} on {tiers} tiers of {radix} ports"
        )
    switches, links = _tree(chips, tiers, taper, radix)
    share = Fraction(1, taper ** (tiers - 1))
    names = {1: "non-blocking", 2: f"1:{taper} tapered"}
    kind = names[1] if taper == 1 else f"{':'.join(str(taper**i) for i in range(tiers))} tapered"
    return System(
        f"{tiers}-tier fat-tree, {kind}", chips, ports * switches, 0, 0, 2 * ports * links,
        share, share,
    )  # fmt: skip


def hamming_mesh(
    mesh: int, boards: int | None = None, *, tiers: int = 1, ports: int = 36, radix: int = 64
) -> System:
    """Return HammingMesh: boards of mesh x mesh chips, and a fat-tree for each line of chips.

    Parameters
    ----------
    mesh
        Chips along a side of a board.
    boards
        Boards along a side of the grid; as many as the trees can join if None.
    tiers
        Of each line's fat-tree.
    ports, radix
        Of a chip (a quarter on each side: so many planes); of a switch.

    Raises
    ------
    InputError
        If `ports` is no multiple of four, or the trees cannot join so many boards.

    Examples
    --------
    >>> hamming_mesh(4).chips, hamming_mesh(4).switches
    (16384, 2304)
    """
    _whole("mesh", mesh, 1)
    planes = _divided("ports", ports, 4)
    most = _tree_ends(tiers, 1, radix) // 2
    boards = most if boards is None else boards
    if not 2 <= boards <= most:
        raise InputError(
            f"boards = {boards}: must be 2 to {most} a side on {tiers} tiers of {radix} ports"
        )
    # A line of chips on a row of boards leaves each board at both ends.
    switches, links = _tree(2 * boards, tiers, 1, radix)
    lines = 2 * mesh * boards * planes
    share = Fraction(1, 2 * mesh)
    return System(
        f"Hx{mesh}Mesh, {tiers}-tier trees", (mesh * boards) ** 2, lines * switches, 0, 0,
        2 * lines * links, share, share,
    )  # fmt: skip


def rail_only(
    side: int | None = None, *, tiers: int = 1, ports: int = 36, radix: int = 64
) -> System:
    """Return rail-only: a square of chips with fat-trees along each row and column.

    Parameters
    ----------
    side
        Chips along a side; as many as the trees can join if None.
    tiers
        Of each line's fat-trees.
    ports, radix
        Of a chip, half in either dimension; of a switch.

    Raises
    ------
    InputError
        If `ports` is odd, or the trees cannot join so many chips.

    Examples
    --------
    >>> rail_only().chips, rail_only().switches, float(rail_only().uniform)
    (4096, 2304, 0.5)
    """
    rails = _divided("ports", ports, 2)
    most = _tree_ends(tiers, 1, radix)
    side = most if side is None else side
    if not 2 <= side <= most:
        raise InputError(
            f"side = {side}: must be 2 to {most} chips on {tiers} tiers of {radix} ports"
        )
    switches, links = _tree(side, tiers, 1, radix)
    lines = 2 * side * rails
    return System(
        f"rail-only, {tiers}-tier trees", side**2, lines * switches, 0, 0, 2 * lines * links,
        Fraction(1, 2), Fraction(1, 2),
    )  # fmt: skip


def torus(
    x: int = 16, y: int = 16, z: int = 16, *, ports: int = 36, ocs: int | None = None
) -> System:
    """Return a 3D torus of cubes of 4 x 4 x 4 chips, 2 x 2 of them on a board.

    Links leave a board by copper and a cube by optics: from cube to cube, or through an optical
    switch for each place on a face, which joins all cubes (TPU v4).

    Parameters
    ----------
    x, y, z
        Chips along each side; multiples of 4.
    ports
        Of a chip; a sixth in each direction.
    ocs
        Ports of an optical switch; none are used if None.

    Raises
    ------
    InputError
        If `ports` is no multiple of six, a side is not made of cubes, or a switch cannot join them.

    Examples
    --------
    >>> torus().copper_cables, torus().transceivers, torus(ocs=128).optical_switches
    (30720, 36864, 288)
    """
    width = _divided("ports", ports, 6)
    for name, side in (("x", x), ("y", y), ("z", z)):
        if side < CUBE or side % CUBE:
            raise InputError(f"{name} = {side}: must be a multiple of {CUBE} chips")
    cubes = x * y * z // CUBE**3
    if ocs is not None and 2 * cubes > ocs:
        raise InputError(f"ocs = {ocs}: joins at most {ocs // 2} cubes; there are {cubes}")
    inside = 3 * (CUBE - 1) * CUBE**2
    on_boards = (CUBE // BOARD) ** 2 * CUBE * (2 * (BOARD - 1) * BOARD)
    face = CUBE**2
    switches = 0 if ocs is None else 3 * face * width
    longest = max(x, y, z)
    # 2 links a line cross the middle of the longest side; the mean distance there is a quarter.
    cut = Fraction(2 * 2, 6 * longest)
    name = "without OCS" if ocs is None else "with OCS"
    return System(
        f"3D torus {name}", x * y * z, 0, switches, cubes * (inside - on_boards) * width,
        cubes * 6 * face * width, 2 * cut, cut,
    )  # fmt: skip


def railx(mesh: int, side: int | None = None, *, ports: int = 36, ocs: int = 128) -> System:
    """Return RailX: a square grid of nodes of mesh x mesh chips, and a switch a rail of each line.

    The bandwidth is that of a HyperX: each line all to all or, where it has more nodes than rails
    reach, split into two dimensions that are. Rails beyond the last whole set are not counted.

    Parameters
    ----------
    mesh
        Chips along a side of a node (m).
    side
        Nodes along a side of the grid; as many as a switch can join if None.
    ports
        Of a chip; a quarter on each side (n).
    ocs
        Ports of an optical switch (R).

    Raises
    ------
    InputError
        If `ports` is no multiple of four, `ocs` is odd, or a switch cannot join so many nodes.

    Examples
    --------
    >>> grid = railx(7)
    >>> grid.chips, grid.optical_switches, grid.transceivers, grid.uniform
    (200704, 8064, 1032192, Fraction(1, 14))
    """
    _whole("mesh", mesh, 1)
    each = _divided("ports", ports, 4)
    most = _divided("ocs", ocs, 2)
    side = most if side is None else side
    if not 2 <= side <= most:
        raise InputError(f"side = {side}: must be 2 to {most} nodes at {ocs} ports a switch")
    rails = mesh * each
    parts, used = _hyperx(side, rails)
    uniform = Fraction(2 * used, mesh**2 * ports)
    notes = ()
    if len(parts) > 1:
        split = " x ".join(map(str, parts))
        notes = (
            f"RailX{mesh}Mesh: {rails} rails join at most {rails + 1} nodes a line all to all; "
            f"lines of {side} are split into {split}"
            if used
            else f"RailX{mesh}Mesh: {rails} rails join {side} nodes a line as rings only",
        )
    return System(
        f"RailX{mesh}Mesh", (mesh * side) ** 2, 0, 2 * side * rails, 0, 4 * rails * side**2,
        uniform, uniform / 2, notes,
    )  # fmt: skip


def _hyperx(side: int, rails: int) -> tuple[tuple[int, ...], int]:
    """Return how a line is made all to all, and the rails that each of its dimensions then has."""
    if side <= rails + 1:
        return (side,), rails // (side - 1) * (side - 1)
    best: tuple[tuple[int, ...], int] = ((side, 1), 0)
    for first in range(2, math.isqrt(side) + 1):
        second, left = divmod(side, first)
        if left:
            continue
        for given in range(first - 1, rails):
            used = min(
                given // (first - 1) * (first - 1), (rails - given) // (second - 1) * (second - 1)
            )
            if used > best[1]:
                best = ((second, first), used)
    return best


def _tree(ends: int, tiers: int, taper: int, radix: int) -> tuple[int, int]:
    """Return the switches and links of a tree over so many ends, each end's own link included."""
    switches, links = 0, 0
    up = radix // (taper + 1)
    for _ in range(tiers - 1):
        here = -(-ends // (radix - up))
        switches, links = switches + here, links + ends
        ends = here * up
    return switches + -(-ends // radix), links + ends


def _tree_ends(tiers: int, taper: int, radix: int) -> int:
    _whole("tiers", tiers, 1)
    _whole("taper", taper, 1)
    _whole("radix", radix, 2)
    return int((radix - radix // (taper + 1)) ** (tiers - 1) * radix)


def _whole(name: str, value: int, least: int) -> None:
    if not least <= value <= MOST:
        raise InputError(f"{name} = {value}: must be at least {least}")


def _divided(name: str, value: int, by: int) -> int:
    if value < by or value % by:
        raise InputError(f"{name} = {value}: must be a multiple of {by}")
    return value // by


def _price(key: str, value: Any) -> float | int:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if key.endswith("_ports"):
        if not isinstance(value, int) or not number or not 2 <= value <= 1 << 20 or value % 2:
            raise InputError(f"{key} = {value}: must be an even number of ports, 2 or more")
        return int(value)
    if not number or not math.isfinite(value) or value < 0:
        raise InputError(f"{key} = {value}: must be a price in US dollars, 0 or more")
    return float(value)
