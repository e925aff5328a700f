"""Performs runs on a Ray cluster: one that has an address, or a local one that is ended after.

Ray is an extra (`lightloom.extras`). Its workers need this version of lightloom, and
read a trace of the user's own at the path that the job names. Outcomes come back as bytes, to the
one cache of whoever asked. No progress is told of a run under way. Checked: with a stand-in for Ray
in ``tests/test_sweep_ray.py``, with Ray itself in ``tests/soak/test_sweeps.py``.
"""

from __future__ import annotations

import json
import re
import socket
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

from lightloom import extras
from lightloom.errors import InputError, RunError
from lightloom.runs import worker
from lightloom.runs.executor import TICK_S, Ended, Events, cpus
from lightloom.runs.outcome import Failure, Outcome
from lightloom.runs.run import Memo, Run

# What a worker keeps from one run to the next.
_MEMO = Memo()
# Runs that are handed over beyond those under way, so that no worker waits for the next.
_AHEAD = 2
_ADDRESS = re.compile(r"(?:ray://)?([^:/]+):(\d+)")
# How long an address may not answer [s].
_PATIENCE_S = 5.0


class Ray:
    """Performs runs as tasks of Ray, each with a processor and the memory that it needs."""

    def __init__(self, address: str | None = None, jobs: int | None = None) -> None:
        """Take the cluster at an address, ``auto`` for the one that runs here, or a local one.

        Raises
        ------
        InputError
            If Ray is not installed.
        """
        self.address, self.jobs = address, jobs
        try:
            self._ray: Any = import_module("ray")
        except ImportError:
            reason = f"--on ray: Ray is not installed: {extras.install('ray')}"
            raise InputError(reason) from None

    def __call__(self, runs: Sequence[Run], *, tables: bool) -> Events:
        """Perform runs; see `lightloom.runs.Executor`."""
        ray = self._ray
        mine = self._join()
        waiting = deque(sorted(range(len(runs)), key=lambda at: -runs[at].weight))
        running: dict[Any, int] = {}
        try:
            most = self.jobs or int(ray.cluster_resources().get("CPU", 1))
            task = ray.remote(num_cpus=1, max_retries=1)(answered)
            nodes = (node["Resources"] for node in ray.nodes() if node["Alive"])
            largest = int(max((node.get("memory", 0.0) for node in nodes), default=0.0))
            while waiting or running:
                while waiting and len(running) < most + (0 if self.jobs else _AHEAD):
                    at = waiting.popleft()
                    request = json.dumps(
                        {"run": runs[at].to_json(), "key": runs[at].key, "tables": tables}
                    )
                    fits = task.options(memory=min(runs[at].memory, largest) or None)
                    running[fits.remote(request.encode())] = at
                done, _ = ray.wait(list(running), timeout=TICK_S)
                for reference in done:
                    at = running.pop(reference)
                    yield self._ended(runs[at], at, reference)
                if not done:
                    yield None
        finally:
            for reference in running:
                with suppress(Exception):
                    ray.cancel(reference, force=True)
            if mine:
                ray.shutdown()

    def _join(self) -> bool:
        """Join the cluster; whether it is to be ended after."""
        ray = self._ray
        if ray.is_initialized():
            return False
        quiet = {"log_to_driver": False, "logging_level": "error"}
        if self.address is None:
            ray.init(num_cpus=self.jobs or cpus(), include_dashboard=False, **quiet)
            return True
        try:
            if match := _ADDRESS.fullmatch(self.address):  # Ray itself would try for minutes
                socket.create_connection((match[1], int(match[2])), _PATIENCE_S).close()
            ray.init(address=self.address, **quiet)
        except (OSError, OverflowError, ValueError, RuntimeError) as error:
            why = str(error).partition("\n")[0]
            raise InputError(f"--on ray:{self.address}: no Ray cluster there: {why}") from None
        return True

    def _ended(self, run: Run, at: int, reference: Any) -> Ended:
        try:
            kind, body = self._ray.get(reference)
        except Exception as error:
            why = str(error).strip().partition("\n")[0]
            return Ended(at, Failure(RunError(f"its Ray task failed: {why}")))
        if kind == worker.FAILURE:
            return Ended(at, Failure.from_json(json.loads(body)))
        outcome = Outcome.from_bytes(body, run.key)
        assert outcome is not None, "an answer is that of its request"
        return Ended(at, outcome, body)


def answered(request: bytes) -> tuple[bytes, bytes]:
    """Perform a request in a Ray worker; the kind and the body of the answer.

    The key says which version of the engine is wanted.
    """
    asked = json.loads(request)
    if Run(**asked["run"]).key != asked["key"]:
        other = RunError("its Ray worker has another version of lightloom; install the same")
        return worker.FAILURE, json.dumps(Failure(other).to_json()).encode()
    return worker.performed(request, _MEMO, lambda _share: None)
