"""Networks of chips: switches, copper cables and transceivers, counted from the network's shape.

Modelled: fat-trees, HammingMesh, 3D tori with and without optical switches, rail-only and RailX,
each as in RailX's Tables 3 and 6. A link of packet switches has a transceiver at either end; an
optical switch has none, so that a circuit has those of its two chips alone. Links inside a node, a
board or a package are free. A switch serves one tree, or one rail of one line, and is bought whole.
Ignored: fibre, racks.

Bandwidth between all chips is a share of what they can inject. `uniform` is the throughput under
uniform traffic; `cut` is the thinnest cut into halves over what one half injects. Every packet is
taken to cross every dimension, as if nothing stayed in a line: a little too low for small networks.

Checked: counts and cuts against small networks wired link by link; RailX's against the circuits
that `lightloom.railx.topology` sets.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from lightloom.errors import InputError

CUBE = 4
"""Chips along a side of a torus's block, wired by copper (TPU v4)."""
BOARD = 2
"""Chips along a side of a torus's board, wired on the board."""
TWICE = (4, 6)
"""Nodes that one ring less does not join all to all (RailX, Lemma 3.1), but twice as many do, each
pair twice; tests ask the core whether it is so."""
MOST = 10**7
"""Chips along a side, or ports, at most."""


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
        raise InputError(f"chips = {chips}: must be 2 to {most} on {tiers} tiers of {radix} ports")
    switches, links = _tree(chips, tiers, taper, radix)
    share = Fraction(1, taper ** (tiers - 1))
    steps = ":".join(str(taper**tier) for tier in range(tiers))
    kind = "" if taper == 1 else f", {steps}"
    return System(
        f"{tiers}-tier fat-tree{kind}", chips, ports * switches, 0, 0, 2 * ports * links,
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
        f"Hx{mesh}Mesh, {tiers}-tier", (mesh * boards) ** 2, lines * switches, 0, 0,
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
        f"rail-only, {tiers}-tier", side**2, lines * switches, 0, 0, 2 * lines * links,
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
    reach, split into two dimensions that are; that of a torus where it cannot be split. Rails
    beyond the last whole set are not counted.

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
    notes = []
    if parts != (side,):
        how = "as " + " x ".join(map(str, parts)) if parts else "as rings"
        but = f", but {side} take {_rings(side)}" if side <= rails else ""
        notes.append(
            f"{rails} rails join up to {rails + 1} nodes of a line all to all{but}; "
            f"lines of {side} are joined {how}"
        )
    # A node sends on both ends of a rail and has `ports` m^2 ports in all.
    uniform = 2 * used / (mesh**2 * ports)
    return System(
        f"RailX{mesh}Mesh", (mesh * side) ** 2, 0, 2 * side * rails, 0, 4 * rails * side**2,
        uniform, uniform / 2, tuple(notes),
    )  # fmt: skip


def _hyperx(side: int, rails: int) -> tuple[tuple[int, ...], Fraction]:
    """Return the all-to-all dimensions of a line, none for a ring, and the rails each can fill."""
    if _filled(side, rails):
        return (side,), Fraction(_filled(side, rails))
    # A ring is a quarter of its length across: so many rails of an all-to-all are worth as much.
    best: tuple[tuple[int, ...], Fraction] = ((), Fraction(4 * rails, side))
    for first in range(2, math.isqrt(side) + 1):
        second, left = divmod(side, first)
        if left:
            continue
        for given in range(rails):
            used = Fraction(min(_filled(first, given), _filled(second, rails - given)))
            if used > best[1]:
                best = (second, first), used
    return best


def _filled(scale: int, rails: int) -> int:
    return rails // _rings(scale) * _rings(scale)


def _rings(scale: int) -> int:
    return (scale - 1) * (2 if scale in TWICE else 1)


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
