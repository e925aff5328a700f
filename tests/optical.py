"""Emulated optical switches as processes, and what an own TL1 session sees of their light."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

LIGHTLOOM = str(Path(sys.executable).with_name("lightloom"))
LIGHTLOOMD = str(Path(sys.executable).with_name("lightloomd"))
DARK = -40.0
"""Less power at an egress is no light [dBm]."""


@contextlib.contextmanager
def switch(*words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Serve an emulated switch with light at every ingress: the process and its address."""
    process = subprocess.Popen(
        [LIGHTLOOMD, "--log-level", "error", "ocs", "serve", "--listen", "127.0.0.1:0",
         "--light", "0", *words],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        yield process, json.loads(process.stdout.readline())["listening"]
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


class Session:
    """A stream to a switch, logged in."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=20)
        self.number = 0
        assert "COMPLD" in self.ask("ACT-USER::root", "::root")
        assert "COMPLD" in self.ask("INH-MSG-ALL::", ":")

    def ask(self, command: str, rest: str = ":") -> str:
        """Send a command; return what comes until it is answered."""
        self.number += 1
        self.socket.sendall(f"{command}:{self.number}{rest};".encode())
        heard = ""
        while not re.search(rf"M  {self.number} [A-Z]+[^;]*;\s*$", heard):
            more = self.socket.recv(1 << 16)
            assert more, f"closed after {heard!r}"
            heard += more.decode()
        return heard

    def patches(self) -> set[tuple[int, int]]:
        """Return (ingress, egress) of each patch that stands, or is being set."""
        found = re.findall(r'"(\d+),(\d+)"', self.ask("RTRV-PATCH::"))
        return {(int(a), int(b)) for a, b in found}

    def lit(self, ports: int) -> set[tuple[int, int]]:
        """Return the patches over which light goes."""
        before = self.patches()
        power = self.ask(f"RTRV-PORT-POWER::{ports + 1}&&{2 * ports}")
        light = {int(port) for port, dbm in re.findall(r'"(\d+):(-?[\d.]+)"', power)
                 if float(dbm) > DARK}  # fmt: skip
        return {patch for patch in before & self.patches() if patch[1] in light}

    def close(self) -> None:
        """End the session."""
        self.socket.close()


@dataclass
class Sampler:
    """Looks at a switch again and again, on a thread of its own."""

    address: str
    ports: int
    samples: list[tuple[int, int, set[tuple[int, int]]]] = field(default_factory=list)
    """From when to when it was looked at, CLOCK_BOOTTIME [ns], and what was lit."""
    _over: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Sampler:
        self._thread = threading.Thread(target=self._look)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        session = Session(self.address)
        while not self._over.is_set():
            began = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
            lit = session.lit(self.ports)
            self.samples.append((began, time.clock_gettime_ns(time.CLOCK_BOOTTIME), lit))
        session.close()
