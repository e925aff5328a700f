"""RailX's Tables 3 and 6: what networks cost, for what they inject and for what crosses them.

Parts are counted (`lightloom.railx.parts`) and priced; nothing but prices and the paper's own cells
is typed in. Costs over bandwidth are relative to the first network, the 2-tier fat-tree. Cells of
the paper that its own prices do not give are named in `DEPARTURES`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from lightloom import presets
from lightloom.errors import InputError
from lightloom.railx.parts import (
    Parts,
    fat_tree,
    hamming_mesh,
    rail_only,
    railx,
    torus,
)

PORTS = 36
Basis = Literal["cut", "uniform"]


@dataclass(frozen=True)
class Prices:
    """Prices of parts [US dollars], and the ports of switches."""

    packet_switch_usd: float
    packet_switch_ports: int
    optical_switch_usd: float
    optical_switch_ports: int
    copper_cable_usd: float
    transceiver_usd: float

    @classmethod
    def preset(cls, name: str = "railx") -> Prices:
        """Return a preset's.

        >>> Prices.preset().transceiver_usd
        1000.0
        """
        values = dict(presets.load("components", name).values["components"])
        del values["name"]
        return cls(**values)

    def of(self, parts: Parts) -> float:
        """Return what a network costs [US dollars].

        >>> Prices.preset().of(fat_tree(2048, 36, 64)) / 1e6
        415.872
        """
        return (
            parts.packet_switches * self.packet_switch_usd
            + parts.optical_switches * self.optical_switch_usd
            + parts.copper_cables * self.copper_cable_usd
            + parts.transceivers * self.transceiver_usd
        )


@dataclass(frozen=True)
class Row:
    """A network, priced.

    Attributes
    ----------
    basis
        Which of its two bandwidths the paper calls global.
    per_injection
        Cost over injected bandwidth, relative to the first network.
    paper
        The paper's cells as printed, by column; empty for a network that it does not have.
    """

    name: str
    parts: Parts
    cost_usd: float
    per_injection: float
    basis: Basis
    paper: Mapping[str, str]
    departures: Mapping[str, str]

    @property
    def global_share(self) -> float:
        """The bandwidth that the paper calls global, over injection."""
        return self.parts.cut if self.basis == "cut" else self.parts.uniform

    @property
    def per_global(self) -> float:
        """Cost over the paper's global bandwidth, relative to the first network."""
        return self.per_injection / self.global_share

    @property
    def per_uniform(self) -> float:
        """Cost over the throughput of uniform traffic, relative to the first network."""
        return self.per_injection / self.parts.uniform

    def value(self, column: str) -> float:
        """Return a cell in the paper's unit."""
        values = {
            "chips": self.parts.chips, "switches": self.parts.switches,
            "copper_k": self.parts.copper_cables / 1e3,
            "transceivers_k": self.parts.transceivers / 1e3, "cost_musd": self.cost_usd / 1e6,
            "per_injection": self.per_injection, "global_percent": 100 * self.global_share,
            "per_global": self.per_global,
        }  # fmt: skip
        return values[column]

    def cell(self, column: str) -> str:
        """Return a cell with as many digits as the paper prints."""
        digits = len(self.paper.get(column, "0.00").partition(".")[2])
        return f"{self.value(column):.{digits}f}"

    def as_json(self) -> dict[str, Any]:
        """Return everything, as plain values."""
        parts = self.parts
        return {
            "name": self.name, "chips": parts.chips, "ports": parts.ports,
            "packet_switches": parts.packet_switches, "optical_switches": parts.optical_switches,
            "copper_cables": parts.copper_cables, "transceivers": parts.transceivers,
            "cost_usd": self.cost_usd, "cost_per_injection": self.per_injection,
            "cut_share": parts.cut, "uniform_share": parts.uniform, "global_is": self.basis,
            "cost_per_global": self.per_global, "cost_per_uniform": self.per_uniform,
            "note": parts.note, "paper": dict(self.paper), "departures": dict(self.departures),
        }  # fmt: skip


COLUMNS = (
    "chips", "switches", "copper_k", "transceivers_k", "cost_musd", "per_injection",
    "global_percent", "per_global",
)  # fmt: skip
TABLE_3 = ("chips", "cost_musd", "per_injection", "global_percent", "per_global")
"""Columns that Table 3 has."""

# RailX, Table 6, as printed; Table 3 has the same figures.
PAPER: dict[str, tuple[str, ...]] = {
    "2-tier fat-tree": ("2048", "3456", "0", "294.9", "415.9", "1", "100", "1"),
    "1:3 tapered 2-tier fat-tree": ("3072", "2880", "0", "294.9", "395.7", "0.65", "33.3", "1.90"),
    "Hx4Mesh": ("16384", "2304", "0", "294.9", "375.6", "0.11", "12.5", "0.90"),
    "Hx7Mesh": ("50176", "4032", "0", "516.1", "657.2", "0.06", "7.1", "0.91"),
    "TPUv4 (3D torus, OCS)": ("4096", "288", "30.7", "36.9", "185.7", "0.22", "4.2", "5.52"),
    "3D torus": ("4096", "0", "30.7", "36.9", "45.0", "0.05", "4.2", "1.46"),
    "rail-only (2D fat-tree)": ("4096", "2304", "0", "294.9", "375.6", "0.45", "50", "0.90"),
    "RailX4Mesh": ("65536", "4608", "0", "589.8", "751.1", "0.06", "12.5", "0.45"),
    "RailX7Mesh": ("200704", "8064", "0", "1032.2", "1314.4", "0.03", "7.1", "0.45"),
    "4-tier fat-tree": ("196608", "774144", "0", "56623", "83718", "2.10", "100", "2.10"),
    "1:7:49 tapered 3-tier fat-tree": (
        "200704", "149760", "0", "16810", "22052", "0.54", "2.0", "26.5",
    ),
    "Hx7Mesh on 2-tier fat-trees": (
        "200704", "48384", "0", "4128", "5822", "0.14", "7.1", "2.01",
    ),
}  # fmt: skip

