"""``lightloom controller``, ``ocs`` and ``agent``: what they show, ask, run and say of errors."""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import termios
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from fixtures.make_region import Region, serve
from lightloom.cli import run
from lightloom.cli.ocs import delay_flags
from lightloom.control import heat, views
from lightloom.control.client import Client
from lightloom.control.words import Names, size, span
from lightloom.errors import InputError, RunError
from rich.console import Console

ROOT = Path(__file__).parents[1]
# A shell's background job ignores interrupts, and so would whatever it starts.
MAIN = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from lightloom.cli import main; main()"
)
MANUAL = (ROOT / "docs" / "operate.md").read_text(encoding="utf-8")


def printed(width: int, *parts: Any, color: bool = False) -> str:
    console = Console(width=width, record=True, file=io.StringIO(), force_terminal=color)
    for part in parts:
        console.print(part)
    return console.export_text()


def answers(region: Region) -> tuple[Any, Names, Any]:
    names = Names(region.answer("/v1/names", {}))
    return region.answer("/v1/status", {}), names, region.answer("/v1/events", {})["events"]


@pytest.mark.parametrize("width", [60, 80, 100, 200])
@pytest.mark.parametrize("servers", [2, 8, 17, 64, 130])
@pytest.mark.parametrize("trouble", [False, True])
def test_views_fit(width: int, servers: int, trouble: bool) -> None:
    """Nothing is wider than the terminal, nothing is cut, every server is there."""
    region = Region(servers, 6, trouble=trouble and servers > 2)
    status, names, events = answers(region)
    for part in (
        views.head(status),
        views.alarms(status),
        views.servers(status, names, width),
        views.changes(events, 10, width),
        views.events(events[-5:]),
        heat.demand(status, names, width),
        heat.demand(status, names, width, color=False),
    ):
        text = printed(width, part)
        assert "…" not in text
        assert max(map(len, text.splitlines())) <= width
    listed = printed(width, views.servers(status, names, width))
    for number in range(servers):
        assert re.search(rf"\b(node-)?{number:02}\b", listed)
    ports = printed(width, views.circuits(status, names, width))
    assert "…" not in ports and max(map(len, ports.splitlines())) <= width
    for at, one in enumerate(region.servers):
        row = ports.splitlines()[1 + at].split()
        assert len(row) == 7 and row[0] == names.server(at)
        for cell, peer, blocked in zip(row[1:], one["circuits"], one["blocked"], strict=True):
            far = f"{peer[0]:02}.{peer[1]}" if peer else ""
            assert cell.endswith(far) if far else cell == ("x" if blocked else "-")


@pytest.mark.parametrize("height", [10, 24, 40, 60, 100])
@pytest.mark.parametrize("servers", [8, 64])
def test_one_screen_is_one_screen(height: int, servers: int) -> None:
    """Servers, alarms and head are always there; the rest as there is room."""
    status, names, events = answers(Region(servers, 6, trouble=True))
    for width in (80, 120):
        text = printed(width, views.everything(status, names, events, width, height))
        lines = text.rstrip("\n").splitlines()
        least = printed(width, views.everything(status, names, events, width, 0))
        assert len(lines) <= max(height, len(least.rstrip("\n").splitlines()) + 1)
        assert "server-silent" in text and "region-0" in text
        if height >= 60:
            assert "drain" in text and "MiB" in text


def test_a_picture_shows_where_demand_is() -> None:
    """Without colours, the darkest sign is where the greatest demand is."""
    region = Region(20, 2)
    region.demand = [[0] * 20 for _ in range(20)]
    region.demand[6][11] = 10**9
    region.demand[0][1] = 1
    status, names, _ = answers(region)
    lines = printed(80, heat.demand(status, names, 80, color=False)).splitlines()
    assert lines[3][9 + 11] == "█" and lines[3].startswith("      06 ")
    assert sum(line[9:29].count("█") for line in lines[:10]) == 1
    assert "954 MiB in round 1024; at most 954 MiB a pair" in lines[-1]


def test_quantities() -> None:
    assert [span(ps) for ps in (10**12, 59.94e12, 86400e12 * 3.5, 5000)] == [
        "1.00 s", "59.9 s", "3 d 12 h", "5 ns"
    ]  # fmt: skip
    assert [size(n) for n in (0, 1023, 1024, 2**40 * 1.5)] == [
        "0 B",
        "1023 B",
        "1.00 KiB",
        "1.50 TiB",
    ]


