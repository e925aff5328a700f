"""A collective that was called and may not be over."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import numpy.typing as npt

Array = npt.NDArray[Any]


def now_ns() -> int:
    """Return the time as all processes of the computer count it (CLOCK_BOOTTIME) [ns]."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Work:
    """A collective under way.

    Until `wait` has returned its arrays are the runtime's: not to be written, and of what it
    receives, not to be read.

    Attributes
    ----------
    times
        When its parts began and ended, as (begin, end) by CLOCK_BOOTTIME [ns]: ``gather`` (arrays
        that are not in the arena were copied there), ``exchange`` (between servers), ``local``
        (within the server), ``scatter`` (arrays that are not in the arena were copied from there).
    landed
        Of an all-to-all of a job that compares schemes: source, destination and when the last byte
        was here [ns], of what came from ranks of other servers to ranks of this one.
    """

    def __init__(
        self,
        answer: Future[Any],
        copies: Sequence[tuple[Array, Array]],
        gather: tuple[int, int],
        keeps: object = None,
    ) -> None:
        self.times = {"gather": gather}
        self.landed: list[tuple[int, int, int]] | None = None
        self._answer = answer
        # The arrays that the runtime uses live until it is over.
        self._arrays: tuple[Sequence[tuple[Array, Array]], object] | None = (copies, keeps)

    def done(self) -> bool:
        """Return whether `wait` would not wait."""
        return self._answer.done()

    def notify(self, call: Callable[[], None]) -> None:
        """Call something when `wait` would not wait: at once, or in the thread that hears answers.

        That thread must not be kept: no other answer is heard meanwhile.
        """
        self._answer.add_done_callback(lambda _: call())

    def wait(self, timeout: float | None = None) -> None:
        """Wait until it is over.

        Parameters
        ----------
        timeout
            At most so long [s].

        Raises
        ------
        RunError
            If it has failed; with the reason.
        TimeoutError
            If it is not over in that time. It goes on.
        """
        said = self._answer.result(timeout)
        if self._arrays is None:
            return
        for name in ("exchange", "local"):
            self.times[name] = tuple(said[f"{name}_ns"])
        self.landed = said.get("landed_ns")
        begun = now_ns()
        for target, source in self._arrays[0]:
            if target is not source:
                target[...] = source
        self._arrays = None
        self.times["scatter"] = (begun, now_ns())
