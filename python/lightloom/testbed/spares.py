"""Runs a program as the ranks of a job, and again on a spare server when one fails.

Modelled: MixNet's replacement of a server (Section 5.4): the last servers of a testbed stand by.
When a rank, or a server's runtime, fails, all of the job is ended and begins anew, with a spare in
the place of that server; what it goes on from is the program's own (a checkpoint). The controller
plans for the servers that are there, since no agent of the others speaks. A rank takes its server
out, for why it has ended is unknown. Ignored: a server that is cut off while its processes live:
the ranks that notice fail first, and their server is taken for the one that failed; ranks of a
server that could move to another one alone. Checked: ``tests/test_testbed_spares.py``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from lightloom.errors import InputError
from lightloom.testbed import record
from lightloom.testbed.alone import only_one
from lightloom.testbed.ends import JobError
from lightloom.testbed.environment import Attempt
from lightloom.testbed.job import Job
from lightloom.testbed.runtimes import Settings
from lightloom.testbed.shape import Shape

# Bad input to the program, as this project's commands and Python have it: no server will like it.
BAD_INPUT = 2


@dataclass(frozen=True)
class Restart:
    """A failure, and what came of it.

    Attributes
    ----------
    why
        What has failed, in words.
    rank
        Which rank; none if it was a server's runtime.
    server, spare
        The server that was taken out, and the one in its place.
    seen_seconds
        When it was seen, since the command's start [s].
    ended_seconds
        From then until all others had ended [s].
    runtimes_seconds, agents_seconds
        From then until all runtimes of the next attempt ran, and until their agents had met the
        controller [s]; none if that was not in time, or there are no agents.
    """

    why: str
    rank: int | None
    server: str
    spare: str
    seen_seconds: float
    ended_seconds: float
    runtimes_seconds: float | None = None
    agents_seconds: float | None = None

    def __str__(self) -> str:
        """Say it in a line.

        Examples
        --------
        >>> print(Restart("rank 3 has ended with SIGKILL", 3, "node-01", "node-03", 9.5, 0.1, 0.3))
        rank 3 has ended with SIGKILL, seen after 9.5 s: node-03 takes the place of node-01; since \
then: the others had ended after 0.10 s, runtimes ran after 0.30 s
        """
        line = (
            f"{self.why}, seen after {self.seen_seconds:.1f} s: {self.spare} takes the place of "
            f"{self.server}; since then: the others had ended after {self.ended_seconds:.2f} s"
        )
        if self.runtimes_seconds is not None:
            line += f", runtimes ran after {self.runtimes_seconds:.2f} s"
        if self.agents_seconds is not None:
            line += f", agents had met the controller after {self.agents_seconds:.2f} s"
        return line

    def said(self) -> dict[str, Any]:
        """Return it for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Ran:
    """What came of a job.

    Attributes
    ----------
    ranks
        How many there were.
    servers
        On which servers it ended, in the order of their ranks.
    restarts
        What failed before.
    """

    ranks: int
    servers: list[str]
    restarts: list[Restart]


def run(
    name: str,
    command: Sequence[str],
    settings: Settings,
    spares: int,
    restarts: int | None = None,
    out: Path | None = None,
    told: Callable[[str], object] = lambda line: None,
) -> Ran:
    """Run a program as every rank, on all servers but the spares, until it ends well.

    Parameters
    ----------
    name
        The testbed's name.
    command
        The program and its arguments.
    settings
        How bytes are moved.
    spares
        How many servers stand by; the last ones.
    restarts
        How often the job may begin anew; once for each spare unless given.
    out
        A directory for what each runtime has counted: ``attempt-0/node-00.json`` and so on.
    told
        Is called with a line for each restart.

    Raises
    ------
    InputError
        If there is no such testbed, or it cannot spare so many servers.
    JobError
        If a rank or a runtime has failed and the job may not begin anew: no spare is left, or the
        rank's exit code was 2, which says that its input is bad.
    """
    begun, shape = time.monotonic(), record.known(name)
    most = checked(shape, spares, restarts)
    servers = list(range(shape.servers - spares))
    waiting = list(range(shape.servers - spares, shape.servers))
    found: list[Restart] = []
    seen = begun
    with only_one(shape):
        while True:
            attempt = Attempt(tuple(servers), len(found), most)
            place = None if out is None else out / f"attempt-{len(found)}"
            try:
                with Job(name, settings, out=place, attempt=attempt) as job:
                    if found:
                        found[-1] = _begun(found[-1], seen, job)
                        told(str(found[-1]))
                    job.run(command)
                    nodes = [shape.nodes[server] for server in servers]
                    return Ran(job.team.ranks, nodes, found)
            except JobError as failed:
                if attempt.is_last or (failed.rank is not None and failed.code == BAD_INPUT):
                    raise
                if found and found[-1].runtimes_seconds is None:
                    told(str(found[-1]))  # its spare has failed before all runtimes ran
                ended, spare = time.monotonic(), waiting.pop(0)
                found.append(
                    Restart(
                        str(failed), failed.rank, shape.nodes[failed.server], shape.nodes[spare],
                        failed.seen - begun, ended - failed.seen,
                    )
                )  # fmt: skip
                servers[servers.index(failed.server)] = spare
                seen = failed.seen


def _begun(restart: Restart, seen: float, job: Job) -> Restart:
    def since(moment: float | None) -> float | None:
        return None if moment is None else moment - seen

    return replace(
        restart, runtimes_seconds=since(job.listening), agents_seconds=since(job.met)
    )  # fmt: skip


def checked(shape: Shape, spares: int, restarts: int | None = None) -> int:
    """Return how often a job may begin anew on a testbed.

    Raises
    ------
    InputError
        If the testbed cannot spare so many servers, or there are more restarts than spares.

    Examples
    --------
    >>> checked(Shape(servers=4), 2), checked(Shape(servers=4), 2, 1)
    (2, 1)
    >>> checked(Shape(servers=4), 3)
    Traceback (most recent call last):
    ...
    lightloom.errors.InputError: --spares: 3: must be from 0 to 2: two servers at least take part
    """
    if shape.eps == "railx" and spares:
        raise InputError(
            f"--spares: {spares}: must be 0 on a grid of RailX: `lightloom testbed railx --lost` "
            "places jobs around a node that is lost"
        )
    if not 0 <= spares <= shape.servers - 2:
        raise InputError(
            f"--spares: {spares}: must be from 0 to {shape.servers - 2}: two servers at least take "
            "part"
        )
    if restarts is None:
        return spares
    if not 0 <= restarts <= spares:
        raise InputError(
            f"--restarts: {restarts}: must be from 0 to {spares}: each restart takes a spare"
        )
    return restarts
