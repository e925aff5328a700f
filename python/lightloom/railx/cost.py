"""What a network of chips costs: RailX's Tables 3 and 6, and all systems at one size.

Parts are counted in `lightloom.railx.systems`; prices are a preset. Ignored: fibre, power, racks
and spare parts, as in RailX, Section 6.2. Checked: every cell of both tables but those of
`DEPARTURES`, and no other.

Examples
--------
>>> row = table6()[7]
>>> row.name, row.paper["musd"], row.printed("musd"), row.printed("per_bandwidth")
('RailX4Mesh', '751.1', '751.1', '0.45')
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Any

from lightloom import presets
from lightloom.errors import InputError
from lightloom.presets import unknown
from lightloom.railx.systems import (
    CUBE,
    System,
    fat_tree,
    hamming_mesh,
    rail_only,
    railx,
    torus,
)

PRICES = "railx-table-6"
"""The list of prices unless another is named."""
COLUMNS = (
    "chips", "switches", "copper_k", "transceivers_k", "musd", "per_injection", "bandwidth",
    "per_bandwidth",
)  # fmt: skip
"""Of Table 6, in its order; `bandwidth` is in percent, `per_...` relative to the first row."""

# RailX, Table 6: its name of a row, and the cells as printed.
_PAPER = {
    "2-Tier Nonbl. FT": "2048 3456 0 294.9 415.9 1 100 1",
    "1:3 Tap. 2-Tier FT": "3072 2880 0 294.9 395.7 0.65 33.3 1.90",
    "Hx4Mesh (1-Tier FT)": "16384 2304 0 294.9 375.6 0.11 12.5 0.90",
    "Hx7Mesh (1-Tier FT)": "50176 4032 0 516.1 657.2 0.06 7.1 0.91",
    "3D-Torus w/ OCS": "4096 288 30.7 36.9 185.7 0.22 4.2 5.52",
    "3D Torus w/o OCS": "4096 0 30.7 36.9 45.0 0.05 4.2 1.46",
    "Rail-Only (2D FT)": "4096 2304 0 294.9 375.6 0.45 50 0.90",
    "RailX4Mesh": "65536 4608 0 589.8 751.1 0.06 12.5 0.45",
    "RailX7Mesh": "200704 8064 0 1032.2 1314.4 0.03 7.1 0.45",
    "4-Tier Nonbl. FT": "196608 774144 0 56623 83718 2.10 100 2.10",
    "1:7:49 Tap. 3-Tier FT": "200704 149760 0 16810 22052 0.54 2.0 26.5",
    "Hx7Mesh (2-Tier FT)": "200704 48384 0 4128 5822 0.14 7.1 2.01",
}
_OCS_ERROR = "the printed cost has 4032 switches instead of 288"
_TORUS_ERROR = "30,720 cables at $250 and 36,864 transceivers at $1000 are 44.5 M$"
DEPARTURES: Mapping[tuple[str, str], str] = {
    ("1:3 Tap. 2-Tier FT", "per_injection"): "395.7 / 3072 is 0.63 of 415.9 / 2048",
    ("Hx7Mesh (1-Tier FT)", "per_bandwidth"): "0.0645 over 1/14 is 0.903; over 7.1 % it is 0.91",
    ("3D-Torus w/ OCS", "musd"): _OCS_ERROR,
    ("3D-Torus w/ OCS", "per_injection"): _OCS_ERROR,
    ("3D-Torus w/ OCS", "per_bandwidth"): _OCS_ERROR,
    ("3D Torus w/o OCS", "musd"): _TORUS_ERROR,
    ("3D Torus w/o OCS", "per_bandwidth"): "follows from neither 44.5 nor 45.0 M$",
    ("Hx7Mesh (2-Tier FT)", "transceivers_k"): "4128.768, cut off instead of rounded",
    ("Hx7Mesh (2-Tier FT)", "per_bandwidth"): "1/7 over 1/14 is 2.00; over 7.1 % it is 2.01",
}
"""Cells of Table 6 that do not follow from the paper's own prices, and why: row, column."""


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

    def price(self, system: System) -> float:
        """Return the price of all parts of a system [US dollars].

        Examples
        --------
        >>> Components.load().price(railx(4))
        751104000.0
        """
        return (
            system.switches * self.switch_usd
            + system.optical_switches * self.ocs_usd
            + system.copper_cables * self.copper_usd
            + system.transceivers * self.transceiver_usd
        )


