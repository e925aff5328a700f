"""Figure 15: how long all-reduces take, by the equations and as runs.

Panels a to c: times by the equations at three scales. Panel d: how many times longer the 2D ring
takes than the hierarchy, also at 200 GB/s inside. Panel e: runs on the flow and flit engines over
the equations, on 144 chips. The direct algorithm (Section A.2) is in panel e alone: four rails join
no more than five nodes all to all. The paper prints neither scales nor sizes: here are rows of
nodes that 128-port switches hold.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from lightloom.papers.part import Context, Part, Rows
from lightloom.papers.railx.curves import draw as draw_curves
from lightloom.papers.railx.curves import figure_lines
from lightloom.railx.collectives import ALGORITHMS, System, all_reduce
from lightloom.units import Size

NUMBER = 15
TITLE = "All-reduce"
SCALES = (8, 32, 64)
SIZES = tuple(10**power for power in range(4, 11))
# What a run takes seconds for.
RUN = System(nodes=3)
RUN_SIZES = tuple(10**power for power in range(4, 8))
SLOWER = "200 GB/s"
_NAMES = {
    "1d-ring": "1D ring",
    "2d-ring": "2D ring",
    "hierarchical": "hierarchical",
    "hyperx": "direct, on a HyperX",
}


def parts() -> tuple[Part, ...]:
    """Return the one piece that it is made of."""
    settings = {"scales": SCALES, "sizes": SIZES, "run": RUN_SIZES}
    return (Part("figure 15", _rows, settings=settings),)


def _rows(context: Context) -> Rows:
    """Return the points, ``x`` in bytes of a chip."""
    rows: Rows = []
    for panel, nodes in zip("abc", SCALES, strict=True):
        title = f"{System(nodes=nodes).chips:,} chips"
        head = {"panel": panel, "title": title, "y_axis": "time [s]", "log": "xy"}
        for algorithm in ALGORITHMS[:3]:
            times = [_seconds(algorithm, size, System(nodes=nodes)) for size in SIZES]
            rows += _series(head, _NAMES[algorithm], SIZES, times)
    head = {"panel": "d", "title": "2D ring over hierarchical", "y_axis": "times", "log": "x"}
    for inside in (System.inside, SLOWER):
        for nodes in SCALES:
            system = System(nodes=nodes, inside=inside)
            ratios = [
                _seconds("2d-ring", size, system) / _seconds("hierarchical", size, system)
                for size in SIZES
            ]
            found = _series(head, f"{system.chips:,} chips, {inside} inside", SIZES, ratios)
            if inside == System.inside:
                for row in (found[0], found[-1]):
                    size = Size(row["x"])
                    row |= {"what": f"2D ring over hierarchical, {size}", "paper": "above 1"}
            rows += found
    head = {"panel": "e", "title": f"runs over equations, {RUN.chips} chips",
            "y_axis": "times", "log": "x"}  # fmt: skip
    runs = [(engine, algorithm) for engine in ("flow", "flit") for algorithm in ALGORITHMS]
    for done, (engine, algorithm) in enumerate(runs):
        ratios = []
        for at, size in enumerate(RUN_SIZES):
            context.progress((done + at / len(RUN_SIZES)) / len(runs))
            ratios.append(_seconds(algorithm, size, RUN, engine) / _seconds(algorithm, size, RUN))
        rows += _series(head, f"{_NAMES[algorithm]}, {engine}", RUN_SIZES, ratios)
    return rows


def _seconds(algorithm: str, size: int, system: System, engine: str = "analytic") -> float:
    return int(all_reduce(algorithm, f"{size} B", system, engine=engine)) / 1e12


def _series(head: dict[str, Any], series: str, sizes: tuple[int, ...], values: list[float]) -> Rows:
    return [
        {**head, "series": series, "x": size, "y": value, "x_axis": "data of a chip [B]"}
        for size, value in zip(sizes, values, strict=True)
    ]


lines = partial(figure_lines, NUMBER)
draw = draw_curves
