"""Collectives by plan: a job's first iteration is recorded, later ones follow plans (SWOT, 3.3).

Modelled: in the first iteration collectives go as they always do, and what each is, its kind, bytes
and elements, is written down. At its end all ranks ask for plans, which are made by these shapes,
offline. From then on a collective that is the one that was recorded at this place is carried out by
its plan. One that is not (another size, another order) goes as in the first iteration, and rank 0
says so. All ranks agree on that before each collective. Ignored: collectives under way at the same
time, groups, reductions but sums. Checked: ``tests/test_testbed_shim.py``.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from lightloom.errors import InputError, RunError
from lightloom.runtime.rank import Rank

Array = npt.NDArray[Any]
# Plans are made, and carried out, within so long [s].
PATIENCE_S = 600.0


@dataclass(frozen=True)
class Called:
    """What a collective is, to a plan.

    Examples
    --------
    >>> str(Called("allreduce", 400, "float32"))
    'allreduce of 400 B of float32'
    """

    kind: str
    bytes: int
    element: str

    def __str__(self) -> str:
        """Return it in words."""
        return f"{self.kind} of {self.bytes:,} B of {self.element}"


class Shim:
    """Collectives of a rank, by plan from the second iteration on.

    ``lightloom testbed run`` on a testbed of planes starts ranks that find its planner::

        with Rank() as rank, Shim(rank) as shim:
            for _ in range(3):
                with shim.iteration():
                    shim.all_to_all(received, sent)
                    shim.all_reduce(sums)

    Parameters
    ----------
    rank
        The rank.
    planner
        Where the planner listens; from ``LIGHTLOOM_PLANNER`` without it.

    Attributes
    ----------
    carried
        What became of each collective that went by plan: ``seconds``, ``planned_seconds`` and
        ``without``, why circuits were left.

    Raises
    ------
    InputError
        If there is no planner.
    """

    def __init__(self, rank: Rank, planner: str | None = None) -> None:
        path = os.environ.get("LIGHTLOOM_PLANNER") if planner is None else planner
        if path is None:
            raise InputError(
                "LIGHTLOOM_PLANNER: is not in the environment; `lightloom testbed run` sets it on a"
                " testbed of planes"
            )
        self._rank = rank
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(PATIENCE_S)
        try:
            self._socket.connect(path)
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}: is no planner") from None
        self._lines = self._socket.makefile("rw")
        self._recorded: list[Called] = []
        # Why each of them has no plan, if so; none before there are plans.
        self._plans: list[str | None] | None = None
        self._at = 0
        self.carried: list[dict[str, Any]] = []

    def __enter__(self) -> Shim:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the planner."""
        self._lines.close()
        self._socket.close()

    @contextmanager
    def iteration(self) -> Iterator[None]:
        """Mark an iteration; all ranks do.

        Raises
        ------
        RunError
            If the planner is gone.
        """
        self._at = 0
        yield
        if self._plans is None:
            calls = [asdict(call) for call in self._recorded]
            self._plans = self._ask({"record": calls})["refused"]
            for call, why in zip(self._recorded, self._plans, strict=True):
                if why is not None:
                    self._say(f"{call}: has no plan: {why}")
        elif self._at < len(self._recorded):
            at, call = self._at, self._recorded[self._at]
            self._say(f"the iteration ends before collective {at}, an {call}")

    def all_to_all(self, received: Array, sent: Array) -> None:
        """Send every rank as many rows, as `lightloom.runtime.Rank.all_to_all` does.

        Raises
        ------
        InputError
            If rows do not fit.
        RunError
            If it has failed; with the reason.
        """
        if len(sent) % self._rank.size or received.nbytes != sent.nbytes:
            raise InputError(f"sent: {len(sent)} rows: must be as many for each rank, both ways")

        def otherwise() -> None:
            self._rank.all_to_all(received, sent)

        self._go(Called("alltoall", sent.nbytes, sent.dtype.name), sent, received, otherwise)

    def all_reduce(self, array: Array) -> None:
        """Add the arrays of all ranks up, in place, as `lightloom.runtime.Rank.all_reduce` does.

        By plan, floats are added in another order, the same on every run.

        Raises
        ------
        RunError
            If it has failed; with the reason.
        """

        def otherwise() -> None:
            self._rank.all_reduce(array)

        self._go(Called("allreduce", array.nbytes, array.dtype.name), array, array, otherwise)

    def _go(
        self, call: Called, sent: Array, received: Array, otherwise: Callable[[], None]
    ) -> None:
        at, self._at = self._at, self._at + 1
        if self._plans is None:
            self._recorded.append(call)
            otherwise()
            return
        wanted = self._recorded[at] if at < len(self._recorded) else None
        fits = wanted == call and self._plans[at] is None
        # What ranks see may differ: then none goes by plan.
        agreed = self._rank.empty(1, "int32")
        agreed[0] = fits
        self._rank.all_reduce(agreed, "min")
        if agreed[0]:
            self._carry(at, call, sent, received)
            return
        if wanted != call:
            known = "nothing" if wanted is None else f"an {wanted}"
            self._say(f"collective {at} is an {call}; the first iteration had {known}: no plan")
        otherwise()

    def _carry(self, at: int, call: Called, sent: Array, received: Array) -> None:
        place = self._ask({"place": at})
        begin, end = Path(place["begin"]), Path(place["end"])
        data = np.ascontiguousarray(sent).reshape(-1).view("uint8")
        begin.write_bytes(data.tobytes().ljust(place["bytes"], b"\0"))
        done = self._ask({"carry": at})
        came = np.frombuffer(end.read_bytes(), dtype=received.dtype, count=received.size)
        received[...] = came.reshape(received.shape)
        self.carried.append(done)
        for why in done["without"]:
            self._say(f"collective {at}, an {call}, went on without circuits: {why}")

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """Ask the planner what all ranks ask, and return its answer."""
        try:
            self._lines.write(json.dumps(question | {"rank": self._rank.rank}) + "\n")
            self._lines.flush()
            line = self._lines.readline()
        except OSError as error:
            raise RunError(f"the planner is gone: {error}") from None
        if not line:
            raise RunError("the planner is gone")
        answer: dict[str, Any] = json.loads(line)
        if "failed" in answer:
            raise RunError(answer["failed"])
        return answer

    def _say(self, words: str) -> None:
        if self._rank.rank == 0:
            sys.stderr.write(f"lightloom: {words}\n")  # at once: other ranks write there, too