_OCS = "the paper's total needs 4,032 switches; it counts 288"
_TORUS = "its cables and transceivers give 44.5"
DEPARTURES: dict[tuple[str, str], str] = {
    ("1:3 tapered 2-tier fat-tree", "per_injection"): "395.7 / 3072 over 415.9 / 2048",
    ("Hx7Mesh", "per_global"): "exactly 0.903",
    ("TPUv4 (3D torus, OCS)", "cost_musd"): _OCS,
    ("TPUv4 (3D torus, OCS)", "per_injection"): _OCS,
    ("TPUv4 (3D torus, OCS)", "per_global"): _OCS,
    ("3D torus", "cost_musd"): _TORUS,
    ("3D torus", "per_global"): _TORUS,
    ("Hx7Mesh on 2-tier fat-trees", "transceivers_k"): "4,128,768: cut off, not rounded",
    ("Hx7Mesh on 2-tier fat-trees", "per_global"): "exactly 1.999",
}
"""Cells of the paper that do not follow from its own counts and prices, and why."""


def table6(prices: Prices | None = None) -> list[Row]:
    """Count and price every row of Tables 3 and 6: chips of 36 ports.

    Examples
    --------
    >>> row = table6()[8]
    >>> row.name, row.cell("cost_musd"), row.cell("per_injection"), row.cell("per_global")
    ('RailX7Mesh', '1314.4', '0.03', '0.45')
    """
    prices = prices or Prices.preset()
    k, ocs = prices.packet_switch_ports, prices.optical_switch_ports
    half, boards, nodes = k // 2, k // 2, ocs // 2
    last = nodes**2 * 49  # the scale of RailX7Mesh
    networks: list[tuple[Parts, Basis]] = [
        (fat_tree(half * k, PORTS, k), "cut"),
        (fat_tree(3 * k // 4 * k, PORTS, k, (3,)), "cut"),
        (hamming_mesh(4, PORTS, k, boards, boards), "uniform"),
        (hamming_mesh(7, PORTS, k, boards, boards), "uniform"),
        (torus(16, PORTS, ocs), "cut"),
        (torus(16, PORTS), "cut"),
        (rail_only(k, PORTS, k), "uniform"),
        (railx(4, PORTS, ocs, nodes, nodes), "uniform"),
        (railx(7, PORTS, ocs, nodes, nodes), "uniform"),
        (fat_tree(6 * half**3, PORTS, k), "cut"),
        (fat_tree(last, PORTS, k, (7, 7)), "cut"),
        (hamming_mesh(7, PORTS, k, nodes, nodes), "uniform"),
    ]
    return _rows([(name, *network) for name, network in zip(PAPER, networks, strict=True)], prices)


def compare(
    *, mesh: int, ports: int, ocs: int, columns: int, rows: int, prices: Prices | None = None
) -> list[Row]:
    """Price a RailX of one's own beside networks of at least as many chips of as many ports.

    Costs over bandwidth are relative to a fat-tree that blocks nothing.

    Parameters
    ----------
    mesh, ports, ocs
        Chips along a node's side, rail ports at an outer chip edge, ports of an optical switch.
    columns, rows
        Nodes.

    Raises
    ------
    InputError
        If a switch cannot hold so many nodes.

    Examples
    --------
    >>> [row.name for row in compare(mesh=4, ports=2, ocs=128, columns=9, rows=9)]
    ['2-tier fat-tree', 'RailX', 'Hx4Mesh', 'rail-only (2D fat-tree)']
    """
    prices = prices or Prices.preset()
    for key, value, most in (("mesh", mesh, 64), ("ports", ports, 256)):
        if not 1 <= value <= most:
            raise InputError(f"{key} = {value}: must be from 1 to {most}")
    if ocs % 2 or not 2 <= ocs <= 8192:
        raise InputError(f"ocs = {ocs}: must be even and from 2 to 8192")
    own = railx(mesh, 4 * ports, ocs, columns, rows)
    k, outside = prices.packet_switch_ports, 4 * ports
    side = math.isqrt(own.chips - 1) + 1
    tiers, most = 1, k
    while most < own.chips:
        tiers, most = tiers + 1, most * k // 2
    networks: list[tuple[str, Parts, Basis]] = [
        (f"{tiers}-tier fat-tree", fat_tree(own.chips, outside, k), "cut"),
        ("RailX", own, "uniform"),
        (f"Hx{mesh}Mesh", hamming_mesh(mesh, outside, k, columns, rows), "uniform"),
        ("rail-only (2D fat-tree)", rail_only(side, outside, k), "uniform"),
    ]
    return _rows(networks, prices)


def _rows(networks: Sequence[tuple[str, Parts, Basis]], prices: Prices) -> list[Row]:
    rows: list[Row] = []
    base = 0.0
    for name, parts, basis in networks:
        cost = prices.of(parts)
        each = cost / (parts.chips * parts.ports)
        base = base or each
        printed = dict(zip(COLUMNS, PAPER.get(name, ()), strict=False))
        if printed.get("chips") != str(parts.chips):
            printed = {}  # of the same name, but not the paper's
        named = {column: why for (row, column), why in DEPARTURES.items() if row == name}
        rows.append(
            Row(name, parts, cost, each / base, basis, printed, named if printed else {})
        )
    return rows