def call(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = run(words)
    out, err = capsys.readouterr()
    return code, out, err


def test_commands_show_and_tell(capsys: pytest.CaptureFixture[str]) -> None:
    region = Region(8, trouble=True)
    with serve(region) as url:
        for name, expected in (
            ("status", "server-silent"),
            ("circuits", "19 circuits of plan 412"),
            ("demand", "a pair"),
            ("events", "part-failed: node-02"),
        ):
            code, out, err = call(capsys, "controller", name, "--url", url)
            assert (code, err) == (0, "") and expected in out
        for name in ("status", "circuits", "demand"):
            code, out, _ = call(capsys, "controller", name, "--url", url, "--json")
            assert code == 0 and out.strip() == json.dumps(region.answer(f"/v1/{name}", {}))
        code, out, _ = call(capsys, "controller", "events", "--url", url, "--json", "--limit", "2")
        assert [json.loads(line) for line in out.splitlines()] == region.events[-2:]
        assert call(capsys, "controller", "unblock", "node-02.3", "node-07.5", "--url", url) == (
            0, "unblocked: node-02.3, node-07.5\n", ""
        )  # fmt: skip
        assert call(capsys, "controller", "unblock", "--url", url)[0] == 0
        assert call(capsys, "controller", "audit", "--url", url)[0] == 0
    assert region.posted == [
        ("/v1/unblock", {"ports": [[2, 3], [7, 5]]}),
        ("/v1/unblock", {"ports": []}),
        ("/v1/audit", {}),
    ]


@pytest.mark.parametrize("words", [["events", "--watch"], ["demand", "--watch", "--json"]])
def test_lines_go_on_until_interrupted(words: list[str]) -> None:
    """As a process of its own, read by another."""
    region = Region(8)
    with serve(region) as url:
        process = subprocess.Popen(
            [sys.executable, "-c", MAIN, "controller", *words, "--url", url],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        first = [process.stdout.readline() for _ in range(30 if words[0] == "events" else 1)]
        assert "plan 412" in first[-1] or '"rounds": [1024]' in first[-1]
        region.events.append({"number": 41, "unix_ms": 0, "event": "note", "text": "later"})
        region.demand[0][1] = 123454321
        assert re.search("later|123454321", process.stdout.readline())
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=10)
    assert (process.returncode, err) == (130, "interrupted\n")


def test_a_screen_is_shown_anew_and_given_back() -> None:
    """On a terminal; the controller goes away meanwhile and comes back."""
    region = Region(8, trouble=True)
    terminal, ours = pty.openpty()
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 100, 0, 0))
    shown = b""

    def until(what: bytes) -> None:
        nonlocal shown
        began = time.monotonic()
        while what not in shown:
            assert time.monotonic() < began + 30, shown[-2000:]
            if select.select([terminal], [], [], 1.0)[0]:
                shown += os.read(terminal, 65536)
        shown = shown[shown.index(what) + len(what) :]

    with serve(region) as url:
        port = int(url.rpartition(":")[2])
        process = subprocess.Popen(
            [sys.executable, "-c", MAIN, "controller", "status", "--watch", "--url", url],
            stdin=ours, stdout=ours, stderr=ours, env={**os.environ, "TERM": "xterm-256color"},
        )  # fmt: skip
        os.close(ours)
        until(b"\x1b[?1049h")  # a screen of its own
        until(b"server-silent")
        until(b"MiB a pair")
        region.alarms.clear()
        until(b"no alarms")
    until(b"trying again")
    with serve(region, port):
        until(b"no alarms")
        process.send_signal(signal.SIGINT)
        until(b"\x1b[?1049l")  # and the one before it
    assert process.wait(timeout=10) == 130
    os.close(terminal)


