"""``lightloom ocs serve``: the emulated optical switch as a process, spoken to in TL1."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from lightloom.daemon import find
from lightloom.errors import InputError

LIGHTLOOM = str(Path(sys.executable).with_name("lightloom"))
DOCS = Path(__file__).parents[1] / "docs"
Serve = Callable[..., tuple[subprocess.Popen[str], int]]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start ``lightloom ocs serve`` on a free port: the process and the port."""
    try:
        find()
    except InputError as missing:
        pytest.skip(str(missing))
    started = []

    def start(*arguments: str) -> tuple[subprocess.Popen[str], int]:
        words = [LIGHTLOOM, "ocs", "serve", "--listen", "127.0.0.1:0"]
        process = subprocess.Popen(
            [*words, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        started.append(process)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        return process, int(json.loads(line)["listening"].rpartition(":")[2])

    yield start
    for process in started:
        process.kill()
        process.communicate()


class Session:
    """A stream to the switch, logged in."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self.ask("ACT-USER::root:0::root;", "0")

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def ask(self, command: str, ctag: str) -> str:
        """Send a command and return what comes until it is answered."""
        self.socket.sendall(command.encode())
        heard = ""
        while not re.search(rf"M  {ctag} [^;]*;", heard):
            more = self.socket.recv(4096)
            assert more, f"closed after {heard!r}"
            heard += more.decode()
        return heard


def undated(text: str) -> str:
    """The same with a date that is always the same."""
    return re.sub(r"OCS \d\d-\d\d-\d\d \d\d:\d\d:\d\d", "OCS DATE", text)


@pytest.mark.skipif(shutil.which("nc") is None, reason="no nc on this machine")
def test_the_manuals_session_with_nc(serve: Serve) -> None:
    """What docs/tl1.md shows is what whoever types it sees."""
    _, port = serve("--ports", "8", "--device", "polatis")
    shown = re.findall(r"```text\n(.*?)```", (DOCS / "tl1.md").read_text("utf-8"), re.DOTALL)
    session = next(text for text in shown if text.startswith("> ACT-USER"))
    # What is typed, then what is seen until the next is typed.
    turns = re.findall(r"^> (.*)\n((?:(?!> ).*\n)*)", session, re.MULTILINE)
    assert len(turns) >= 5
    nc = subprocess.Popen(
        ["nc", "127.0.0.1", str(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert nc.stdin is not None and nc.stdout is not None
    try:
        for typed, seen in turns:
            nc.stdin.write(typed.encode() + b"\n")
            nc.stdin.flush()
            expected = undated("\n" + seen).split()
            heard = ""
            while len(undated(heard).split()) < len(expected):
                byte = os.read(nc.stdout.fileno(), 1)
                assert byte, f"closed after {heard!r}"
                heard += byte.decode()
                if heard.endswith("\n;") and undated(heard).split() != expected:
                    assert len(undated(heard).split()) < len(expected), (typed, heard)
            assert undated(heard).split() == expected
    finally:
        nc.kill()
        nc.communicate()


def seconds_of_cpu(process: int) -> float:
    """What a process has used, by the system's own count."""
    fields = Path(f"/proc/{process}/stat").read_text("utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def one(port: int, pair: int, all_in: asyncio.Barrier) -> float:
    """A session: log in, patch an own pair, read it back. How long the latter two took \\[s\\]."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def ask(text: str) -> str:
        writer.write(text.encode())
        ctag = text.split(":")[3]
        answer = await reader.readuntil(b"\r\n;")
        while f"M  {ctag} " not in answer.decode():
            answer = await reader.readuntil(b"\r\n;")
        return answer.decode()

    assert "COMPLD" in await ask("ACT-USER::root:1::root;")
    assert "COMPLD" in await ask("INH-MSG-ALL:::2:;")
    await all_in.wait()
    start = time.monotonic()
    a, b = 2 * pair + 1, 2 * pair + 2
    assert "COMPLD" in await ask(f"ENT-PATCH::{a}&{b},{400 + b}&{400 + a}:3:;")
    answer = await ask(f"RTRV-PATCH::{a}&&{b}:4:;")
    assert re.findall(r'"(\d+),(\d+)"', answer) == [(f"{a}", f"{400 + b}"), (f"{b}", f"{400 + a}")]
    took = time.monotonic() - start
    writer.close()
    return took


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="counts as Linux does")
def test_two_hundred_sessions_at_once(serve: Serve) -> None:
    """All are logged in before any goes on; each patches its own ports and reads them back."""
    process, port = serve("--ports", "400", "--delay", "25 ms")
    before = seconds_of_cpu(process.pid)

    async def all_of_them() -> list[float]:
        all_in = asyncio.Barrier(200)
        return await asyncio.gather(*(one(port, pair, all_in) for pair in range(200)))

    start = time.monotonic()
    took = sorted(asyncio.run(all_of_them()))
    wall, cpu = time.monotonic() - start, seconds_of_cpu(process.pid) - before
    print(f"200 sessions: {wall:.2f} s, {cpu:.2f} s of CPU, slowest {took[-1] * 1e3:.0f} ms")
    assert took[0] >= 0.025, "a change takes its time"
    # Generous: it shows that none waits for the others, not how fast the machine is.
    assert wall < 20 and cpu < 5


def test_patches_outlive_it_and_signals_end_it(serve: Serve, tmp_path: Path) -> None:
    """SIGTERM is a good end, as service managers have it, and SIGINT an interrupt."""
    state = str(tmp_path / "patches.json")
    for end, code in ((signal.SIGKILL, -signal.SIGKILL), (signal.SIGTERM, 0), (signal.SIGINT, 130)):
        process, port = serve("--ports", "8", "--state", state, "--delay", "0 ms")
        with Session(port) as session:
            stands = '"1,10"' in session.ask("RTRV-PATCH:::1:;", "1")
            assert stands == (end != signal.SIGKILL)
            assert "M  2 COMPLD" in session.ask("ENT-PATCH::1,10:2:;", "2")
            process.send_signal(end)
            assert process.wait(10) == code


def test_what_makes_no_sense_is_one_line(serve: Serve) -> None:
    """Exit code 2, from Python and from the daemon alike."""
    for words, said in (
        (("--device", "abacus"), "abacus"),
        (("--device", "palomar"), "its delay is not published"),
        (("--ports", "0"), "0 is not in 1..=4096"),
        (("--listen", "0.0.0.0:0"), "a certificate, its key and a user with a password"),
        (("--user", "root"), "a user is NAME:PASSWORD"),
        (("--fault", "sulks"), "a fault is one of silent, late=2s"),
    ):
        done = subprocess.run(
            [LIGHTLOOM, "ocs", "serve", *words],
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert done.returncode == 2 and said in done.stderr, (words, done)
        assert len(done.stderr.strip().splitlines()) == 1 and not done.stdout, done


def test_a_measured_device_changes_as_measured(serve: Serve) -> None:
    """MixNet, Appendix C: 41.44 ms for one pair, 60 ms or more in one case of a hundred."""
    _, port = serve("--ports", "8", "--device", "polatis-measured")
    took = []
    with Session(port) as session:
        for _ in range(20):
            start = time.monotonic()
            assert "M  1 COMPLD" in session.ask("ENT-PATCH::1,10:1:;", "1")
            took.append(time.monotonic() - start)
            session.ask("DLT-PATCH::ALL:2:;", "2")
    # The upper bound is generous: the machine may have other things to do.
    assert 0.035 < sorted(took)[10] < 0.2, took
