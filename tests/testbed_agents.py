"""Agents of a testbed's servers, for its tests."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import threading
from pathlib import Path
from typing import Any

from lightloom import daemon
from lightloom.testbed import record, system
from lightloom.testbed.shape import Shape
from testbed_flows import Within

CLOCK = {
    "boot": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
    "time_namespace": os.readlink("/proc/self/ns/time"),
    "boottime_offset": "0 0",
}


class Agent:
    """A server's agent with a runtime that follows at once, and sends nothing of its own accord."""

    def __init__(self, bed: Shape, server: int, within: Within = system.within) -> None:
        words = [daemon.find(), "--log-level", "warn", "agent", "serve"]
        words += ["--server", bed.nodes[server], "--drained"]
        words += ["--token-file", str(record.token_file(bed.name))]
        if bed.crossbar == "bpf":
            words += ["--filter", str(record.place(bed.name) / "bpf" / bed.nodes[server])]
        self.process = subprocess.Popen(
            within(bed.ocs, *words),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.uses: queue.Queue[dict[str, Any]] = queue.Queue()
        self.say({"runtime": CLOCK})
        threading.Thread(target=self.follow, daemon=True).start()

    def say(self, line: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(line) + "\n")
        self.process.stdin.flush()

    def follow(self) -> None:
        assert self.process.stdout is not None
        for text in self.process.stdout:
            if use := json.loads(text).get("use"):
                with contextlib.suppress(BrokenPipeError):  # the agent has ended
                    self.say({"using": {"number": use["number"]}})
                self.uses.put(use)

    def circuits(self, round: int, some: bool) -> list[Any]:
        """Return the circuits to use once a round is answered; with `some`, by any circuits."""
        while True:
            use = self.uses.get(timeout=20)
            answered = use["round"] >= round and use["stage"] == "resume"
            # While the other server has not been heard yet, there are none.
            if answered and (any(use["circuits"]) or not some):
                return list(use["circuits"])


def ask(agents: list[Agent], round: int, pair: tuple[int, int]) -> list[list[Any]]:
    """Ask for circuits between two servers; return those of every server."""
    for server, agent in enumerate(agents):
        sends = [0] * len(agents)
        if server in pair:
            sends[pair[1 - pair.index(server)]] = 10**9
        agent.say({"demand": {"round": round, "bytes": sends}})
    return [agent.circuits(round, server in pair) for server, agent in enumerate(agents)]
