"""Even loads."""

from __future__ import annotations

from lightloom.trace.synthetic.plug import Generator, even

GENERATOR = Generator("uniform", "w = 1", even)
