"""Table 2: chips, diameter and throughput of RailX's topologies, beside what the graph gives."""

from __future__ import annotations

from typing import Any

from lightloom.papers.part import Context, Line, Part, Rows
from lightloom.railx.topology import TOPOLOGIES, build

NUMBER = 2
TITLE = "Topologies"
HALLS = ((4, 2, 128), (7, 9, 128))
"""Mesh side, rail ports at a chip edge and switch radix of each; every topology is built as large
as it can be."""


def parts() -> tuple[Part, ...]:
    """Return the one piece that it is made of."""
    return (Part("table 2", _rows, settings={"halls": HALLS}),)


def _rows(_context: Context) -> Rows:
    """Return a row a topology and hall.

    ``rail_throughput`` is with each packet by the nearest exit, ``even_throughput`` with rails of a
    dimension used alike, both in flits a cycle and chip.
    """
    rows = []
    for mesh, ports, ocs in HALLS:
        for topology in TOPOLOGIES[:3]:
            built = build(topology, mesh=mesh, ports=ports, ocs=ocs)
            measures, paper = built.measures, built.formulas
            assert paper is not None, "the three have formulas"
            rows.append({
                "mesh": mesh, "ports": ports, "ocs": ocs, "topology": topology,
                "columns": built.columns, "rows": built.rows,
                "chips": built.chips, "chips_paper": paper.chips,
                "diameter": measures.diameter, "diameter_paper": paper.diameter,
                "bisection_circuits": measures.bisection_circuits,
                "bisection_exact": measures.bisection_exact,
                "throughput_paper": paper.throughput, "cut_throughput": measures.cut_throughput,
                "rail_throughput": measures.throughput(),
                "even_throughput": measures.throughput(even=True), "notes": built.notes,
            })  # fmt: skip
    return rows


def lines(rows: Rows) -> list[Line]:
    """Return chips, diameter and throughput of each."""
    return [line for row in rows for line in _lines(row)]


def _lines(row: dict[str, Any]) -> list[Line]:
    setting = f"{row['topology']} m={row['mesh']} n={row['ports']} R={row['ocs']}"
    cut, rails = row["cut_throughput"], row["rail_throughput"]
    found = [f"{value:.3g} {by}" for value, by in ((cut, "by cut"), (rails, "by rails"))
             if value is not None]  # fmt: skip
    return [
        Line("table 2", setting, what, paper, here)
        for what, paper, here in (
            ("chips", f"{row['chips_paper']:,}", f"{row['chips']:,}"),
            ("diameter, optical hops", str(row["diameter_paper"]), str(row["diameter"])),
            ("flits/cycle/chip", f"{row['throughput_paper']:.3g}", ", ".join(found)),
        )
    ]