def test_watch_alone_is_the_status_of_the_default_url(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from lightloom.cli import controller

    shown: list[object] = []
    monkeypatch.setattr(controller, "status", lambda *words, **flags: shown.append(flags["watch"]))
    assert call(capsys, "controller", "--watch")[0] == 0
    assert shown == [True]
    code, out, err = call(capsys, "controller", "--watch", "status")
    assert (code, out, err) == (2, "", "error: --watch: say controller status --watch\n")
    assert call(capsys, "controller")[0] == 2


def test_errors_are_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    token = tmp_path / "token"
    with serve(Region(8)) as url:
        gone = url
        for words, expected in (
            (["status", "--url", "127.0.0.1:8470"], "must be http://HOST:PORT"),
            (["status", "--url", "http://127.0.0.1:port"], "must be http://HOST:PORT"),
            (["status", "--url", f"{url}/v1"], "must be http://HOST:PORT"),
            (["status", "--url", url, "--token-file", str(token)], "No such file"),
            (["status", "--url", url, "--ca", str(token)], "No such file"),
            (["unblock", "node-99.1", "--url", url], '"node-99.1": must be SERVER.PORT'),
            (["unblock", "node-01.x", "--url", url], '"node-01.x": must be SERVER.PORT'),
            (["unblock", "-3", "--url", url], "No such option"),
        ):
            code, out, err = call(capsys, "controller", *words)
            assert (code, out) == (2, "") and err.count("\n") == 1, words
            assert err.startswith("error: ") and expected in err
        token.write_text("two words\n")
        code, _, err = call(
            capsys, "controller", "status", "--url", url, "--token-file", str(token)
        )
        assert code == 2 and "must hold one token" in err and "two words" not in err
        token.write_text("secret\n")
        code, _, err = call(
            capsys, "controller", "status", "--url", "http://10.0.0.1:1", "--token-file", str(token)
        )
        assert code == 2 and "https" in err and "secret" not in err
    for name in ("status", "events", "audit", "unblock"):
        code, out, err = call(capsys, "controller", name, "--url", gone)
        assert (code, out, err) == (1, "", f"error: {gone}: no answer: Connection refused\n")


def test_tokens(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    region = Region(8)
    region.token = "secret"
    token = tmp_path / "token"
    with serve(region) as url:
        code, _, err = call(capsys, "controller", "status", "--url", url)
        assert code == 2 and err.startswith(
            f"error: {url}: a token is required; this user has none"
        )
        assert err.endswith(" (--token-file)\n")
        token.write_text("secret\n")
        words = ("controller", "status", "--url", url, "--token-file", str(token))
        assert call(capsys, *words)[0] == 0


class Odd(BaseHTTPRequestHandler):
    """Answers that no controller gives."""

    def do_GET(self) -> None:
        if self.path == "/v1/slow":
            time.sleep(3)
        if self.path == "/v1/cut":
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
            return
        if self.path == "/v1/noise":
            self.wfile.write(b"\x16\x03\x01\x02\x00")
            return
        if self.path == "/v1/away":
            self.send_response(302)
            self.send_header("Location", "http://127.0.0.1:1/")
            self.end_headers()
            return
        self.send_response(500 if self.path == "/v1/broken" else 200)
        self.end_headers()
        with contextlib.suppress(BrokenPipeError):  # nobody waits that long
            self.wfile.write(b"<html>")

    def log_message(self, *_: Any) -> None:
        pass


def test_odd_answers_are_run_errors() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Odd)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    client = Client(f"http://127.0.0.1:{server.server_port}", timeout_s=0.5)
    try:
        for path, expected in (
            ("/v1/slow", "timed out"),
            ("/v1/cut", "no answer"),
            ("/v1/noise", "no answer"),
            ("/v1/away", "302"),
            ("/v1/broken", "500"),
            ("/v1/page", "is not JSON"),
        ):
            with pytest.raises(RunError, match=expected) as caught:
                client.get(path)
            assert "\n" not in str(caught.value)
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl on this machine")
def test_certificates_made_as_the_manual_says_are_trusted(tmp_path: Path) -> None:
    """The steps of docs/operate.md, as they stand there."""
    steps = re.findall(r"```sh\n(.*?)```", MANUAL, flags=re.DOTALL)
    made = next(step for step in steps if "ca.key" in step)
    subprocess.run(["bash", "-ec", made], cwd=tmp_path, check=True, capture_output=True)
    token = next(step for step in steps if "operator.token" in step)
    said = subprocess.run(["bash", "-ec", token], cwd=tmp_path, check=True, capture_output=True)
    assert re.match(rb"[0-9a-f]{64} ", said.stdout)
    assert (tmp_path / "operator.token").stat().st_mode & 0o77 == 0

    server = ThreadingHTTPServer(("127.0.0.1", 0), Odd)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem", tmp_path / "server.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"https://127.0.0.1:{server.server_port}"
    try:
        with pytest.raises(RunError, match="is not JSON"):  # it was let in
            Client(url, tmp_path / "operator.token", tmp_path / "ca.pem").get("/v1/page")
        # As later versions of Python are by default.
        strict = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
        strict.verify_flags |= ssl.VERIFY_X509_STRICT
        with socket.create_connection(server.server_address[:2]) as plain:
            strict.wrap_socket(plain, server_hostname="localhost").close()
        with pytest.raises(RunError, match=r"its certificate is not trusted: .* \(--ca\)"):
            Client(url).get("/v1/page")
    finally:
        server.shutdown()
        server.server_close()


def test_daemons_are_found_and_become(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside Python, then on the PATH, then not at all."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    code, _, err = call(capsys, "controller", "serve", "region.toml")
    assert code == 2 and "no lightloomd beside" in err and "`make daemon`" in err
    became: list[list[str]] = []

    def execv(path: str, words: list[str]) -> None:
        became.append([path, *words[1:]])

    monkeypatch.setattr(os, "execv", execv)
    for place in ("path", "bin"):
        (tmp_path / place).mkdir()
        program = tmp_path / place / "lightloomd"
        program.write_text("")
        program.chmod(0o755)
        call(capsys, "controller", "check", "region.toml", "--json")
        assert became.pop() == [str(program), "controller", "check", "region.toml", "--json"]
        call(capsys, "ocs", "gateway", "gateway.toml", "--log-level", "warn")
        words = ["--log-level", "warn", "ocs", "gateway", "gateway.toml"]
        assert became.pop() == [str(program), *words]
    call(capsys, "controller", "serve", "r.toml", "--log", "json", "--log-level", "debug")
    assert became.pop()[1:] == [
        "--log", "json", "--log-level", "debug", "controller", "serve", "r.toml"
    ]  # fmt: skip
    call(capsys, "ocs", "serve", "--ports", "8", "--user", "a:b:1-4", "--user", "c:d")
    assert became.pop()[1:] == [
        "ocs", "serve", "--ports", "8", "--device", "polatis", "--delay", "25 ms",
        "--listen", "127.0.0.1:3082", "--user=a:b:1-4", "--user=c:d",
    ]  # fmt: skip
    call(capsys, "agent", "serve", "--server", "node-00")
    assert became.pop()[1:] == [
        "agent", "serve", "--controller=http://127.0.0.1:8470", "--server=node-00"
    ]  # fmt: skip
    call(capsys, "agent", "emulate", "region.toml", "--demands", "d.json")
    assert became.pop()[1:] == ["agent", "emulate", "region.toml", "--demands=d.json"]
    call(capsys, "agent", "emulate", "region.toml", "--forever", "--every", "2 s")
    assert became.pop()[1:] == ["agent", "emulate", "region.toml", "--every=2 s", "--forever"]
    call(capsys, "controller", "trail", "region.toml", "--json")
    assert became.pop()[1:] == ["controller", "trail", "region.toml", "--limit=30", "--json"]


def test_devices_have_the_delay_of_their_preset(capsys: pytest.CaptureFixture[str]) -> None:
    from lightloom import presets

    for device in presets.names("devices"):
        published = presets.load("devices", device).values["fabric"]["ocs"].get("delay")
        if published is None:
            with pytest.raises(InputError, match="its delay is not published"):
                delay_flags(device, None)
        assert delay_flags(device, "1 ms") == ["--delay", "1 ms"]
    flag, model = delay_flags("polatis-measured", None)
    assert flag == "--delay-model" and json.loads(model)["mean_ps"][0] == 41_440_000_000
    code, _, err = call(capsys, "ocs", "serve", "--delay", "1 parsec")
    assert code == 2 and err.startswith('error: --delay "1 parsec"')
    code, _, err = call(capsys, "ocs", "serve", "--device", "polaris")
    assert code == 2 and "polatis" in err


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
@pytest.mark.parametrize("unit", ["lightloom-controller.service", "lightloom-ocs.service"])
def test_units_are_understood(unit: str, tmp_path: Path) -> None:
    text = (ROOT / "deploy" / unit).read_text(encoding="utf-8")
    copy = tmp_path / unit
    copy.write_text(text.replace("/usr/local/bin/lightloomd", "/bin/true"), encoding="utf-8")
    done = subprocess.run(
        ["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
