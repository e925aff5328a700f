"""A job on a testbed: how its runtimes and ranks are started, and ended."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from lightloom import daemon
from lightloom.errors import InputError, RunError
from lightloom.testbed import ends, record, system
from lightloom.testbed.alone import only_one
from lightloom.testbed.ends import GRACE_S, Ends, JobError
from lightloom.testbed.environment import Attempt, variables
from lightloom.testbed.planner import Planner
from lightloom.testbed.runtimes import Settings, description
from lightloom.testbed.team import team

# So long a runtime may take to start, and then its agent to meet the controller [s].
START_S = 20.0
AGENT_S = 5.0


class Job:
    """A job under way: a runtime a server, and processes as ranks.

    Use it in a ``with``: at its end all of its processes have ended, and its directory is removed.

    Parameters
    ----------
    name
        The testbed's name.
    settings
        How bytes are moved.
    number
        On a grid of RailX, which of its jobs takes part.
    out
        A directory for what each runtime has counted, a JSON file a server; it is made if it is not
        there.
    attempt
        Of several; without it all servers take part, once.

    Attributes
    ----------
    shape
        The testbed.
    team
        Who takes part.
    directory
        The job's file, the runtimes' sockets and logs.
    listening, met
        When all runtimes listened, and when all agents had met the controller, by
        ``time.monotonic`` [s]; `met` is none if one had not in time, or there are none.

    Raises
    ------
    InputError
        If there is no such testbed, or a job is on it, or `out` cannot be a directory.
    RunError
        If a runtime does not start; with the last line of its log.
    """

    def __init__(
        self,
        name: str,
        settings: Settings | None = None,
        number: int = 0,
        out: Path | None = None,
        attempt: Attempt | None = None,
    ) -> None:
        self.shape = record.known(name)
        self.team = team(self.shape, number, attempt.servers if attempt else None)
        self.listening: float | None = None
        self.met: float | None = None
        self.directory = record.place(name) / "job"
        self._settings = settings or Settings()
        self._out = None if out is None else _made(out)
        self._attempt = attempt
        self._runtimes: list[ends.Process] = []
        self._ranks: list[ends.Process] = []
        self._ends = Ends()
        self._planner: Path | None = None
        self._open = contextlib.ExitStack()

    def __enter__(self) -> Job:
        """Start the runtimes."""
        if self._attempt is None:
            self._open.enter_context(only_one(self.shape))
        try:
            shutil.rmtree(self.directory, ignore_errors=True)
            self.directory.mkdir(mode=0o700)
            file = self.directory / "job.json"
            file.touch(mode=0o600)
            file.write_text(
                json.dumps(description(self.shape, self._settings, self.team), indent=2)
            )
            if self.shape.planes is not None:
                planner = Planner(self.shape, self.directory)
                self._planner = self._open.enter_context(planner).socket
            self._start(daemon.find())
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """End what is left of it."""
        with system.uninterrupted():
            ends.end(self._ranks)
            ends.end(self._runtimes)
            self._ends.close()
            self._open.close()

    def _start(self, program: str) -> None:
        shape = self.shape
        for server, node in self._servers():
            words = ["runtime", "serve", "--job", str(self.directory / "job.json")]
            words += ["--server", node, "--socket", str(self.socket(server))]
            words += ["--metrics", f"unix:{self.metrics(server)}"]
            words += [] if self._out is None else ["--result", str(self._out / f"{node}.json")]
            words += [] if self._settings.fence else ["--ignore-drains"]
            words += ["--", *self._agent(program, node)] if self.team.optical_nics else []
            with self.log(node).open("wb") as log, self.log(node, "out").open("wb") as out:
                self._runtimes.append(
                    subprocess.Popen(
                        system.within(shape.namespace(server), program, *words),
                        stdin=subprocess.DEVNULL, stdout=out, stderr=log, start_new_session=True,
                    )
                )  # fmt: skip
            self._ends.add(self._runtimes[-1])
        for server in self._until_said("listening at", START_S):
            raise self._not_started(server, None)
        self.listening = time.monotonic()
        if not self.team.optical_nics:
            return
        # Agents come one after the other, and each changes what circuits there can be.
        late = self._until_said("the agent has met the controller", AGENT_S)
        for server in late:
            sys.stderr.write(
                f"lightloom: the agent of {shape.nodes[server]} has not met the controller in "
                f"{AGENT_S:g} s: its NICs have no circuits until it does\n"
            )
        self.met = None if late else time.monotonic()

    def _until_said(self, line: str, seconds: float) -> list[int]:
        """Return the servers whose runtimes have not said this in time; `JobError` if one ends."""
        until = time.monotonic() + seconds
        late = []
        for (server, node), runtime in zip(self._servers(), self._runtimes, strict=True):
            while line not in self.log(node, "out").read_text():
                if runtime.poll() is not None:
                    raise self._not_started(server, runtime.returncode)
                if time.monotonic() > until:
                    late.append(server)
                    break
                time.sleep(0.01)
        return late

    def _not_started(self, server: int, code: int | None) -> JobError:
        node = self.shape.nodes[server]
        why = f"the runtime of {node} does not start{self._said(node)}"
        return JobError(why, server, None, code)

    def _servers(self) -> list[tuple[int, str]]:
        """Return the number and the name of each server that takes part."""
        return [(server, self.shape.nodes[server]) for server in self.team.servers]

    def _agent(self, program: str, node: str) -> list[str]:
        shape = self.shape
        words = system.within(shape.ocs, program, "--log-level", "warn", "agent", "serve")
        words += ["--server", node, "--controller", f"http://{record.CONTROLLER}"]
        return [
            *words, "--token-file", str(record.token_file(shape.name)), *self._filter(node)
        ]  # fmt: skip

    def _filter(self, node: str) -> list[str]:
        pins = record.place(self.shape.name) / "bpf" / node
        return ["--filter", str(pins)] if pins.exists() and self._settings.filter else []

    def _said(self, node: str) -> str:
        """Return the last line of a runtime's log, to be put after what has happened."""
        lines = self.log(node).read_text().strip().splitlines()
        return f": {lines[-1]}" if lines else ""

    def log(self, node: str, kind: str = "log") -> Path:
        """Return the file of what a server's runtime says."""
        return self.directory / f"{node}.{kind}"

    def socket(self, server: int) -> Path:
        """Return where a server's ranks connect."""
        return self.directory / f"{self.shape.nodes[server]}.sock"

    def metrics(self, server: int) -> Path:
        """Return the Unix socket where a server's runtime answers Prometheus."""
        return self.directory / f"{self.shape.nodes[server]}.metrics"

    def run(self, command: Sequence[str], more: Mapping[str, str] | None = None) -> None:
        """Run a command as every rank, in its server's namespace, and wait for all.

        Parameters
        ----------
        command
            The program and its arguments.
        more
            What every rank finds in its environment besides.

        Raises
        ------
        InputError
            If there is no such program.
        JobError
            If a rank or a runtime has failed, the first one of them; the others are told to end.
        """
        if shutil.which(command[0]) is None:
            raise InputError(f"{command[0]}: is no program on the PATH")
        shape, attempt = self.shape, self._attempt or Attempt(self.team.servers)
        for rank in range(self.team.ranks):
            server = self.team.servers[rank // shape.ranks_per_server]
            place = shape.namespace(server)
            own = variables(shape, self.team, rank, self.socket(server), attempt)
            if self._planner is not None:
                own["LIGHTLOOM_PLANNER"] = str(self._planner)
            self._ranks.append(
                subprocess.Popen(
                    system.within(place, *command), stdin=subprocess.DEVNULL,
                    env=os.environ | own | dict(more or {}),
                    start_new_session=True,
                )
            )  # fmt: skip
            self._ends.add(self._ranks[-1])
        self._wait()

    def _wait(self) -> None:
        """Wait until all ranks are done."""
        left = len(self._ranks)
        while left:
            for process in self._ends.wait():
                if process.returncode:
                    raise self._failed(process)
                left -= process in self._ranks
        if self._out is not None:
            self._await_results()

    def _failed(self, process: ends.Process) -> JobError:
        """Say what a process's end means, once the others could hear of it if nothing follows."""
        if process in self._ranks:
            rank, seconds = self._ranks.index(process), GRACE_S
            server = self.team.servers[rank // self.shape.ranks_per_server]
            failed = JobError(
                f"rank {rank} has ended with {ends.how(process)}", server, rank, process.returncode
            )
        else:
            server = self.team.servers[self._runtimes.index(process)]
            node = self.shape.nodes[server]
            # Servers hear nothing more of it: that takes them so long to believe.
            seconds = self._settings.lost_ms / 1000 + GRACE_S
            why = f"the runtime of {node} has ended with {ends.how(process)}{self._said(node)}"
            failed = JobError(why, server, None, process.returncode)
        if self._attempt is None or self._attempt.is_last:
            self._give_others_time(seconds)
        return failed

    def _await_results(self) -> None:
        """Wait until runtimes have said what they counted: they end after their ranks."""
        until = time.monotonic() + GRACE_S
        for (_, node), runtime in zip(self._servers(), self._runtimes, strict=True):
            while runtime.poll() is None:
                if time.monotonic() > until:
                    raise RunError(f"the runtime of {node} does not end")
                time.sleep(0.01)
            if runtime.poll():
                raise RunError(f"the runtime of {node} has ended{self._said(node)}")

    def _give_others_time(self, seconds: float) -> None:
        """Let the others hear of it, and say so."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and any(rank.poll() is None for rank in self._ranks):
            time.sleep(0.02)


def _made(out: Path) -> Path:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--out: {out}: must be a directory: {error.strerror}") from None
    return out.resolve()
