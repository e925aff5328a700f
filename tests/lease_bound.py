"""Is a byte ever sent on a circuit that is not lit? Real processes, stopped and killed.

    python tests/lease_bound.py --rounds 100

An emulated switch (``lightloomd ocs serve``), a controller, and for each of four servers an agent
and an emulated runtime that sends all the time over what it may use and logs every send. Demand
changes all the time, and so do circuits. In each round something is stopped (SIGSTOP) or killed
(SIGKILL). A TL1 session of its own reads the switch every few milliseconds. A send is *dark* if its
circuit's ports lead nowhere, and *misdirected* if they lead elsewhere, both at the last look before
it and at the first after it. If these are more than 50 ms apart, circuits may have come and gone
between them: it is *unseen*, and counted apart.

Sends count from when the runtime looked at the clock. One that was stopped between that and its
``send`` is late: how many of these went into the dark is counted apart, for no process can prevent
it.

With ``--filter`` a filter stands at each optical NIC (``lightloomd filter``; this needs root, and
is done in a network namespace of its own). Then each send is a frame, too, and what is judged is
every frame that arrives at the other end of the NIC: late ones, too, and those of runtimes that
ignore the lease's end (``--ignore-lease-end``).

The exit code is 0 if nothing that is judged was dark or misdirected, 1 if something was, 2 for bad
input, 3 if no filter can stand here.
"""

from __future__ import annotations

import argparse
import bisect
import contextlib
import json
import os
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lightloom.control.client import Client
from ports import free_port

SERVERS, DEGREE = 4, 2
PORTS = SERVERS * DEGREE
REGION = """
name = "lease-bound"
[listen]
address = "127.0.0.1:{listen}"
[switch]
protocol = "tl1"
address = "127.0.0.1:{switch}"
ports = {ports}
[servers]
count = {servers}
ports_each = {degree}
[decision]
hysteresis = false
packet_nics = 1
[timing]
lease = "{lease_ms} ms"
grace = "{grace_ms} ms"
patience = "500 ms"
lifetime = "300 ms"
reconnect = "50 ms"
audit = "1 s"
retry = "2 s"
"""
ALIKE = ("agents frozen", "controller frozen", "switch frozen", "runtime frozen", "agents killed",
         "controller killed", "switch killed", "runtime killed", "all killed")  # fmt: skip
APART_NS = 50_000_000
"""Between looks that are further apart, circuits may come and go unseen."""


def now_ns() -> int:
    """Return CLOCK_BOOTTIME, by which runtimes log."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


@dataclass
class Look:
    """What the switch held at some moment from ``began`` to ``ended``: where each port leads."""

    began: int
    ended: int
    leads: dict[int, int]


@dataclass
class Eye:
    """A TL1 session that reads the switch all the time, and opens anew when it breaks."""

    port: int
    looks: list[Look] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def watch(self) -> None:
        """Read until it is over."""
        while not self.over.is_set():
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=30) as stream:
                    self.ask(stream, "ACT-USER::root:1::root;")
                    self.ask(stream, "INH-MSG-ALL:::1:;")
                    while not self.over.is_set():
                        began = now_ns()
                        answer = self.ask(stream, "RTRV-PATCH:::1:;")
                        pairs = re.findall(r'"(\d+),(\d+)"', answer)
                        leads = {int(a): int(b) - PORTS for a, b in pairs}
                        self.looks.append(Look(began, now_ns(), leads))
                        time.sleep(0.003)
            except OSError:
                time.sleep(0.02)

    @staticmethod
    def ask(stream: socket.socket, command: str) -> str:
        stream.sendall(command.encode())
        heard = ""
        while not re.search(r"M  1 (COMPLD|DENY)[^;]*;", heard):
            more = stream.recv(65536)
            if not more:
                raise OSError("closed")
            heard += more.decode()
        return heard


def nic(server: int, port: int) -> str:
    """Return the name of a port's NIC; its other end has an ``x`` behind."""
    return f"nic{server}-{port}"