@dataclass(frozen=True)
class Row:
    """A system priced, relative to a first one.

    Attributes
    ----------
    name
        Its name in a table.
    usd
        Of all parts [US dollars].
    per_injection, per_bandwidth
        Cost over what all chips inject, and over the uniform bandwidth, both relative.
    share
        Global bandwidth over injection; that of `system` unless the paper's differs.
    paper
        The cells of Table 6 as printed, by column; none where the row is not in it.
    """

    name: str
    system: System
    usd: float
    per_injection: float
    per_bandwidth: float
    share: Fraction
    notes: tuple[str, ...] = ()
    paper: Mapping[str, str] = field(default_factory=dict)

    @property
    def values(self) -> dict[str, float]:
        """The columns of Table 6, in its units."""
        system = self.system
        return {
            "chips": system.chips,
            "switches": system.switches + system.optical_switches,
            "copper_k": system.copper_cables / 1e3,
            "transceivers_k": system.transceivers / 1e3,
            "musd": self.usd / 1e6,
            "per_injection": self.per_injection,
            "bandwidth": 100 * float(self.share),
            "per_bandwidth": self.per_bandwidth,
        }

    def printed(self, column: str) -> str:
        """Return a figure with as many decimals as the paper prints there."""
        value = self.values[column]
        if column not in self.paper:
            digits = {"chips": 0, "switches": 0, "per_injection": 3, "per_bandwidth": 3}
            return f"{value:,.{digits.get(column, 1)}f}"
        return f"{value:.{len(self.paper[column].partition('.')[2])}f}"

    @property
    def departures(self) -> dict[str, str]:
        """The columns that differ from what the paper prints, and why, as far as that is known."""
        return {
            column: DEPARTURES.get((self.name, column), "is not explained")
            for column in self.paper
            if self.printed(column) != self.paper[column]
        }

    def as_json(self) -> dict[str, Any]:
        """Return all that is known of the row."""
        system = self.system
        return {
            "name": self.name, "system": system.name, "chips": system.chips,
            "packet_switches": system.switches, "optical_switches": system.optical_switches,
            "copper_cables": system.copper_cables, "transceivers": system.transceivers,
            "cost_usd": self.usd, "cost_per_injection": self.per_injection,
            "global_bandwidth": float(self.share), "uniform": float(system.uniform),
            "cut": float(system.cut),
            "cost_per_bandwidth": self.per_bandwidth, "paper": dict(self.paper) or None,
            "departures": self.departures, "notes": list(self.notes),
        }  # fmt: skip


def table6(components: Components | None = None) -> list[Row]:
    """Return the rows of RailX's Table 6, which are also Table 3's; the first is what 1x means.

    Parameters
    ----------
    components
        Prices; the paper's if None. With others, a row has no cells of the paper beside it.

    Raises
    ------
    InputError
        If a switch has not as many ports as the paper's.

    Examples
    --------
    >>> [row.name for row in table6() if row.departures][:2]
    ['1:3 Tap. 2-Tier FT', 'Hx7Mesh (1-Tier FT)']
    """
    own = Components.load()
    prices = components or own
    for key in ("switch_ports", "ocs_ports"):
        if getattr(prices, key) != getattr(own, key):
            raise InputError(
                f"{key} = {getattr(prices, key)}: the paper's systems have {getattr(own, key)}; "
                "choose a number of chips"
            )
    systems = (
        fat_tree(tiers=2), fat_tree(tiers=2, taper=3), hamming_mesh(4), hamming_mesh(7),
        torus(ocs=128), torus(), rail_only(), railx(4), railx(7), fat_tree(196_608, tiers=4),
        fat_tree(tiers=3, taper=7), hamming_mesh(7, 64, tiers=2),
    )  # fmt: skip
    rows: list[Row] = []
    for (name, printed), system in zip(_PAPER.items(), systems, strict=True):
        share, notes = system.uniform, system.notes
        if name.startswith("3D"):  # the paper gives their cut
            share = system.cut
        if name == "RailX4Mesh":  # 12.5 % is a HyperX's, which has fewer nodes
            share = Fraction(1, 8)
            notes = tuple(f"{note}; 12.5 % is out of reach at this size" for note in notes)
        cells = dict(zip(COLUMNS, printed.split(), strict=True)) if prices == own else {}
        first = rows[0] if rows else None
        rows.append(_row(name, system, prices, first, share, notes, cells))
    return rows


