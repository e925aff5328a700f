"""A testbed in one machine: servers are network namespaces, and circuits are in the kernel.

`up` builds it, `status` says what it is at, `down` removes it. `Shape` says how large it is, and
`specification` says the same to the simulator. `Job` runs processes as ranks, `collective` runs
collectives and measures them, `compare` puts the simulator's times beside.
"""

from __future__ import annotations

from lightloom.testbed.collective import Outcome, Request, collective
from lightloom.testbed.comparison import Comparison, compare
from lightloom.testbed.down import down
from lightloom.testbed.job import Job, Settings
from lightloom.testbed.record import known
from lightloom.testbed.shape import Shape
from lightloom.testbed.specification import specification
from lightloom.testbed.status import status
from lightloom.testbed.up import up

__all__ = [
    "Comparison", "Job", "Outcome", "Request", "Settings", "Shape",
    "collective", "compare", "down", "known", "specification", "status", "up",
]  # fmt: skip
