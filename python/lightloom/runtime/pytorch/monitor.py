"""Tells the agents what gates have decided (MixNet's monitor), while the step goes on."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from time import perf_counter
from typing import Any

from lightloom.runtime.rank import Rank

# An answer that was waited for longer is late [s]; and so many steps at most announce nothing then.
LATE_S, MOST_STEPS = 1.0, 64


class GateMonitor:
    """Announces the bytes of a layer's two all-to-alls after its gate, and goes on.

    The next layer's bytes are announced when the answer to these has come: circuits change under
    the experts' compute and the rest of the layer. All ranks must announce as often.

    After a step in which an answer was late at some rank, nothing is announced for a step, after
    the next such step for two, then four and so on: what is broken costs less and less.

    Parameters
    ----------
    rank
        This process's; none announces nothing.
    waits
        Whether the layer's all-to-alls wait for the answer (MixNet 7.1: ``block``).

    Attributes
    ----------
    rounds, decided, circuits
        How often it has announced, how often the controller decided within 5 s, and how many ports
        of this server had a circuit then, in all rounds together.
    late
        Answers that were late in this step.
    waited_s
        How long answers were waited for [s].

    Examples
    --------
    >>> monitor = GateMonitor(None)
    >>> monitor.over(late=True), monitor.pauses
    (None, 1)
    >>> monitor.over(late=False), monitor.over(late=True), monitor.pauses
    (None, None, 2)
    """

    def __init__(self, rank: Rank | None, *, waits: bool = False) -> None:
        self.rounds = self.decided = self.circuits = self.late = self.pauses = 0
        self.waited_s = 0.0
        self._longer = 1
        self._rank, self._waits = rank, waits
        self._thread = ThreadPoolExecutor(1, "lightloom-monitor")
        self._asked: Future[dict[str, Any]] | None = None

    def __call__(self, goes: Sequence[int], comes: Sequence[int], token_bytes: int) -> None:
        """Announce: tokens go to each rank, and as many as come from it go back to it."""
        if self._rank is None or self.pauses:
            return
        self.end()
        bytes_ = [(go + come) * token_bytes for go, come in zip(goes, comes, strict=True)]
        self._asked = self._thread.submit(self._rank.announce, bytes_)
        if self._waits:
            self.end()

    def end(self) -> None:
        """Wait for the last answer."""
        if self._asked is not None:
            begun = perf_counter()
            answer = self._asked.result()
            waited = perf_counter() - begun
            self.waited_s += waited
            self.late += waited > LATE_S
            self.rounds += 1
            self.decided += bool(answer["decided"])
            self.circuits += int(answer["circuits"])
            self._asked = None

    def over(self, late: bool) -> None:
        """Note that a step is over; all ranks say the same of it: whether an answer was late."""
        self.late = 0
        if self.pauses:
            self.pauses -= 1
        elif late:
            self.pauses = self._longer
            self._longer = min(2 * self._longer, MOST_STEPS)
        else:
            self._longer = 1