def at_scale(
    chips: int,
    *,
    meshes: Sequence[int] = (4, 7),
    ports: int = 36,
    components: Components | None = None,
) -> tuple[list[Row], list[str]]:
    """Price every system at one size: the smallest of each that has so many chips.

    Parameters
    ----------
    chips
        How many at least.
    meshes
        Sides of a board of HammingMesh and of a node of RailX.
    ports
        Of a chip; a multiple of 12, so that all can share them evenly.
    components
        Prices, and the ports of switches; the paper's if None.

    Returns
    -------
    rows : list of Row
        The first is the non-blocking fat-tree, which is what 1x means.
    without : list of str
        Why the other systems do not reach the size.

    Raises
    ------
    InputError
        If a number cannot be used.

    Examples
    --------
    >>> rows, without = at_scale(100_000)
    >>> [(row.name, row.system.chips) for row in rows][-1]
    ('RailX7Mesh', 103684)
    >>> without[-1]
    'RailX4Mesh: side = 80: must be 2 to 64 nodes at 128 ports a switch'
    """
    prices = components or Components.load()
    if not 64 <= chips <= 10**8:
        raise InputError(f"chips = {chips}: must be 64 to {10**8:,}")
    if not 12 <= ports <= 1 << 10 or ports % 12:
        raise InputError(f"ports = {ports}: must be a multiple of 12, at most {1 << 10}")
    for mesh in meshes:
        if not 1 <= mesh <= 64:
            raise InputError(f"mesh = {mesh}: must be 1 to 64 chips a side")
    radix, ocs = prices.switch_ports, prices.ocs_ports
    side = _root(chips, 2)
    cubes = _cubes(chips)

    shape: dict[str, int] = {"ports": ports, "radix": radix}
    trees: list[tuple[str, partial[System]]] = [
        ("fat-tree", partial(fat_tree, chips, **shape)),
        ("fat-tree, 1:3", partial(fat_tree, chips, taper=3, **shape)),
        ("rail-only", partial(rail_only, side, **shape)),
    ]
    for mesh in meshes:
        boards = max(2, -(-side // mesh))
        trees.append((f"Hx{mesh}Mesh", partial(hamming_mesh, mesh, boards, **shape)))
    tries = [(name, partial(_fewest_tiers, build)) for name, build in trees]
    tries += [
        ("3D torus without OCS", partial(torus, *cubes, ports=ports)),
        ("3D torus with OCS", partial(torus, *cubes, ports=ports, ocs=ocs)),
    ]
    for mesh in meshes:
        nodes = max(2, -(-side // mesh))
        tries.append((f"RailX{mesh}Mesh", partial(railx, mesh, nodes, ports=ports, ocs=ocs)))
    rows: list[Row] = []
    without = []
    for name, build in tries:
        try:
            system = build()
        except InputError as error:
            without.append(f"{name}: {error}")
            continue
        rows.append(_row(system.name, system, prices, rows[0] if rows else None))
    return rows, without


def _row(
    name: str,
    system: System,
    prices: Components,
    first: Row | None,
    share: Fraction | None = None,
    notes: tuple[str, ...] | None = None,
    paper: Mapping[str, str] | None = None,
) -> Row:
    share = system.uniform if share is None else share
    usd = prices.price(system)
    injection = bandwidth = 1.0
    if first is not None and first.usd:
        injection = (usd / system.chips) / (first.usd / first.system.chips)
        bandwidth = injection * float(first.share / share)
    notes = system.notes if notes is None else notes
    return Row(name, system, usd, injection, bandwidth, share, notes, paper or {})


def _fewest_tiers(build: partial[System]) -> System:
    """Build with as few tiers as reach; what is wrong with six is wrong with any."""
    for tiers in range(2 if "taper" in build.keywords else 1, 6):
        try:
            return build(tiers=tiers)
        except InputError:
            continue
    return build(tiers=6)


def _root(number: int, power: int) -> int:
    """Return the least integer whose power is not below a number."""
    root: int = round(number ** (1 / power))
    return root if int(root**power) >= number else root + 1


def _cubes(chips: int) -> tuple[int, int, int]:
    """Return the sides of the torus of fewest cubes, as nearly a cube as they allow."""
    cubes = -(-chips // CUBE**3)
    a = _root(cubes, 3)
    b = _root(-(-cubes // a), 2)
    c = -(-cubes // (a * b))
    return CUBE * a, CUBE * b, CUBE * c


def _price(key: str, value: Any) -> float | int:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if key.endswith("_ports"):
        if not isinstance(value, int) or not number or not 2 <= value <= 1 << 20 or value % 2:
            raise InputError(f"{key} = {value}: must be an even number of ports, 2 or more")
        return int(value)
    if not number or not math.isfinite(value) or value < 0:
        raise InputError(f"{key} = {value}: must be a price in US dollars, 0 or more")
    return float(value)
