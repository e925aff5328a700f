"""The token that a controller without one makes: commands find it, and trust nobody else's."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures.make_region import Region, serve
from lightloom.cli import run
from lightloom.control import own_token
from lightloom.control.client import Client
from lightloom.errors import InputError
from test_control_daemon import LIGHTLOOMD, REGION, daemon_at

USER = os.geteuid()


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where files of this user's session are."""
    place = tmp_path / "session"
    place.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(place))
    yield place


def written(session: Path, url: str, token: str) -> Path:
    """Write a token as a controller at this address does."""
    (session / "lightloom").mkdir(mode=0o700, exist_ok=True)
    file = session / "lightloom" / f"127.0.0.1-{url.rpartition(':')[2]}.token"
    file.touch(mode=0o600)
    file.write_text(f"{token}\n")
    return file


def refused(capsys: pytest.CaptureFixture[str], url: str, code: int = 2) -> str:
    """What a command says that is refused, in one line."""
    assert run(["controller", "status", "--url", url]) == code
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("error: ") and err.count("\n") == 1
    return err.removeprefix("error: ").strip()


def test_a_command_finds_it(session: Path, capsys: pytest.CaptureFixture[str]) -> None:
    region = Region(8)
    region.token = "secret"
    with serve(region) as url:
        port = url.rpartition(":")[2]
        file = session / "lightloom" / f"127.0.0.1-{port}.token"
        why = f"{url}: a token is required; this user has none at {file} (--token-file)"
        assert refused(capsys, url) == why
        written(session, url, "guess")
        why = f"{url}: a token is required; it is not the one at {file} (--token-file)"
        assert refused(capsys, url) == why
        written(session, url, "secret")
        for name in (url, f"http://localhost:{port}", f"{url}/"):
            assert run(["controller", "status", "--url", name]) == 0
            assert "region-0" in capsys.readouterr().out
            assert run(["controller", "page", "--url", name]) == 0
            assert capsys.readouterr().out == f"{url}/#token=secret\n"
        assert run(["controller", "page", "--url", url, "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == {"page": f"{url}/#token=secret"}
        # One that is named goes before it.
        other = session / "other"
        other.write_text("guess\n")
        words = ["controller", "status", "--url", url, "--token-file", str(other)]
        assert run(words) == 2
        assert capsys.readouterr().err == f"error: {url}: a token is required (--token-file)\n"
        # A controller that starts anew has another.
        client = Client(url)
        assert client.get("/v1/names")["region"] == "region-0"
        region.token = "second"
        with pytest.raises(InputError, match="it is not the one at"):
            client.get("/v1/names")
        written(session, url, "second")
        assert client.get("/v1/names")["region"] == "region-0"
        assert client.post("/v1/audit", {}) == {"audit": "asked for"}
    assert refused(capsys, url, 1) == f"{url}: no answer: Connection refused", "of a dead one"


def test_what_others_may_use_is_not_used(
    session: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = "http://127.0.0.1:9"
    file = written(session, url, "secret")
    place, hint = file.parent, " (or give --token-file)"
    file.chmod(0o640)
    why = f"{file}: others may use it, its mode is 0640: must be 0600{hint}"
    assert refused(capsys, url) == why
    file.chmod(0o600)
    place.chmod(0o750)
    assert refused(capsys, url) == f"{place}: its mode is 0750: must be 0700{hint}"
    place.chmod(0o700)
    file.write_text("two words\n")
    assert refused(capsys, url) == f"{file}: must hold one token, in one line{hint}"
    file.unlink()
    file.symlink_to(tmp_path / "elsewhere")
    assert refused(capsys, url) == f"{file}: must be a file, and no symbolic link{hint}"
    file.unlink()
    os.mkfifo(file, 0o600)
    assert refused(capsys, url) == f"{file}: must be a file{hint}"
    file.unlink()
    place.rename(session / "moved")
    place.symlink_to(session / "moved")
    assert refused(capsys, url) == f"{place}: must be a directory, and no symbolic link{hint}"
    # A session that is not this user's alone is none.
    session.chmod(0o777)
    assert session not in own_token.path_of(("127.0.0.1", 9)).parents


@pytest.mark.skipif(USER != 0, reason="only root can make what is another user's")
def test_what_is_of_another_user_is_not_used(
    session: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url = "http://127.0.0.1:9"
    file = written(session, url, "secret")
    place, hint = file.parent, " (or give --token-file)"
    os.chown(file, 12345, -1)
    assert refused(capsys, url) == f"{file}: is of user 12345: must be of user 0{hint}"
    os.chown(place, 12345, -1)
    assert refused(capsys, url) == f"{place}: is of user 12345: must be of this user, 0{hint}"
    # Root takes what a service's user has made where only root can have let it.
    monkeypatch.setattr(own_token, "SERVICE", place)
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert own_token.find(("127.0.0.1", 9)) == "secret"
    assert own_token.find(("127.0.0.1", 10)) is None


@pytest.mark.skipif(LIGHTLOOMD is None, reason="no lightloomd: make daemon")
def test_a_controller_makes_what_commands_find(session: Path, tmp_path: Path) -> None:
    with daemon_at("ocs", "serve", "--ports", "8", "--listen", "127.0.0.1:0") as switch:
        file = tmp_path / "region.toml"
        file.write_text(REGION.format(listen="", switch=switch))
        with daemon_at("controller", "serve", str(file)) as at:
            address = own_token.address_of(f"http://{at}")
            assert address is not None
            path = own_token.path_of(address)
            assert path.parent == session / "lightloom"
            assert (path.stat().st_mode & 0o777, len(path.read_text())) == (0o600, 65)
            assert Client(f"http://{at}").get("/v1/names")["region"] == "region-7"
        assert list(path.parent.iterdir()) == [], "it goes with its controller"


@pytest.mark.skipif(LIGHTLOOMD is None, reason="no lightloomd: make daemon")
@pytest.mark.skipif(USER != 0, reason="only root can become another user")
def test_another_user_of_this_machine_is_refused(session: Path, tmp_path: Path) -> None:
    """As a process of user 12345, who can reach the port and run the same program."""
    with daemon_at("ocs", "serve", "--ports", "8", "--listen", "127.0.0.1:0") as switch:
        file = tmp_path / "region.toml"
        file.write_text(REGION.format(listen="", switch=switch))
        with daemon_at("controller", "serve", str(file)) as at:
            process = subprocess.Popen(
                [str(LIGHTLOOMD), "agent", "serve", "--controller", f"http://{at}",
                 "--server", "blue-a"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                user=12345, group=12345,
            )  # fmt: skip
            with process:
                assert process.wait(timeout=30) == 1
                assert process.stderr is not None
                error = process.stderr.read()
    assert "a token is required" in error and "/tmp/lightloom-12345" in error
