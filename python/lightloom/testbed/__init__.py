"""A testbed in one machine: servers are network namespaces, and circuits are in the kernel.

`up` builds it, `status` says what it is at, `down` removes it. `Shape` says how large it is.
"""

from __future__ import annotations

from lightloom.testbed.down import down
from lightloom.testbed.shape import Shape
from lightloom.testbed.status import status
from lightloom.testbed.up import up

__all__ = ["Shape", "down", "status", "up"]
