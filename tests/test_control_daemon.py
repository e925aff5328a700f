"""The commands and the page against real daemons: an emulated switch, a controller, all agents."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lightloom import daemon
from lightloom import maps as port_maps
from lightloom.cli import run
from lightloom.errors import InputError
from test_control_page import CHROMIUM, look
from test_controller_cli import MANUAL

try:
    LIGHTLOOMD: str | None = daemon.find()
except InputError:
    LIGHTLOOMD = None

pytestmark = pytest.mark.skipif(LIGHTLOOMD is None, reason="no lightloomd: make daemon")

REGION = """
name = "region-7"
[listen]
address = "127.0.0.1:0"
{listen}
[switch]
protocol = "tl1"
address = "{switch}"
ports = 8
[[server]]
name = "blue-a"
tenant = "blue"
ports = [1, 2]
[[server]]
name = "blue-b"
tenant = "blue"
ports = [3, 4]
[[server]]
name = "plum-a"
tenant = "plum"
ports = [5, 6]
[[server]]
name = "plum-b"
tenant = "plum"
ports = [7, 8]
[decision]
packet_nics = 1
[timing]
lease = "30 s"  # a slow disk holds up the controller for a small part of it
"""


@contextlib.contextmanager
def daemon_at(*words: str) -> Iterator[str]:
    """Run a daemon; gives the address that it says it listens on."""
    process = subprocess.Popen(
        [str(LIGHTLOOMD), "--log-level", "error", *words], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["listening"]
    finally:
        process.terminate()
        assert process.wait(timeout=10) == 0


@contextlib.contextmanager
def region(place: Path, listen: str = "") -> Iterator[tuple[Path, str]]:
    """A region and its switch; gives its file and the controller's address."""
    with daemon_at("ocs", "serve", "--ports", "8", "--listen", "127.0.0.1:0", "--delay=1 ms") as at:
        file = place / "region.toml"
        file.write_text(REGION.format(listen=listen, switch=at))
        with daemon_at("controller", "serve", str(file)) as address:
            yield file, address


