"""An emulated switch with NICs at its ports: frames go where patches lead, while they are lit."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from lightloom import daemon
from lightloom.errors import InputError

try:
    LIGHTLOOMD: str = daemon.find()
except InputError:
    pytest.skip("no lightloomd: make daemon", allow_module_level=True)

PORTS = 3


def apart(crossbar: str, *flags: str) -> subprocess.CompletedProcess[str]:
    """Run this file in a network and mount namespace of its own."""
    words = ["unshare", *flags, "--net", "--mount", sys.executable, __file__, LIGHTLOOMD, crossbar]
    return subprocess.run(words, capture_output=True, text=True, timeout=60)


# The last in a user namespace: its root is nobody outside.
WAYS = {
    "bpf": ("bpf",),
    "mirred": ("mirred",),
    "rootless": ("mirred", "--user", "--map-root-user"),
}


@pytest.fixture(scope="module", params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def seen(way: str) -> dict[str, object]:
    done = apart(*WAYS[way])
    if "cannot stand here" in done.stderr or "unshare" in done.stderr:
        pytest.skip(f"no crossbar can stand here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_a_frame_goes_where_its_circuit_leads_and_nowhere_else(seen: dict[str, object]) -> None:
    assert seen["no circuit"] == {}
    assert seen["1 to 2 and back"] == {"2": ["from 1"], "1": ["from 2"]}
    assert seen["one way, 1 to 3"] == {"3": ["from 1"]}


def test_it_is_dark_while_mirrors_move(seen: dict[str, object], way: str) -> None:
    dark_ms = seen["dark [ms]"]
    # Programs look at the clock; redirections wait for a process, on a busy machine.
    assert isinstance(dark_ms, float) and 49.0 < dark_ms < (70 if way == "bpf" else 300)


def test_what_is_lost_is_counted_and_bare_acknowledgements_apart(
    seen: dict[str, object], way: str
) -> None:
    one, two, three = seen["counts"]  # type: ignore[misc]
    bare = 0 if way == "bpf" else 1
    # Some may come before the switch has read that it is to patch, on a busy machine.
    assert 2 <= one["unconnected"] - bare < 50
    assert one["unconnected_bare"] == (1 if way == "bpf" else None)
    assert two["unconnected"] == 1 and three["unconnected"] == 2
    assert one["dark"] > 3 and one["forwarded"] >= 3
    assert one["bytes"] >= one["forwarded"] * 60, "frames are filled up to 60 B"


def test_its_state_brings_back_what_was_there_when_it_was_killed(
    seen: dict[str, object], way: str
) -> None:
    # Programs end with the process; redirections stand, as the mirrors of a switch would.
    assert seen["killed"] == ({} if way == "bpf" else {"3": ["from 1"]})
    assert seen["started again"] == {"3": ["from 1"]}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--nic", "lo"], "--counts"),
        (["--counts", "/sys/x"], "--nic"),
        (["--ports", "1", "--nic", "a", "--nic", "b", "--counts", "x"], "the switch has 1 ports"),
        (["--nic", "lo", "--counts", "x"], "must be in a file system of type bpf"),
        (["--nic", "no", "--counts", "x", "--crossbar", "mirred"], "no: no such NIC here"),
        (["--nic", "lo", "--counts", "x", "--crossbar", "lamp"], "[possible values: bpf, mirred]"),
    ],
)
def test_bad_input(words: list[str], says: str) -> None:
    whole = [LIGHTLOOMD, "ocs", "serve", "--listen", "127.0.0.1:0", *words]
    done = subprocess.run(whole, capture_output=True, text=True, timeout=20)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done
    assert says in done.stderr


def test_counts_that_are_not_there(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("something else\n")
    for place in ("/proc/nothing", str(other)):
        done = subprocess.run(
            [LIGHTLOOMD, "ocs", "counts", place], capture_output=True, text=True, timeout=20
        )
        assert done.returncode == 2 and done.stderr.startswith(f"{place}: ")


# What runs apart.

IPV4, TCP, UDP = 0x0800, 6, 17


def frame(payload: bytes, protocol: int = UDP, tcp_words: int = 5) -> bytes:
    """Return an Ethernet frame of IPv4; TCP with a header of so many words."""
    behind = (
        bytes(8)
        if protocol == UDP
        else bytes(12) + bytes([tcp_words << 4]) + bytes(4 * tcp_words - 13)
    ) + payload
    length = 20 + len(behind)
    head = bytes([0x45, 0, length >> 8, length & 255, 0, 0, 0, 0, 64, protocol, 0, 0]) + bytes(8)
    whole = b"\xff" * 6 + b"\x02" + bytes(5) + IPV4.to_bytes(2, "big") + head + behind
    return whole + bytes(max(0, 60 - len(whole)))  # as short frames are filled up


def call(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"cannot stand here: {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


@contextlib.contextmanager
def switch(place: Path) -> Iterator[tuple[subprocess.Popen[str], socket.socket]]:
    words = [LIGHTLOOMD, "--log-level", "warn", "ocs", "serve", "--ports", str(PORTS)]
    words += ["--listen", "127.0.0.1:0", "--delay", "50 ms", "--state", str(place / "state")]
    words += [word for port in range(1, PORTS + 1) for word in ("--nic", f"s{port}")]
    words += ["--counts", str(place / "bpf" / "counts"), "--crossbar", CROSSBAR]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise SystemExit("cannot stand here: see above")
        host, _, port = json.loads(line)["listening"].rpartition(":")
        with socket.create_connection((host, int(port)), timeout=10) as stream:
            ask(stream, "ACT-USER::root:1::root;")
            try:
                yield process, stream
            finally:
                process.kill()


def ask(stream: socket.socket, command: str) -> str:
    stream.sendall(command.encode())
    heard = ""
    while "M  1 COMPLD" not in heard or not heard.rstrip().endswith(";"):
        more = stream.recv(65536).decode()
        heard += more
        if not more or "DENY" in heard:
            raise SystemExit(f"{command}: {heard}")
    return heard


class Wires:
    """The servers' ends of the wires to a switch's ports."""

    def __init__(self) -> None:
        self.ends = {}
        for port in range(1, PORTS + 1):
            call("ip", "link", "add", f"n{port}", "type", "veth", "peer", "name", f"s{port}")
            for end in (f"n{port}", f"s{port}"):
                Path(f"/proc/sys/net/ipv6/conf/{end}/disable_ipv6").write_text("1")
                call("ip", "link", "set", end, "up")
            end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(IPV4))
            end.bind((f"n{port}", IPV4))
            self.ends[port] = end

    def shine(self, *ports: int) -> dict[str, list[str]]:
        """Send a frame from each of these ports; return what arrives where."""
        for port in ports:
            self.ends[port].send(frame(f"from {port}".encode()))
        return self.heard()

    def heard(self, wait_s: float = 0.03) -> dict[str, list[str]]:
        heard: dict[str, list[str]] = {}
        time.sleep(wait_s)
        for port, end in self.ends.items():
            with contextlib.suppress(BlockingIOError):
                while True:
                    data, where = end.recvfrom(2048, socket.MSG_DONTWAIT)
                    if where[2] != socket.PACKET_OUTGOING:
                        heard.setdefault(str(port), []).append(data[42:48].decode())
        return heard

    def dark_ms(self, began: float) -> float:
        """Send from port 1 all the time, until something arrives at port 2; return since when."""
        while time.monotonic() < began + 5:
            self.ends[1].send(frame(b"from 1"))
            if "2" in self.heard(0.001):
                return 1e3 * (time.monotonic() - began)
        raise SystemExit("nothing arrives")


def main() -> None:
    place = Path(call("mktemp", "-d").strip())
    (place / "bpf").mkdir()
    if CROSSBAR == "bpf":
        call("mount", "-t", "bpf", "bpf", str(place / "bpf"))
    call("ip", "link", "set", "lo", "up")
    wires, seen = Wires(), {}
    a, b, c = (str(PORTS + port) for port in (1, 2, 3))
    with switch(place) as (_, stream):
        seen["no circuit"] = wires.shine(1, 2, 3)
        wires.ends[1].send(frame(b"", TCP, 8))
        wires.ends[1].send(frame(b"x", TCP, 8))
        began = time.monotonic()
        stream.sendall(f"ENT-PATCH::1&2,{b}&{a}:1:;".encode())  # answered when it is done
        seen["dark [ms]"] = wires.dark_ms(began)
        ask(stream, "")
        seen["1 to 2 and back"] = wires.shine(1, 2)
        ask(stream, "DLT-PATCH::1&2:1:;")
        ask(stream, f"ENT-PATCH::1,{c}:1:;")
        time.sleep(0.06)
        seen["one way, 1 to 3"] = wires.shine(1, 3)
        lines = call(LIGHTLOOMD, "ocs", "counts", "--json", str(place / "bpf/counts")).splitlines()
        seen["counts"] = [json.loads(line) for line in lines]
        assert "port    1: " in call(LIGHTLOOMD, "ocs", "counts", str(place / "bpf/counts"))
    seen["killed"] = wires.shine(1, 2, 3)
    with switch(place):
        seen["started again"] = wires.shine(1)
    if CROSSBAR == "bpf":
        call("umount", str(place / "bpf"))
    call("rm", "-r", str(place))
    print(json.dumps(seen))


if __name__ == "__main__":
    LIGHTLOOMD, CROSSBAR = sys.argv[1:]
    main()
