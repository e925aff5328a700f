"""Makes and carries out plans for the ranks of a job on a testbed of planes.

Modelled: ranks ask over a Unix socket, a line of JSON at a time, all of them the same in the same
order. What they have recorded is planned by shape, with times that are measured then, each shape
once. To carry one out each rank leaves what it has in a file, and finds what it gets in another.
Ignored: several ranks a server. Checked: ``tests/test_testbed_shim.py``.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from lightloom.errors import InputError, RunError
from lightloom.plan import Plan
from lightloom.runtime.rank import ELEMENTS
from lightloom.testbed.carried import KINDS, block_bytes, block_count, carry_out
from lightloom.testbed.planning import plan_of, times
from lightloom.testbed.shape import Shape
from lightloom.units import Time


@dataclass(frozen=True)
class Kept:
    """A plan of a collective that was recorded."""

    plan: Plan
    element: str


class Planner:
    """Answers the ranks of a job; use it in a ``with``.

    Parameters
    ----------
    shape
        The testbed's, which the caller holds.
    place
        A directory for the socket and the ranks' files.
    """

    def __init__(self, shape: Shape, place: Path) -> None:
        self._shape = shape
        self._place = place
        self.socket = place / "planner.sock"
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._kept: list[Kept | None] = []
        self._times: dict[str, tuple[Time, Time]] = {}
        self._thread = threading.Thread(target=self._serve, name="planner", daemon=True)

    def __enter__(self) -> Planner:
        """Listen."""
        self._listener.bind(str(self.socket))
        self._listener.listen(self._shape.servers * self._shape.ranks_per_server)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Listen no more."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self) -> None:
        ranks = self._shape.servers * self._shape.ranks_per_server
        try:
            streams = [self._listener.accept()[0].makefile("rw") for _ in range(ranks)]
        except OSError:
            return  # the job has ended before
        with contextlib.ExitStack() as open_:
            for stream in streams:
                open_.enter_context(contextlib.closing(stream))
            with contextlib.suppress(OSError, ValueError):  # a rank has ended in the midst
                while all(lines := [stream.readline() for stream in streams]):
                    asked = [json.loads(line) for line in lines]
                    for stream, answer in zip(streams, self._answers(asked), strict=True):
                        stream.write(json.dumps(answer) + "\n")
                        stream.flush()

    def _answers(self, asked: list[dict[str, Any]]) -> list[dict[str, Any]]:
        numbers = [question.pop("rank") for question in asked]
        try:
            if any(question != asked[0] for question in asked):
                raise RunError("ranks ask the planner for different things")
            [(what, value)] = asked[0].items()
            if what == "record":
                answer = {"refused": self._record(value)}
            elif what == "carry":
                answer = self._carry(value)
            else:
                return [self._files(value, number) for number in numbers]
            return [answer] * len(asked)
        except (InputError, RunError) as error:
            return [{"failed": str(error)}] * len(asked)

    def _record(self, calls: list[dict[str, Any]]) -> list[str | None]:
        """Plan what was recorded; return why each has no plan, if so."""
        made: dict[tuple[str, int, str], tuple[Kept | None, str | None]] = {}
        found = []
        for call in calls:
            key = call["kind"], call["bytes"], call["element"]
            if key not in made:
                try:
                    made[key] = self._planned(*key), None
                except (InputError, RunError) as error:
                    made[key] = None, str(error)
            found.append(made[key])
        self._kept = [kept for kept, _ in found]
        return [why for _, why in found]

    def _planned(self, kind: str, size_bytes: int, element: str) -> Kept:
        shape = self._shape
        if shape.ranks_per_server != 1:
            raise InputError(f"{shape.ranks_per_server} ranks a server; plans are for one")
        if kind not in KINDS or element not in ELEMENTS:
            raise InputError(f"{kind} of {element}: plans are for {', '.join(KINDS)}")
        if not size_bytes:
            raise InputError("it has no bytes")
        if kind not in self._times:
            self._times[kind] = times(shape, kind, None, (None, None))
        taken = self._times[kind]
        plan = plan_of(shape, kind, size_bytes, *taken)
        # Blocks of whole elements.
        whole = block_count(plan) * (np.dtype(element).itemsize if kind == "allreduce" else 1)
        if size_bytes % whole:
            plan = plan_of(shape, kind, -(-size_bytes // whole) * whole, *taken)
        return Kept(plan, element)

    def _files(self, at: int, rank: int) -> dict[str, Any]:
        kept = self._known(at)
        name = self._place / self._shape.nodes[rank]
        size = block_bytes(kept.plan) * block_count(kept.plan)
        return {"begin": f"{name}.begin", "end": f"{name}.end", "bytes": size}

    def _known(self, at: int) -> Kept:
        kept = self._kept[at] if 0 <= at < len(self._kept) else None
        if kept is None:
            raise RunError(f"collective {at}: has no plan")
        return kept

    def _carry(self, at: int) -> dict[str, Any]:
        kept = self._known(at)
        done = carry_out(self._shape, kept.plan, buffers=self._place, element=kept.element)
        return {
            "seconds": done.seconds, "planned_seconds": done.planned_seconds,
            "without": done.without, "detoured_bytes": done.detoured_bytes,
        }  # fmt: skip
