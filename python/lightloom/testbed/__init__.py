"""A testbed in one machine: servers are network namespaces, and circuits are in the kernel.

`up` builds it, `status` says what it is at, `down` removes it. `Shape` says how large it is, and
`specification` says the same to the simulator; `fault` makes something go wrong.
"""

from __future__ import annotations

from lightloom.testbed.commands import down, fault, known, status, up
from lightloom.testbed.shape import Shape
from lightloom.testbed.specification import specification

__all__ = ["Shape", "down", "fault", "known", "specification", "status", "up"]
