"""Runtimes of a few servers on this machine's loopback, and programs as their ranks: no root."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lightloom import daemon
from ports import free_port

SERVERS, RANKS_PER_SERVER, NICS = 2, 2, 2
RANKS = SERVERS * RANKS_PER_SERVER


@contextmanager
def runtimes(place: Path, servers: int = SERVERS) -> Iterator[list[Path]]:
    """Start a runtime a server in a directory; yield their sockets. Nothing is left at the end."""
    port = free_port()
    job = {
        "job": secrets.randbits(60), "secret": secrets.token_hex(16), "path": "stripe",
        "ranks_per_server": RANKS_PER_SERVER, "packet_nics": NICS, "optical_nics": 0,
        "algorithm": "direct", "round": 0, "chunk": 65536, "lost_ms": 5000,
        "servers": [
            {
                "name": f"node-{server}", "life": 1,
                "nics": [
                    {"address": f"127.{10 + nic}.{server}.1:{port}", "device": None}
                    for nic in range(NICS)
                ],
            }
            for server in range(servers)
        ],
    }  # fmt: skip
    (place / "job.json").write_text(json.dumps(job))
    sockets = [place / f"{server}.sock" for server in range(servers)]
    running = []
    try:
        for server, path in enumerate(sockets):
            words = [daemon.find(), "runtime", "serve", "--job", str(place / "job.json")]
            words += ["--server", f"node-{server}", "--socket", str(path)]
            with (place / f"{server}.log").open("wb") as log:
                running.append(subprocess.Popen(words, stdout=log, stderr=log))
        until = time.monotonic() + 30
        while not all(path.exists() for path in sockets):
            assert time.monotonic() < until, "no runtime listens"
            time.sleep(0.02)
        yield sockets
    finally:
        for process in running:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def runtime(socket: Path) -> int:
    """Return the process of the runtime that listens there."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_text().split("\0")
        except OSError:
            continue
        if words[1:3] == ["runtime", "serve"] and str(socket) in words:
            return int(path.parent.name)
    raise AssertionError(f"no runtime listens at {socket}")


def run(
    place: Path, sockets: Sequence[Path], program: Sequence[str], seconds: float,
    meanwhile: Callable[[list[int]], bool] = lambda _: True, **more: str
) -> list[tuple[int, str]]:  # fmt: skip
    """Run a program as every rank; return exit codes and what was said. None outlives this.

    Until it is true, `meanwhile` is called again and again with the ranks' processes.
    """
    ranks, port = len(sockets) * RANKS_PER_SERVER, free_port()
    processes: list[subprocess.Popen[bytes]] = []
    logs = [place / f"rank-{rank}.log" for rank in range(ranks)]
    try:
        for rank, log in enumerate(logs):
            variables = {
                "RANK": str(rank), "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1",
                "LIGHTLOOM_RUNTIME": str(sockets[rank // RANKS_PER_SERVER]),
            }  # fmt: skip
            with log.open("wb") as out:
                processes.append(
                    subprocess.Popen(
                        program, env=os.environ | variables | more, stdout=out, stderr=out,
                        start_new_session=True,
                    )
                )  # fmt: skip
        until, pids = time.monotonic() + seconds, [process.pid for process in processes]
        over = False
        while any(one.poll() is None for one in processes) and time.monotonic() < until:
            over = over or meanwhile(pids)
            time.sleep(0.05)
    finally:
        for process in processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    said = [log.read_text(errors="replace") for log in logs]
    return list(zip([process.returncode for process in processes], said, strict=True))