def emulate(file: Path, url: str, *words: str) -> list[Any]:
    """Every server sends to the other of its tenant, enough for circuits to be worth it."""
    demands = file.with_name("demands.json")
    blue, plum = 3 << 30, 5 << 30
    rows = [[0, blue, 0, 0], [blue, 0, 0, 0], [0, 0, 0, plum], [0, 0, plum, 0]]
    demands.write_text(json.dumps([rows, rows]))
    done = subprocess.run(
        [str(LIGHTLOOMD), "agent", "emulate", str(file), "--controller", url,
         "--demands", str(demands), *words],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    maps = [json.loads(line) for line in done.stdout.splitlines()]
    # Pictures of the controller are up to 50 ms old, and older where a disk is slow.
    until = time.monotonic() + 10
    while circuits_shown(url, *words) != maps[-1]["circuits"]:
        assert time.monotonic() < until, "the controller shows other circuits than agents have"
        time.sleep(0.02)
    return maps


def circuits_shown(url: str, *words: str) -> list[Any]:
    """What `controller circuits` says."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        assert run(["controller", "circuits", "--json", "--url", url, *words]) == 0
    return [[circuit["a"], circuit["b"]] for circuit in json.loads(said.getvalue())["circuits"]]


def test_agents_that_go_on_for_ever_stay(tmp_path: Path) -> None:
    with region(tmp_path) as (file, address):
        command = [str(LIGHTLOOMD), "agent", "emulate", str(file), "--controller"]
        command += [f"http://{address}", "--forever", "--every", "20 ms"]
        agents = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        try:
            assert agents.stdout is not None
            rounds = [json.loads(agents.stdout.readline())["round"] for _ in range(30)]
            assert rounds == list(range(rounds[0], rounds[0] + 30)), "more than are drawn at once"
            assert agents.poll() is None
        finally:
            agents.terminate()
            agents.communicate(timeout=30)
    for words, why in (
        (["--forever", "--rounds", "3"], "cannot be used with"),
        (["--every", "1 s"], "--forever"),
    ):
        done = subprocess.run(
            [str(LIGHTLOOMD), "agent", "emulate", str(file), *words],
            capture_output=True, text=True, timeout=30,
        )  # fmt: skip
        assert done.returncode == 2 and why in done.stderr, done.stderr


def test_what_is_shown_is_what_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with region(tmp_path) as (file, address):
        url = f"http://{address}"
        maps = emulate(file, url)
        # Agents are gone, and their leases have not ended.
        assert run(["controller", "circuits", "--json", "--url", url]) == 0
        shown = json.loads(capsys.readouterr().out)
        pairs = [[circuit["a"], circuit["b"]] for circuit in shown["circuits"]]
        assert pairs == maps[-1]["circuits"] and len(pairs) == 4
        assert shown["generation"] == maps[-1]["generation"]
        switch_ports = [circuit["switch_ports"] for circuit in shown["circuits"]]
        assert sorted(port for pair in switch_ports for port in pair) == list(range(1, 9))
        written = tmp_path / "maps.json"
        assert run(["controller", "circuits", "--maps", str(written), "--url", url]) == 0
        (device,) = port_maps.read(written).devices
        assert [list(pair) for pair in device.left()] == sorted(map(sorted, switch_ports))
        node_of = {port: [node, own] for port, node, own in device.attached}
        joined = [[node_of[a], node_of[b]] for a, b in device.left()]
        assert sorted(map(sorted, joined)) == sorted(map(sorted, pairs))
        capsys.readouterr()
        assert run(["controller", "status", "--url", url]) == 0
        out = capsys.readouterr().out
        assert "4 of 4 servers present, 4 circuits, 0 of 8 ports out of use" in out
        assert re.search(r"plum-b +●● +\d+ .* ago +plum", out)
        assert run(["controller", "demand", "--url", url]) == 0
        assert "16.0 GiB in round" in capsys.readouterr().out
        assert run(["controller", "audit", "--url", url]) == 0
        assert run(["controller", "unblock", "plum-b.1", "--url", url]) == 0
        capsys.readouterr()
        assert run(["controller", "unblock", "plum-b.2", "--url", url]) == 2
        assert "[3, 2]: must be server and port" in capsys.readouterr().err
        assert run(["controller", "events", "--url", url]) == 0
        assert "reconfigured" in capsys.readouterr().out
        assert run(["controller", "page", "--url", url]) == 0
        page = capsys.readouterr().out.strip()
        assert re.fullmatch(rf"{re.escape(url)}/#token=[0-9a-f]{{64}}", page)
        if CHROMIUM is not None:
            dom = look(page, tmp_path / "browser")
            assert "<title>" in dom and "region-7" in dom and "plum-b" in dom
            assert len(re.findall(r'<div class="server', dom)) == 4


def test_tokens_and_certificates_as_the_manual_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = re.findall(r"```sh\n(.*?)```", MANUAL, flags=re.DOTALL)
    made = next(step for step in steps if "ca.key" in step)
    subprocess.run(["bash", "-ec", made], cwd=tmp_path, check=True, capture_output=True)
    listen = 'certificate = "server.pem"\nkey = "server.key"\n'
    for name, role in (
        ("operator", 'role = "operator"'),
        ("viewer", 'role = "viewer"'),
        ("blue", 'role = "tenant"\ntenant = "blue"'),
    ):
        (tmp_path / name).write_text(f"{name}-secret\n")
        digest = hashlib.sha256(f"{name}-secret".encode()).hexdigest()
        listen += f'[[token]]\nname = "{name}"\n{role}\nsha256 = "{digest}"\n'

    with region(tmp_path, listen) as (file, address):
        url, ca = f"https://{address}", str(tmp_path / "ca.pem")

        def ask(name: str | None, *words: str) -> tuple[int, str, str]:
            token = [] if name is None else ["--token-file", str(tmp_path / name)]
            code = run(["controller", *words, "--url", url, "--ca", ca, *token])
            out, err = capsys.readouterr()
            return code, out, err

        emulate(file, url, "--ca", ca, "--token-file", str(tmp_path / "operator"))
        everyone = json.loads(ask("operator", "status", "--json")[1])
        assert len(everyone["servers"]) == 4 and everyone["role"] == "operator"
        code, out, _ = ask("blue", "status")
        assert code == 0 and "2 of 2 servers present, 2 circuits" in out and "plum" not in out
        for words in (["circuits"], ["demand"], ["events"], ["status", "--json"]):
            code, out, _ = ask("blue", *words)
            assert code == 0 and "plum" not in out.replace("reconfigured", "")
        assert "plum-a" in ask("viewer", "status")[1]
        for name in ("viewer", "blue"):
            for words in (["audit"], ["unblock"]):
                code, out, err = ask(name, *words)
                assert (code, out) == (2, "") and "an operator's token is needed" in err
        code, _, err = ask(None, "status")
        assert code == 2 and err.endswith("(--token-file)\n")
        code = run(["controller", "status", "--url", url])  # the system's authorities
        assert code == 1 and "its certificate is not trusted" in capsys.readouterr().err
        code = run(["controller", "status", "--url", f"http://{address}"])
        assert code == 1 and "no answer" in capsys.readouterr().err


def test_the_manuals_region_is_accepted(tmp_path: Path) -> None:
    whole = re.findall(r"```toml\n(.*?)```", MANUAL, flags=re.DOTALL)[0]
    (tmp_path / "region.toml").write_text(whole)
    done = subprocess.run(
        [str(LIGHTLOOMD), "controller", "check", str(tmp_path / "region.toml")],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "") and "region-0" in done.stdout