@dataclass
class Net:
    """A veth pair for each optical port, the servers' filters, and all frames that got through."""

    program: str
    place: Path
    frames: list[dict[str, Any]] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def up(self) -> None:
        """Make NICs in this network namespace, attach filters, and listen."""
        self.place.mkdir()
        call("mount", "-t", "bpf", "bpf", str(self.place))
        call("ip", "link", "set", "lo", "up")
        quiet = Path("/proc/sys/net/ipv6/conf/default/disable_ipv6")
        if quiet.exists():  # nothing is sent but by runtimes
            quiet.write_text("1")
        for server in range(SERVERS):
            names = [nic(server, port) for port in range(DEGREE)]
            for name in names:
                call("ip", "link", "add", name, "type", "veth", "peer", "name", f"{name}x")
                for end in (name, f"{name}x"):
                    call("ip", "link", "set", end, "up")
                threading.Thread(target=self.listen, args=(f"{name}x",), daemon=True).start()
            words = [word for name in names for word in ("--nic", name)]
            call(self.program, "filter", "attach", self.at(server), *words)

    def at(self, server: int) -> str:
        """Return where a server's filter is."""
        return str(self.place / f"server-{server}")

    def words(self, server: int) -> list[str]:
        """Return what a server's runtime is told of its NICs."""
        nics = [word for port in range(DEGREE) for word in ("--nic", nic(server, port))]
        return [*nics, "--filter", self.at(server)]

    def listen(self, end: str) -> None:
        """Keep every frame that arrives, with when the kernel got it."""
        ipv4, timestamps = 0x0800, 35
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ipv4)) as stream:
            stream.bind((end, ipv4))
            stream.setsockopt(socket.SOL_SOCKET, timestamps, 1)
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
            while not self.over.is_set():
                frame, extra, _, _ = stream.recvmsg(2048, 256)
                seconds, nanos = struct.unpack("qq", extra[0][2])
                ahead = time.time_ns() - now_ns()
                ns = seconds * 10**9 + nanos - ahead
                self.frames.append(json.loads(frame[42:]) | {"ns": ns, "sent_ns": ns})

    def refused(self) -> int:
        """Return how many frames the filters have refused."""
        ports = [
            json.loads(line)
            for server in range(SERVERS)
            for line in call(self.program, "filter", "show", "--json", self.at(server)).splitlines()
        ]
        return sum(port["refused"] for port in ports)

    def new_frames(self) -> list[dict[str, Any]]:
        """Return what arrived since the last time."""
        frames, self.frames = self.frames, []
        return sorted(frames, key=lambda frame: int(frame["ns"]))


def call(*words: str) -> str:
    """Run a command, and return what it prints."""
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        tell(f"no filter can stand here: {' '.join(words)}: {done.stderr.strip()}")
        raise SystemExit(3)
    return done.stdout


@dataclass
class Verdict:
    """What became of sends."""

    sends: int = 0
    frames: int = 0
    dark: int = 0
    misdirected: int = 0
    late: int = 0
    unseen: int = 0
    plans: int = 0
    examples: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.sends} sends of {self.plans} plans, {self.dark} dark, "
            f"{self.misdirected} misdirected, {self.late} late, {self.unseen} unseen"
        )

    @property
    def violations(self) -> int:
        return self.dark + self.misdirected


def judge(sends: list[dict[str, Any]], looks: list[Look]) -> Verdict:
    """Compare what was sent with what was seen before and after it."""
    verdict = Verdict(len(sends), plans=len({send["generation"] for send in sends}))
    began, ended = [look.began for look in looks], [look.ended for look in looks]

    def wrong(send: dict[str, Any], ns: int) -> str | None:
        before, after = bisect.bisect_right(ended, ns) - 1, bisect.bisect_left(began, ns)
        if before < 0 or after >= len(looks):
            return None
        here = send["server"] * DEGREE + send["port"] + 1
        there = send["peer"][0] * DEGREE + send["peer"][1] + 1
        seen = [looks[at].leads for at in (before, after)]
        if any((leads.get(here), leads.get(there)) == (there, here) for leads in seen):
            return None
        if looks[after].began - looks[before].ended > APART_NS:
            return "unseen"
        elsewhere = all(leads.get(here, there) != there for leads in seen)
        return "misdirected" if elsewhere else "dark"

    for send in sends:
        if kind := wrong(send, send["ns"]):
            setattr(verdict, kind, getattr(verdict, kind) + 1)
            if len(verdict.examples) < 5:
                verdict.examples.append(f"{kind}: {send}")
        elif send["sent_ns"] - send["ns"] > 1_000_000:
            verdict.late += wrong(send, send["sent_ns"]) in ("dark", "misdirected")
    return verdict


