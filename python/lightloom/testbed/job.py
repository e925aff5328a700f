"""A job on a testbed: what its runtimes are told, and how runtimes and ranks are started."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lightloom import daemon
from lightloom.errors import InputError, RunError
from lightloom.testbed import record, system
from lightloom.testbed.shape import Nic, Shape

# Where runtimes listen, at each NIC; where a job's own programs may meet.
PORT, MEETING_PORT = 9100, 29500
CHUNK_BYTES = 1 << 16
# A server that says nothing for so long is lost.
LOST_MS = 15_000
# Ranks and runtimes that were told to end have so long for it [s].
GRACE_S = 5.0


@dataclass(frozen=True)
class Settings:
    """How a job's runtimes move bytes.

    Attributes
    ----------
    path
        How bytes are shared over NICs, unless an all-to-all says otherwise.
    algorithm
        ``direct``, or ``ring``: how collectives that are no all-to-all go.
    chunk_bytes
        The longest chunk [B].
    parts
        Parts of an all-reduce, and of a ring's slices, that are under way at a time; 4 and 2 unless
        given.
    lost_ms
        A server that says nothing for so long is lost [ms].
    spread
        For comparing schemes: ``ways``, ``window`` and ``balancers``, as the job's file has them
        (``crates/runtime/src/ranks/job.rs``).
    filter, fence, relays
        For tests that show what they are for: whether the lease's end is in a filter at optical
        NICs, whether runtimes wait for what is under way before they say that ports are drained,
        and whether they hand on what a server cannot send by itself.
    """

    path: str = "delegate"
    algorithm: str = "direct"
    chunk_bytes: int = CHUNK_BYTES
    parts: int | None = None
    lost_ms: int = LOST_MS
    spread: Mapping[str, object] | None = None
    filter: bool = True
    fence: bool = True
    relays: bool = True


def description(shape: Shape, settings: Settings) -> dict[str, object]:
    """Return a job's file, for ``lightloomd runtime serve``.

    Examples
    --------
    >>> job = description(Shape(servers=2, ocs_nics=1), Settings())
    >>> [nic["address"] for nic in job["servers"][1]["nics"]]
    ['10.64.1.1:9100', '10.96.1.1:9100']
    """

    def place(nic: Nic) -> dict[str, str]:
        return {"address": f"{nic.address}:{PORT}", "device": nic.name}

    servers = [
        {
            "name": node,
            "life": 1,
            "nics": [place(nic) for nic in (*shape.packet(server), *shape.optical(server))],
        }
        for server, node in enumerate(shape.nodes)
    ]
    return {
        "job": secrets.randbits(63),
        "secret": secrets.token_hex(32),
        "servers": servers,
        "ranks_per_server": shape.ranks_per_server,
        "packet_nics": shape.eps_nics,
        "optical_nics": shape.ocs_nics,
        "path": settings.path,
        "algorithm": settings.algorithm,
        # Later than any round of a job before.
        "round": time.time_ns() // 1_000_000,
        "chunk": settings.chunk_bytes,
        "parts": settings.parts,
        "lost_ms": settings.lost_ms,
        "relays": settings.relays,
        **({"spread": settings.spread} if settings.spread else {}),
    }


class Job:
    """A job under way: a runtime a server, and processes as ranks.

    Use it in a ``with``: at its end all of its processes have ended, and its directory is removed.

    Parameters
    ----------
    name
        The testbed's name.
    settings
        How bytes are moved.
    out
        A directory for what each runtime has counted, a JSON file a server; it is made if it is not
        there.

    Attributes
    ----------
    shape
        The testbed.
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
        self, name: str, settings: Settings | None = None, out: Path | None = None
    ) -> None:
        self.shape = record.known(name)
        self.directory = record.place(name) / "job"
        self._settings = settings or Settings()
        self._out = None if out is None else _made(out)
        self._runtimes: list[subprocess.Popen[bytes]] = []
        self._ranks: list[subprocess.Popen[bytes]] = []
        self._lock: int | None = None

    def __enter__(self) -> Job:
        """Start the runtimes."""
        place = record.place(self.shape.name)
        self._lock = os.open(place / "job.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise InputError(f"--name: {self.shape.name}: a job is on this testbed") from None
        try:
            shutil.rmtree(self.directory, ignore_errors=True)
            self.directory.mkdir(mode=0o700)
            file = self.directory / "job.json"
            file.touch(mode=0o600)
            file.write_text(json.dumps(description(self.shape, self._settings), indent=2))
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
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None

    def _start(self, program: str) -> None:
        shape = self.shape
        for server, node in enumerate(shape.nodes):
            agent = system.within(shape.ocs, program, "--log-level", "warn", "agent", "serve")
            agent += ["--server", node, "--controller", f"http://{record.CONTROLLER}"]
            agent += ["--token-file", str(record.token_file(shape.name)), *self._filter(node)]
            words = ["runtime", "serve", "--job", str(self.directory / "job.json")]
            words += ["--server", node, "--socket", str(self.socket(server))]
            words += ["--metrics", f"unix:{self.metrics(server)}"]
            words += [] if self._out is None else ["--result", str(self._out / f"{node}.json")]
            words += [] if self._settings.fence else ["--ignore-drains"]
            words += ["--", *agent]
            with self.log(node).open("wb") as log, self.log(node, "out").open("wb") as out:
                self._runtimes.append(
                    subprocess.Popen(
                        system.within(shape.namespace(server), program, *words),
                        stdin=subprocess.DEVNULL, stdout=out, stderr=log, start_new_session=True,
                    )
                )  # fmt: skip
        until = time.monotonic() + 20
        for node, runtime in zip(shape.nodes, self._runtimes, strict=True):
            while "listening" not in self.log(node, "out").read_text():
                if runtime.poll() is not None or time.monotonic() > until:
                    raise RunError(f"the runtime of {node} does not start: {self._last(node)}")
                time.sleep(0.01)

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
        server, local = divmod(rank, self.shape.ranks_per_server)
        return {
            "RANK": str(rank),
            "WORLD_SIZE": str(self.shape.servers * self.shape.ranks_per_server),
            "LOCAL_RANK": str(local),
            "LOCAL_WORLD_SIZE": str(self.shape.ranks_per_server),
            "GROUP_RANK": str(server),
            "MASTER_ADDR": self.shape.packet(0)[0].address,
            "MASTER_PORT": str(MEETING_PORT),
            "LIGHTLOOM_RUNTIME": str(self.socket(server)),
            # gloo, which takes one for each collective in turn: all packet NICs.
            "GLOO_SOCKET_IFNAME": os.environ.get("GLOO_SOCKET_IFNAME")
            or ",".join(nic.name for nic in self.shape.packet(server)),
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
        for rank in range(shape.servers * shape.ranks_per_server):
            place = shape.namespace(rank // shape.ranks_per_server)
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
            for node, runtime in zip(self.shape.nodes, self._runtimes, strict=True):
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
        for node, runtime in zip(self.shape.nodes, self._runtimes, strict=True):
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
