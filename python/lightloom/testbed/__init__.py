"""A testbed in one machine: servers are network namespaces, and circuits are in the kernel.

`up` builds it, `status` says what it is at, `down` removes it. `Shape` says how large it is, and
`specification` says the same to the simulator; `fault` makes something go wrong, `rewire` sets a
grid of RailX. `Job` runs processes as ranks, `run` also on servers that stood by for one that
fails; `collective` runs collectives and measures them, `compare` puts the simulator's times beside,
`schemes` does so for the schemes of RailS, `turnaround` measures changes of circuits, `replay`
carries a simulated iteration out, and `carried_plans` carries out plans on optical planes.
"""

from __future__ import annotations

from lightloom.testbed.collective import Outcome, collective
from lightloom.testbed.commands import down, fault, known, status, up
from lightloom.testbed.comparison import Comparison, compare
from lightloom.testbed.job import Job
from lightloom.testbed.planned import Measured, Wanted, carried_plans
from lightloom.testbed.replay import Replay, replay
from lightloom.testbed.request import Request
from lightloom.testbed.rewiring import Rewired, rewire
from lightloom.testbed.runtimes import Settings
from lightloom.testbed.schemes import SchemesComparison, SchemesRequest, schemes
from lightloom.testbed.shape import Shape
from lightloom.testbed.spares import Ran, Restart, run
from lightloom.testbed.specification import specification
from lightloom.testbed.turnaround import Turnaround, turnaround

__all__ = [
    "Comparison", "Job", "Measured", "Outcome", "Ran", "Replay", "Request", "Restart", "Rewired",
    "SchemesComparison", "SchemesRequest", "Settings", "Shape", "Turnaround", "Wanted",
    "carried_plans", "collective", "compare", "down", "fault", "known", "replay", "rewire", "run",
    "schemes", "specification", "status", "turnaround", "up",
]  # fmt: skip
