"""A job on a testbed: how its runtimes and ranks are started, and ended."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from lightloom import daemon
from lightloom.errors import InputError, RunError
from lightloom.testbed import record, system
from lightloom.testbed.lock import only_one
from lightloom.testbed.planner import Planner
from lightloom.testbed.runtimes import Settings, description
from lightloom.testbed.team import team

# Where a job's own programs may meet.
MEETING_PORT = 29500
# Ranks and runtimes that were told to end have so long for it [s].
GRACE_S = 5.0
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

    Attributes
    ----------
    shape
        The testbed.
    team
        Who takes part.
    directory
        The job's file, the runtimes' sockets and logs.

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
    ) -> None:
        self.shape = record.known(name)
        self.team = team(self.shape, number)
        self.directory = record.place(name) / "job"
        self._settings = settings or Settings()
        self._out = None if out is None else _made(out)
        self._runtimes: list[subprocess.Popen[bytes]] = []
        self._ranks: list[subprocess.Popen[bytes]] = []
        self._planner: Path | None = None
        self._open = contextlib.ExitStack()

    def __enter__(self) -> Job:
        """Start the runtimes."""
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
            _end(self._ranks)
            _end(self._runtimes)
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
        late = self._until_said("listening at", START_S)
        if late:
            raise RunError(f"the runtime of {late[0]} does not start: {self._last(late[0])}")
        if self.team.optical_nics:
            # Agents come one after the other, and each changes what circuits there can be.
            for node in self._until_said("the agent has met the controller", AGENT_S):
                print(
                    f"lightloom: the agent of {node} has not met the controller in {AGENT_S:g} s: "
                    "its NICs have no circuits until it does",
                    file=sys.stderr,
                )

    def _until_said(self, line: str, seconds: float) -> list[str]:
        """Return the servers whose runtimes have not said this in time; RunError if one ends."""
        until = time.monotonic() + seconds
        late = []
        for (_, node), runtime in zip(self._servers(), self._runtimes, strict=True):
            while line not in self.log(node, "out").read_text():
                if runtime.poll() is not None:
                    raise RunError(f"the runtime of {node} does not start: {self._last(node)}")
                if time.monotonic() > until:
                    late.append(node)
                    break
                time.sleep(0.01)
        return late

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

    def _last(self, node: str) -> str:
        return (self.log(node).read_text().strip().splitlines() or ["it has ended"])[-1]

    def log(self, node: str, kind: str = "log") -> Path:
        """Return the file of what a server's runtime says."""
        return self.directory / f"{node}.{kind}"

    def socket(self, server: int) -> Path:
        """Return where a server's ranks connect."""
        return self.directory / f"{self.shape.nodes[server]}.sock"

    def metrics(self, server: int) -> Path:
        """Return the Unix socket where a server's runtime answers Prometheus."""
        return self.directory / f"{self.shape.nodes[server]}.metrics"

    def variables(self, rank: int) -> dict[str, str]:
        """Return what a rank finds in its environment, by the names that PyTorch has, too."""
        at, local = divmod(rank, self.shape.ranks_per_server)
        return {
            "RANK": str(rank),
            "WORLD_SIZE": str(self.team.ranks),
            "LOCAL_RANK": str(local),
            "LOCAL_WORLD_SIZE": str(self.shape.ranks_per_server),
            "GROUP_RANK": str(at),
            "MASTER_ADDR": self.team.nics[0][0][0],
            "MASTER_PORT": str(MEETING_PORT),
            "LIGHTLOOM_RUNTIME": str(self.socket(self.team.servers[at])),
            **({"LIGHTLOOM_PLANNER": str(self._planner)} if self._planner else {}),
            # gloo, which takes one for each collective in turn: all packet NICs.
            "GLOO_SOCKET_IFNAME": os.environ.get("GLOO_SOCKET_IFNAME")
            or ",".join(nic.name for nic in self.shape.packet(self.team.servers[at])),
        }

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
        RunError
            If a rank or a runtime has failed; the others are told to end.
        """
        if shutil.which(command[0]) is None:
            raise InputError(f"{command[0]}: is no program on the PATH")
        shape = self.shape
        for rank in range(self.team.ranks):
            place = shape.namespace(self.team.servers[rank // shape.ranks_per_server])
            self._ranks.append(
                subprocess.Popen(
                    system.within(place, *command), stdin=subprocess.DEVNULL,
                    env=os.environ | self.variables(rank) | dict(more or {}),
                    start_new_session=True,
                )
            )  # fmt: skip
        self._wait()

    def _wait(self) -> None:
        while True:
            for rank, process in enumerate(self._ranks):
                if process.poll() not in (None, 0):
                    self._give_others_time(GRACE_S)
                    raise RunError(f"rank {rank} has ended with {_code(process)}")
            for (_, node), runtime in zip(self._servers(), self._runtimes, strict=True):
                if runtime.poll() not in (None, 0):
                    # Servers hear nothing more of it: that takes them so long to believe.
                    self._give_others_time(self._settings.lost_ms / 1000 + GRACE_S)
                    raise RunError(f"the runtime of {node} has ended: {self._last(node)}")
            if all(process.poll() == 0 for process in self._ranks):
                if self._out is not None:
                    self._await_results()
                return
            time.sleep(0.01)

    def _await_results(self) -> None:
        """Wait until runtimes have said what they counted: they end after their ranks."""
        until = time.monotonic() + GRACE_S
        for (_, node), runtime in zip(self._servers(), self._runtimes, strict=True):
            while runtime.poll() is None:
                if time.monotonic() > until:
                    raise RunError(f"the runtime of {node} does not end")
                time.sleep(0.01)
            if runtime.poll():
                raise RunError(f"the runtime of {node} has ended: {self._last(node)}")

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


def _code(process: subprocess.Popen[bytes]) -> str:
    code = process.returncode
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name


def _end(processes: list[subprocess.Popen[bytes]]) -> None:
    """End processes and what they have started: politely, then not."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in _alive(processes):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
        until = time.monotonic() + GRACE_S
        while any(True for _ in _alive(processes)) and time.monotonic() < until:
            time.sleep(0.01)
    processes.clear()


def _alive(processes: list[subprocess.Popen[bytes]]) -> Iterator[subprocess.Popen[bytes]]:
    return (process for process in processes if process.poll() is None)
