"""Work of c10d: collectives of the runtime under way, and what is done when they are over."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from lightloom.errors import RunError
from lightloom.runtime.work import Work

# Threads that end what somebody has a future of. What is called then may wait for other futures.
_ends = ThreadPoolExecutor(32, "lightloom-torch")
NONE = timedelta(0)


class Pending(dist.Work):  # type: ignore[misc, unused-ignore]
    """One operation of a process group.

    Its tensors have their values once `wait` has returned, or its future has.

    Parameters
    ----------
    name
        For messages.
    parts
        What the runtime does for it; it is over when all of them are.
    result
        The future's value.
    after
        Called once all parts are over, before `wait` returns.
    seconds
        How long it may take, unless `wait` says otherwise.
    """

    def __init__(
        self,
        name: str,
        parts: Sequence[Work],
        result: Sequence[torch.Tensor],
        after: Callable[[], None] | None,
        seconds: float,
    ) -> None:
        super().__init__()
        self._name, self._parts, self._result = name, list(parts), list(result)
        self._after, self._seconds = after, seconds
        self._lock = threading.Lock()
        self._error: BaseException | None = None
        self._over: torch.futures.Future[None] = torch.futures.Future()
        self._future: torch.futures.Future[Any] | None = None

    def wait(self, timeout: timedelta = NONE) -> bool:
        """Wait until the tensors have their values; true.

        Raises
        ------
        RunError
            If it has failed, with the reason; or was not over in time, and it goes on.
        """
        self._end(timeout.total_seconds() or self._seconds)
        return True

    def get_future(self) -> torch.futures.Future[Any]:
        """Return a future of the list of result tensors."""
        with self._lock:
            if self._future is not None:
                return self._future
            # What a callback raises is the future's error for C++, too; `set_exception` is not.
            self._future = self._over.then(self._outcome)
            left = list(self._parts)
        if not left:
            _ends.submit(self._tell)
        count = threading.Lock(), [len(left)]

        def one_less() -> None:
            with count[0]:
                count[1][0] -= 1
                over = count[1][0] == 0
            if over:
                _ends.submit(self._tell)

        for part in left:
            part.notify(one_less)
        return self._future

    def _end(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        with self._lock:
            if self._error is not None:
                raise self._error
            try:
                while self._parts:
                    self._parts[0].wait(max(until - time.monotonic(), 0))
                    self._parts.pop(0)
                if self._after is not None:
                    self._after()
                    self._after = None
            except TimeoutError:
                raise RunError(f"{self._name}: not over after {seconds:g} s") from None
            except Exception as error:
                self._error = error
                raise

    def _tell(self) -> None:
        self._over.set_result(None)

    def _outcome(self, _: object) -> list[torch.Tensor]:
        self._end(self._seconds)
        return self._result
