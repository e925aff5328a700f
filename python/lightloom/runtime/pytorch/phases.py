"""How long the parts of a training step take."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Phases:
    """Seconds by name. A phase within another one counts for itself, not for the outer one.

    If they are kept, ``spans`` has each phase as it was: its name, when it began, and how long it
    took with what was in it [s].

    Examples
    --------
    >>> phases = Phases(keeps=True)
    >>> with phases.timed("forward"), phases.timed("experts"):
    ...     pass
    >>> sorted(phases.seconds), [name for name, *_ in phases.spans]
    (['experts', 'forward'], ['experts', 'forward'])
    """

    def __init__(self, keeps: bool = False) -> None:
        self.seconds: dict[str, float] = {}
        self.spans: list[tuple[str, float, float]] = []
        self._keeps = keeps
        self._within = [0.0]

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Count what happens within it for a name."""
        begun = time.perf_counter()
        self._within.append(0.0)
        try:
            yield
        finally:
            whole = time.perf_counter() - begun
            own = whole - self._within.pop()
            self._within[-1] += whole
            self.seconds[name] = self.seconds.get(name, 0.0) + own
            if self._keeps:
                self.spans.append((name, begun, whole))
