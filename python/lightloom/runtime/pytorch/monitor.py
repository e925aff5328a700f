"""Tells the agents what gates have decided (MixNet's monitor), while the step goes on."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from lightloom.runtime.rank import Rank


class GateMonitor:
    """Announces the bytes of a layer's two all-to-alls after its gate, and goes on.

    The next layer's bytes are announced when the answer to these has come: circuits change under
    the experts' compute and the rest of the layer. All ranks must announce as often.

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
    """

    def __init__(self, rank: Rank | None, *, waits: bool = False) -> None:
        self.rounds = self.decided = self.circuits = 0
        self._rank, self._waits = rank, waits
        self._thread = ThreadPoolExecutor(1, "lightloom-monitor")
        self._asked: Future[dict[str, Any]] | None = None

    def __call__(self, goes: Sequence[int], comes: Sequence[int], token_bytes: int) -> None:
        """Announce: tokens go to each rank, and as many as come from it go back to it."""
        if self._rank is None:
            return
        self.end()
        bytes_ = [(go + come) * token_bytes for go, come in zip(goes, comes, strict=True)]
        self._asked = self._thread.submit(self._rank.announce, bytes_)
        if self._waits:
            self.end()

    def end(self) -> None:
        """Wait for the last answer."""
        if self._asked is not None:
            answer = self._asked.result()
            self.rounds += 1
            self.decided += bool(answer["decided"])
            self.circuits += int(answer["circuits"])
            self._asked = None
