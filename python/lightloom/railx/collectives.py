"""All-reduce on RailX: by the equations, or run as sends on the flow and flit engines.

A `System` is ``nodes`` x ``nodes`` nodes of ``mesh`` x ``mesh`` chips. Four algorithms: two rings
over all chips (``1d-ring``), rings over the chips of rows and columns (``2d-ring``), rings inside
nodes and then over the same chip of the nodes of a row or column (``hierarchical``), and the same
with all nodes of a row or column at once (``hyperx``). RailX, equations 6 to 8, 12 and 13.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lightloom import _core, presets
from lightloom.errors import InputError, RunError
from lightloom.presets import unknown
from lightloom.units import Quantity, Rate, Size, Time

ALGORITHMS = ("1d-ring", "2d-ring", "hierarchical", "hyperx")
ENGINES = ("analytic", "printed", "flow", "flit")
"""``printed``: the last line of each equation, which leaves out small terms."""


@dataclass(frozen=True)
class System:
    """What an all-reduce runs on; by default RailX, Section 6.4, with m = 4.

    Attributes
    ----------
    nodes
        Nodes in a row, and in a column.
    mesh
        Chips along a side of a node.
    ports
        Rails of a chip edge.
    bandwidth, inside
        Rates of a rail and of a mesh link, each way.
    hop, mesh_hop
        What a hop takes from node to node, and from chip to chip inside.
    """

    nodes: int = 8
    mesh: int = 4
    ports: int = 1
    bandwidth: str = "100 GB/s"
    inside: str = "400 GB/s"
    hop: str = "300 ns"
    mesh_hop: str = "10 ns"

    @property
    def chips(self) -> int:
        """All chips."""
        return (self.nodes * self.mesh) ** 2


def all_reduce(
    algorithm: str,
    size: str,
    system: System | None = None,
    *,
    engine: str = "analytic",
    on_progress: Callable[[float], None] | None = None,
) -> Time:
    """Return how long an all-reduce of `size` a chip takes.

    Parameters
    ----------
    algorithm
        One of `ALGORITHMS`. On ``flow`` and ``flit``, ``hyperx`` runs on a HyperX, which needs
        ``nodes - 1`` to divide the ``mesh * ports`` rails; the others run on a torus.
    size
        What each chip holds, such as "64 MB".
    system
        What it runs on.
    engine
        One of `ENGINES`; ``flit`` with that engine's default settings. Flows take what the
        equations say within a thousandth, ``hyperx`` where mesh links are fast enough for all
        that crosses a node at once: four times an edge's rails are, twice are not quite.
    on_progress
        Called with the share that is done; may raise to stop.

    Raises
    ------
    InputError
        If a value cannot be used, or the system is too large to be run.
    RunError
        If the run failed.

    Examples
    --------
    >>> all_reduce("hierarchical", "1 GB", System(nodes=32), engine="printed")
    Time('3788.4 us')
    >>> [all_reduce("2d-ring", "16 MB", System(nodes=3), engine=e) for e in ("analytic", "flow")]
    [Time('92644.444 ns'), Time('92644.64 ns')]
    >>> all_reduce("hyperx", "16 MB", System(nodes=8))
    Traceback (most recent call last):
    ...
    lightloom.errors.InputError: nodes = 8: 4 rails join at most 5 nodes all to all
    """
    system = System() if system is None else system
    for key, value, allowed in (
        ("algorithm", algorithm, ALGORITHMS), ("engine", engine, ENGINES),
    ):  # fmt: skip
        if value not in allowed:
            raise InputError(f'{key} = "{value}": is not known{unknown(value, allowed)}')
    for name in ("nodes", "mesh", "ports"):
        if not 1 <= getattr(system, name) <= 1 << 20:
            raise InputError(f"{name} = {getattr(system, name)}: must be a number above 0")
    request = {
        "algorithm": algorithm,
        "bytes": _parsed("size", Size, size),
        "engine": _engine(engine),
        "links": {
            "mesh": system.mesh,
            "nodes": system.nodes,
            "ports": system.ports,
            "rail_bps": _parsed("bandwidth", Rate, system.bandwidth),
            "inside_bps": _parsed("inside", Rate, system.inside),
            "hop_ps": _parsed("hop", Time, system.hop),
            "mesh_hop_ps": _parsed("mesh_hop", Time, system.mesh_hop),
        },
    }
    try:
        return Time(_core.railx_all_reduce(json.dumps(request), on_progress))
    except ValueError as error:
        raise InputError(str(error)) from None
    except RuntimeError as error:
        raise RunError(str(error)) from None


# Figure 15 prints neither its scales nor its sizes: rows of nodes that 128-port switches hold.
_SCALES = (8, 32, 64)
_SIZES = tuple(10**power for power in range(4, 11))
# What a run takes seconds for.
_RUN = System(nodes=3)
_RUN_SIZES = tuple(10**power for power in range(4, 8))
_SLOWER = "200 GB/s"
_NAMES = {
    "1d-ring": "1D ring",
    "2d-ring": "2D ring",
    "hierarchical": "hierarchical",
    "hyperx": "direct, on a HyperX",
}


def figure15(on_progress: Callable[[float], None] | None = None) -> list[dict[str, Any]]:
    """Return the rows of RailX's Figure 15.

    Panels a to c: times by the equations at three scales. Panel d: how many times longer the 2D
    ring takes than the hierarchy, also at 200 GB/s inside. Panel e: runs on the flow and flit
    engines over the equations, on 144 chips. The direct algorithm (Section A.2) is in panel e
    alone: four rails join no more than five nodes all to all.

    Returns
    -------
    list of dict
        panel, series, x (bytes of a chip), y, and what panels and tables need: title, x_axis,
        y_axis, log; what and paper where the paper says something of that point.
    """
    rows: list[dict[str, Any]] = []
    for panel, nodes in zip("abc", _SCALES, strict=True):
        title = f"{System(nodes=nodes).chips:,} chips"
        head = {"panel": panel, "title": title, "y_axis": "time [s]", "log": "xy"}
        for algorithm in ALGORITHMS[:3]:
            times = [_seconds(algorithm, size, System(nodes=nodes)) for size in _SIZES]
            rows += _series(head, _NAMES[algorithm], _SIZES, times)
    head = {"panel": "d", "title": "2D ring over hierarchical", "y_axis": "times", "log": "x"}
    for inside in (System.inside, _SLOWER):
        for nodes in _SCALES:
            system = System(nodes=nodes, inside=inside)
            ratios = [
                _seconds("2d-ring", size, system) / _seconds("hierarchical", size, system)
                for size in _SIZES
            ]
            found = _series(head, f"{system.chips:,} chips, {inside} inside", _SIZES, ratios)
            if inside == System.inside:
                for row in (found[0], found[-1]):
                    size = Size(row["x"])
                    row |= {"what": f"2D ring over hierarchical, {size}", "paper": "above 1"}
            rows += found
    head = {"panel": "e", "title": f"runs over equations, {_RUN.chips} chips",
            "y_axis": "times", "log": "x"}  # fmt: skip
    runs = [(engine, algorithm) for engine in ("flow", "flit") for algorithm in ALGORITHMS]
    for done, (engine, algorithm) in enumerate(runs):
        ratios = []
        for at, size in enumerate(_RUN_SIZES):
            if on_progress is not None:
                on_progress((done + at / len(_RUN_SIZES)) / len(runs))
            ratios.append(_seconds(algorithm, size, _RUN, engine) / _seconds(algorithm, size, _RUN))
        rows += _series(head, f"{_NAMES[algorithm]}, {engine}", _RUN_SIZES, ratios)
    return rows


def _seconds(algorithm: str, size: int, system: System, engine: str = "analytic") -> float:
    return int(all_reduce(algorithm, f"{size} B", system, engine=engine)) / 1e12


def _series(
    head: dict[str, Any], series: str, sizes: tuple[int, ...], values: list[float]
) -> list[dict[str, Any]]:
    return [
        {**head, "series": series, "x": size, "y": value, "x_axis": "data of a chip [B]"}
        for size, value in zip(sizes, values, strict=True)
    ]


def _parsed(key: str, kind: type[Quantity], text: str) -> int:
    try:
        return int(kind.parse(text))
    except ValueError as error:
        raise InputError(f"{key} = {text}: {error}") from None


def _engine(kind: str) -> dict[str, Any]:
    """Return an engine as the core has it; the flit engine's settings are its preset's."""
    if kind != "flit":
        return {"kind": kind}
    settings = dict(presets.load("engines", "flit").values["engine"])
    return settings | {
        "flit_size": int(Size.parse(settings["flit_size"])),
        "packet": None,
        "buffer": None,
    }
