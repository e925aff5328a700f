"""RailX: topologies of circuit-switched rails, their traffic, cost and faults.

Examples
--------
>>> from lightloom import railx
>>> tree = railx.FatTree(children=(4, 4), parents=(2, 4))
>>> quick = railx.Router(vcs=4, warm_up=200, cycles=1_000)
>>> railx.simulate(tree, [0.5], router=quick).points[0].unstable
False
"""

from __future__ import annotations

from lightloom.lazy import TYPE_CHECKING, lazy

if TYPE_CHECKING:
    from lightloom.railx import cost, systems
    from lightloom.railx.collectives import System, all_reduce
    from lightloom.railx.faults import allocate
    from lightloom.railx.flits import Mesh, Railx, Router, simulate
    from lightloom.railx.map import Hall, Work, map_job
    from lightloom.railx.networks import FatTree, HammingMesh, RailOnly, Torus
    from lightloom.railx.topology import build

__all__ = [
    "FatTree",
    "Hall",
    "HammingMesh",
    "Mesh",
    "RailOnly",
    "Railx",
    "Router",
    "System",
    "Torus",
    "Work",
    "all_reduce",
    "allocate",
    "build",
    "cost",
    "map_job",
    "simulate",
    "systems",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "FatTree": "lightloom.railx.networks",
        "Hall": "lightloom.railx.map",
        "HammingMesh": "lightloom.railx.networks",
        "Mesh": "lightloom.railx.flits",
        "RailOnly": "lightloom.railx.networks",
        "Railx": "lightloom.railx.flits",
        "Router": "lightloom.railx.flits",
        "System": "lightloom.railx.collectives",
        "Torus": "lightloom.railx.networks",
        "Work": "lightloom.railx.map",
        "all_reduce": "lightloom.railx.collectives",
        "allocate": "lightloom.railx.faults",
        "build": "lightloom.railx.topology",
        "cost": "lightloom.railx.cost",
        "map_job": "lightloom.railx.map",
        "simulate": "lightloom.railx.flits",
        "systems": "lightloom.railx.systems",
    },
)
