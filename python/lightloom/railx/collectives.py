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
from lightloom.errors import CoreErrors, InputError
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
    with CoreErrors():
        return Time(_core.railx_all_reduce(json.dumps(request), on_progress))


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
