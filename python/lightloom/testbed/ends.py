"""Which of a job's processes ended first, and how those that are left are ended.

Modelled: a process that dies makes others fail that hear of it, sooner than anybody looks; so the
kernel is asked in which order they ended (a process's descriptor, all of them in one epoll, which
hands out first what came first). Checked: ``tests/test_testbed_spares.py``.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator

from lightloom.errors import RunError

Process = subprocess.Popen[bytes]
# Processes that were told to end have so long for it [s].
GRACE_S = 5.0


class JobError(RunError):
    """A rank, or the runtime of a server, has failed.

    Parameters
    ----------
    message
        What has happened.
    server
        The server's number.
    rank
        Which rank; none if it was the runtime.
    code
        How the process has ended: its exit code, or a signal's number, negative.

    Attributes
    ----------
    server, rank, code
        As given.
    seen
        When this was made, by ``time.monotonic`` [s].
    """

    def __init__(self, message: str, server: int, rank: int | None, code: int | None) -> None:
        super().__init__(message)
        self.server, self.rank, self.code = server, rank, code
        self.seen = time.monotonic()


class Ends:
    """Processes, in the order in which they end.

    Examples
    --------
    >>> ends = Ends()
    >>> slow, quick = (subprocess.Popen(["sleep", word]) for word in ("0.2", "0"))
    >>> ends.add(slow), ends.add(quick)
    (None, None)
    >>> time.sleep(0.5)
    >>> ends.wait() == [quick, slow]
    True
    >>> ends.close()
    """

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._processes: dict[int, Process] = {}

    def add(self, process: Process) -> None:
        """Watch a process, which was started just now."""
        descriptor = os.pidfd_open(process.pid)
        self._processes[descriptor] = process
        self._epoll.register(descriptor, select.EPOLLIN)

    def wait(self) -> list[Process]:
        """Wait until one ends; return those that have ended since, the first one first."""
        ended = []
        for descriptor, _ in self._epoll.poll():
            self._epoll.unregister(descriptor)
            os.close(descriptor)
            process = self._processes.pop(descriptor)
            process.wait()
            ended.append(process)
        return ended

    def close(self) -> None:
        """Watch none any more."""
        self._epoll.close()
        for descriptor in self._processes:
            os.close(descriptor)
        self._processes.clear()


def how(process: Process) -> str:
    """Say how a process has ended.

    Examples
    --------
    >>> quick = subprocess.Popen(["false"])
    >>> _ = quick.wait()
    >>> how(quick)
    'exit code 1'
    """
    code = process.returncode
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name


def end(processes: list[Process]) -> None:
    """End processes and what they have started: politely, then not."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in _alive(processes):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
        until = time.monotonic() + GRACE_S
        while any(True for _ in _alive(processes)) and time.monotonic() < until:
            time.sleep(0.01)
    processes.clear()


def _alive(processes: list[Process]) -> Iterator[Process]:
    return (process for process in processes if process.poll() is None)