class World:
    """A region and all its processes."""

    def __init__(
        self,
        place: Path,
        lightloomd: str,
        lease_ms: int,
        grace_ms: int,
        *more: str,
        net: Net | None = None,
    ) -> None:
        self.place, self.program, self.more, self.net = place, lightloomd, more, net
        self.grace_s, self.lease_s = grace_ms / 1000, lease_ms / 1000
        self.switch_port = free_port()
        self.file = place / "region.toml"
        self.file.write_text(
            REGION.format(
                listen=free_port(), switch=self.switch_port, ports=PORTS, servers=SERVERS,
                degree=DEGREE, lease_ms=lease_ms, grace_ms=grace_ms,
            )
        )  # fmt: skip
        self.url = "http://" + re.findall(r'address = "([^"]+)"', self.file.read_text())[0]
        self.running: dict[str, subprocess.Popen[str]] = {}
        self.agents: dict[int, int] = {}
        self.read = [0] * SERVERS
        self.last = [0] * SERVERS
        self.eye = Eye(self.switch_port)
        self.watching = threading.Thread(target=self.eye.watch, daemon=True)

    def __enter__(self) -> World:
        try:
            self.start_all()
            self.watching.start()
            self.settle()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.eye.over.set()
        for process in self.running.values():
            process.send_signal(signal.SIGCONT)
            process.kill()
        for process in self.running.values():
            process.wait()
        for pid in self.agents.values():  # one that is stopped does not see that its input ends
            self.signal_agent(pid, signal.SIGCONT)

    def sends_of(self, server: int) -> Path:
        return self.place / f"sends-{server}.jsonl"

    def start(self, name: str, *words: str) -> subprocess.Popen[str]:
        errors = (self.place / f"{name}.log").open("a")
        process = subprocess.Popen(
            [self.program, "--log-level", "warn", *words],
            stdout=subprocess.PIPE, stderr=errors, stdin=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        errors.close()
        self.running[name] = process
        return process

    def start_switch(self) -> None:
        self.start_listening(
            "switch", "ocs", "serve", "--ports", str(PORTS), "--delay", "5 ms",
            "--listen", f"127.0.0.1:{self.switch_port}", "--state", str(self.place / "switch.json"),
        )  # fmt: skip

    def start_controller(self) -> None:
        self.start_listening("controller", "controller", "serve", str(self.file))

    def start_listening(self, name: str, *words: str) -> None:
        """Start a daemon and wait until it listens; a port may be taken for a moment."""
        for _ in range(20):
            process = self.start(name, *words)
            assert process.stdout is not None
            if "listening" in process.stdout.readline():
                return
            process.wait()
            time.sleep(0.1)
        raise SystemExit(f"{name} does not start: {(self.place / f'{name}.log').read_text()}")

    def start_runtime(self, server: int) -> None:
        words = ["--server", f"node-{server:02}", "--controller", self.url, "--every", "4 ms",
                 "--round", "300 ms", "--sends", str(self.sends_of(server))]  # fmt: skip
        words += self.net.words(server) if self.net else []
        process = self.start(f"runtime-{server}", "runtime-emulator", *words, *self.more)

        def follow() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                self.agents[server] = json.loads(line)["agent"]["pid"]

        threading.Thread(target=follow, daemon=True).start()

    def start_all(self) -> None:
        self.start_switch()
        self.start_controller()
        for server in range(SERVERS):
            self.start_runtime(server)

    def kill(self, *names: str) -> None:
        """As ``kill -9`` does."""
        for name in names:
            self.running[name].kill()
        for name in names:
            self.running[name].wait()

    @staticmethod
    def signal_agent(pid: int, which: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, which)

    def new_sends(self) -> list[dict[str, Any]]:
        """Return what has been logged since the last time."""
        sends = []
        for server in range(SERVERS):
            path = self.sends_of(server)
            if not path.exists():
                continue
            with path.open("rb") as file:
                file.seek(self.read[server])
                data = file.read()
            whole = data.rpartition(b"\n")[0]
            if whole:
                self.read[server] += len(whole) + 1
                lines = [json.loads(line) for line in whole.split(b"\n")]
                self.last[server] = lines[-1]["ns"]
                sends += lines
        return sends

    def settle(self, patience_s: float = 60.0) -> list[dict[str, Any]]:
        """Wait until every server sends; returns what was sent meanwhile."""
        since, sends = now_ns(), []
        until = time.monotonic() + patience_s
        while time.monotonic() < until:
            time.sleep(0.1)
            sends += self.new_sends()
            if all(last > since for last in self.last):
                return sends
        logs = "\n".join(path.read_text()[-500:] for path in self.place.glob("*.log"))
        raise SystemExit(f"servers do not send again: {self.last}, since {since}\n{logs}")

    def alarms(self) -> set[str]:
        """Return the alarms that are up, with the server if they are one's."""
        status = Client(self.url, timeout_s=10).get("/v1/status")
        return {json.dumps(alarm) for alarm in status["alarms"]}

    def stopped(self, name: str, seconds: float) -> None:
        self.running[name].send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self.running[name].send_signal(signal.SIGCONT)

    def go_wrong(self, what: str, dice: random.Random, frozen_s: float) -> None:
        """Stop or kill, and start again."""
        servers = dice.sample(range(SERVERS), dice.randint(1, 2))
        server, name = servers[0], f"runtime-{servers[0]}"
        if what == "agents frozen":
            pids = [self.agents[server] for server in servers]
            for pid in pids:
                self.signal_agent(pid, signal.SIGSTOP)
            time.sleep(frozen_s)
            for pid in pids:
                self.signal_agent(pid, signal.SIGCONT)
        elif what in ("controller frozen", "switch frozen"):
            self.stopped(what.split()[0], dice.uniform(0.3, 3) * self.lease_s)
        elif what == "runtime frozen":
            self.stopped(name, dice.uniform(0.3, 3) * self.lease_s)
        elif what == "agents killed":
            for server in servers:
                self.signal_agent(self.agents[server], signal.SIGKILL)
        elif what == "controller killed":
            self.kill("controller")
            time.sleep(dice.uniform(0, 2) * self.lease_s)
            self.start_controller()
        elif what == "switch killed":
            self.kill("switch")
            time.sleep(dice.uniform(0, 1) * self.lease_s)
            self.start_switch()
        elif what == "runtime killed":
            self.kill(name)
            time.sleep(self.grace_s)
            self.start_runtime(server)
        elif what == "all killed":
            for pid in self.agents.values():
                self.signal_agent(pid, signal.SIGKILL)
            self.kill(*self.running)
            time.sleep(self.grace_s)
            self.start_all()

    def round(self, what: str, dice: random.Random, frozen_s: float) -> Verdict:
        """Let one thing go wrong; return what became of what was sent until all was well."""
        time.sleep(dice.uniform(0, 0.3))
        sends = self.new_sends()
        self.go_wrong(what, dice, frozen_s)
        sends += self.settle()
        if self.net is None:
            verdict = judge(sends, self.eye.looks)
        else:
            time.sleep(0.05)  # a look after the last frame
            verdict = judge(self.net.new_frames(), self.eye.looks)
            verdict.sends, verdict.frames = len(sends), verdict.sends
        del self.eye.looks[:-100]
        return verdict


def rounds(
    world: World, kinds: list[str], seed: int, frozen_s: float, told: Callable[[str], None]
) -> Iterator[Verdict]:
    """Let one thing after the other go wrong."""
    dice = random.Random(seed)
    for number, what in enumerate(kinds, 1):
        began = time.monotonic()
        verdict = world.round(what, dice, frozen_s)
        took = time.monotonic() - began
        told(f"round {number}: {what}, {took:.1f} s: {verdict}")
        for example in verdict.examples:
            told(f"  {example}")
        yield verdict


def find() -> str:
    """Return the program beside this Python, or on the PATH."""
    beside = Path(sys.executable).with_name("lightloomd")
    found = str(beside) if beside.exists() else shutil.which("lightloomd")
    if found is None:
        raise SystemExit("no lightloomd beside this Python or on the PATH: make daemon")
    return found


def main() -> int:
    """Run as a script."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=18, help="how many things go wrong")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--frozen", type=float, default=8.0, help="seconds that agents are stopped")
    parser.add_argument("--ignore-lease-end", action="store_true", help="as runtimes without it")
    parser.add_argument("--what", choices=ALIKE, help="only this goes wrong")
    parser.add_argument("--filter", action="store_true", help="filters stand at the NICs")
    parser.add_argument("--apart", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.rounds < 1 or not 0 < given.frozen < 600:
        parser.error("--rounds must be 1 or more, --frozen between 0 and 600 s")
    alike = (given.what,) if given.what else ALIKE
    kinds = [alike[number % len(alike)] for number in range(given.rounds)]
    if given.filter and not given.apart:
        words = ["--net", "--mount", sys.executable, __file__, *sys.argv[1:], "--apart"]
        os.execvp("unshare", ["unshare", *words])
    lease_ms, grace_ms = 1000, 200
    more = ["--ignore-lease-end"] if given.ignore_lease_end else []
    with (
        tempfile.TemporaryDirectory(prefix="lease-bound-") as place,
        standing(Path(place), given.filter) as net,
        World(Path(place), find(), lease_ms, grace_ms, *more, net=net) as world,
    ):
        total = Verdict()
        for verdict in rounds(world, kinds, given.seed, given.frozen, tell):
            for key in ("sends", "frames", "plans", "dark", "misdirected", "late", "unseen"):
                setattr(total, key, getattr(total, key) + getattr(verdict, key))
        if net is not None:
            tell(f"filters: {net.refused()} frames refused, {total.frames} judged")
    tell(f"{given.rounds} rounds: {total}")
    return int(total.violations > 0)


@contextlib.contextmanager
def standing(place: Path, filters: bool) -> Iterator[Net | None]:
    """Return NICs with filters, if there are to be any."""
    if not filters:
        yield None
        return
    net = Net(find(), place / "bpf")
    net.up()
    try:
        yield net
    finally:
        net.over.set()
        call("umount", str(net.place))


def tell(line: str) -> None:
    """Print a line at once."""
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
