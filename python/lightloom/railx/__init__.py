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

from lightloom import kinds
from lightloom.lazy import TYPE_CHECKING, lazy

if TYPE_CHECKING:
    from lightloom.railx import cost, systems
    from lightloom.railx.collectives import System, all_reduce
    from lightloom.railx.faults import allocate
    from lightloom.railx.flits import simulate
    from lightloom.railx.map import Hall, Work, map_job
    from lightloom.railx.networks import Router
    from lightloom.railx.topology import build

# A class for each kind: `FatTree`, `Torus`.
_NETWORKS = [kind.class_name for kind in kinds.family("network").kinds.values()]

__all__ = [
    "Hall",
    "Router",
    "System",
    "Work",
    "all_reduce",
    "allocate",
    "build",
    "cost",
    "map_job",
    "simulate",
    "systems",
    *_NETWORKS,
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "Hall": "lightloom.railx.map",
        "Router": "lightloom.railx.networks",
        "System": "lightloom.railx.collectives",
        "Work": "lightloom.railx.map",
        "all_reduce": "lightloom.railx.collectives",
        "allocate": "lightloom.railx.faults",
        "build": "lightloom.railx.topology",
        "cost": "lightloom.railx.cost",
        "map_job": "lightloom.railx.map",
        "simulate": "lightloom.railx.flits",
        "systems": "lightloom.railx.systems",
        **dict.fromkeys(_NETWORKS, "lightloom.railx.networks"),
    },
)
