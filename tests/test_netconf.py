"""The NETCONF driver against netconfd, a server of Debian's, with a module of a switch's shape.

The server runs in a directory of its own, on a socket of its own; sessions reach it as its SSH
subsystem does, and once through sshd itself, on loopback with a key made for the test.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from ports import free_port

HERE = Path(__file__).parent
REPOSITORY = HERE.parent
SBIN = "/usr/sbin:/sbin:" + os.environ.get("PATH", "")
NETCONFD = shutil.which("netconfd", path=SBIN)
SUBSYSTEM = shutil.which("netconf-subsystem", path=SBIN)
SSHD = shutil.which("sshd", path=SBIN)
SSH = shutil.which("ssh")

pytestmark = pytest.mark.skipif(
    not (NETCONFD and SUBSYSTEM), reason="netconfd is not installed (Debian: apt install netconfd)"
)

# Each order and how the answer begins.
SESSION = [
    ("read", "state"),
    ("apply set 1,10 2,9", "done"),
    ("read", "state 1,10 2,9"),
    ("apply end 1,10 2,9 set 1,11 3,9", "done"),
    ("read", "state 1,11 3,9"),
    ("apply set 1,12", "refused data-exists"),
    ("apply set 9,16", "refused invalid-value"),
    ("apply set 4,17", "refused invalid-value"),
    ("apply end 5,13", "refused data-missing"),
    ("apply end 3,9 5,13 set 6,9", "refused data-missing"),
    ("read", "state 1,11 3,9"),
    ("apply end 1,11 set 4,11", "done"),
    ("apply end 3,9 4,11 set 3,11 4,9 8,16", "done"),
    ("read", "state 3,11 4,9 8,16"),
    # The server looks for doubled egresses only where something is deleted too.
    ("apply end 8,16 set 5,9", "refused operation-failed, data-not-unique"),
    ("apply end 3,11 4,9 8,16", "done"),
    ("apply", "done"),
    ("read", "state"),
]


@pytest.fixture(scope="session")
def client():
    """The example that speaks NETCONF over a command's standard input and output."""
    cargo = shutil.which("cargo")
    if not cargo:
        pytest.skip("cargo is not installed")
    # As part of the workspace: alone it would have other features, and all below it is built again.
    words = ["build", "--quiet", "--locked", "--workspace", "--exclude", "lightloom-py"]
    words += ["--example", "netconf_session", "--message-format", "json"]
    built = subprocess.run([cargo, *words], cwd=REPOSITORY, stdout=subprocess.PIPE, check=True)
    made = (json.loads(line) for line in built.stdout.splitlines())
    return next(one["executable"] for one in made if one.get("executable"))


def stop(process):
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Server:
    """netconfd in a directory of its own; its socket is there too, so its path must be short."""

    def __init__(self, *options, module=True, startup=True):
        self.room = Path(tempfile.mkdtemp(prefix="netconf-"))
        self.socket, self.port = self.room / "socket", free_port()
        words = [f"--ncxserver-sockname={self.socket}", f"--port={self.port}"]
        if module:
            words.append(f"--module={HERE / 'netconf' / 'optical-switch.yang'}")
        if startup:
            shutil.copy(HERE / "netconf" / "startup-cfg.xml", self.room)
            words.append(f"--startup={self.room / 'startup-cfg.xml'}")
        else:
            words.append("--no-startup")
        words += ["--access-control=off", f"--log={self.room / 'log'}", *options]
        self.process = subprocess.Popen(
            [NETCONFD, *words],
            cwd=self.room,
            env={**os.environ, "HOME": str(self.room)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 20
        # Its socket is there a little before it is served.
        while "Running netconfd server" not in self.log():
            if self.process.poll() is not None or time.monotonic() > deadline:
                log = self.log()
                self.close()
                pytest.fail(f"netconfd does not start: {log}")
            time.sleep(0.02)

    def log(self):
        log = self.room / "log"
        return log.read_text(errors="replace") if log.exists() else ""

    @property
    def subsystem(self):
        return f"{SUBSYSTEM} --ncxserver-sockname={self.port}@{self.socket}"

    def close(self):
        stop(self.process)
        shutil.rmtree(self.room)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def speak(self, client, orders, command=None, slice="1-8"):
        """What the client prints for orders, without the times."""
        # As sshd would tell the subsystem which port the session came by.
        env = {**os.environ, "SSH_CONNECTION": f"127.0.0.1 1 127.0.0.1 {self.port}", "USER": "test"}
        command = command or self.subsystem.split()
        said = subprocess.run(
            [client, "--ports", "8", "--slice", slice, *command],
            input="".join(order + "\n" for order in orders),
            stdout=subprocess.PIPE,
            env=env,
            text=True,
            timeout=60,
            check=True,
        )
        first, *answers = said.stdout.splitlines()
        return first, [answer.split(" ", 2)[2] for answer in answers]


def hold(session, answers):
    assert len(answers) == len(session)
    for (order, beginning), answer in zip(session, answers, strict=True):
        exact = not beginning.startswith("refused")
        assert answer == beginning if exact else answer.startswith(beginning + ","), order


@pytest.mark.parametrize(
    "options", [["--target=running"], ["--target=candidate"], ["--protocols=netconf1.0"]]
)
def test_a_session(client, options):
    orders = [order for order, _ in SESSION]
    with Server(*options) as server:
        first, answers = server.speak(client, orders)
        assert first == "up 8 Lightloom 8x8 of the tests 1.0"
        hold(SESSION, answers)
        # What one session sets another finds, of its own ports.
        _, answers = server.speak(client, ["apply set 1,10 2,9 7,16"])
        assert answers == ["done"]
        _, answers = server.speak(client, ["read"], slice="1-2")
        assert answers == ["state 1,10 2,9"]


def test_a_switch_that_does_not_list_its_ports(client):
    with Server(startup=False) as server:
        first, answers = server.speak(client, ["apply set 1,10", "read"])
    assert first == "up 8 a switch that does not name itself"
    assert answers == ["done", "state 1,10"]


def test_a_server_that_is_no_switch(client):
    with Server(module=False, startup=False) as server:
        first, answers = server.speak(client, [])
    assert (first, answers) == ("down it does not serve the module optical-switch", [])


@pytest.fixture
def by_ssh():
    """Serves a subsystem over SSH; gives the command that opens a session."""
    if not (SSHD and SSH and shutil.which("ssh-keygen")):
        pytest.skip("sshd and ssh are not installed")
    room, running = Path(tempfile.mkdtemp(prefix="sshd-")), []

    def serve(server):
        for key in ["host", "user"]:
            words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(room / key)]
            subprocess.run(words, check=True)
        settings = f"""
            ListenAddress 127.0.0.1
            Port {server.port}
            HostKey {room}/host
            AuthorizedKeysFile {room}/user.pub
            Subsystem netconf "{server.subsystem}"
            AuthenticationMethods publickey
            PermitRootLogin prohibit-password
            StrictModes no
            UsePAM no
            PidFile none
        """
        (room / "config").write_text("\n".join(line.strip() for line in settings.splitlines()))
        command = [SSHD, "-D", "-e", "-f", str(room / "config")]
        if os.geteuid() == 0 and not Path("/run/sshd").exists():
            # Root's sshd wants this directory; a mount of its own leaves the machine as it is.
            within = 'mount -t tmpfs none /run && mkdir /run/sshd && exec "$@"'
            command = ["unshare", "-m", "sh", "-c", within, "sh", *command]
        running.append(subprocess.Popen(command, stderr=subprocess.PIPE, text=True))
        listening = running[0].stderr.readline()
        if "Server listening" not in listening:
            pytest.skip(f"sshd does not start here: {listening.strip()}")
        known = (room / "host.pub").read_text()
        (room / "known").write_text(f"[127.0.0.1]:{server.port} {known}")
        options = ["BatchMode=yes", f"UserKnownHostsFile={room}/known", "StrictHostKeyChecking=yes"]
        words = [word for option in options for word in ("-o", option)]
        words += ["-F", "none", "-i", f"{room}/user", "-p", str(server.port), "-T", "-s"]
        return [SSH, *words, "127.0.0.1", "netconf"]

    yield serve
    for process in running:
        stop(process)
        process.stderr.close()
    shutil.rmtree(room)


def test_a_session_over_ssh(client, by_ssh):
    with Server() as server:
        first, answers = server.speak(client, [order for order, _ in SESSION], by_ssh(server))
    assert first.startswith("up 8 Lightloom")
    hold(SESSION, answers)


class Session:
    """A client that holds the lock as long as its session lasts, order by order."""

    def __init__(self, server, client):
        # As sshd would tell the subsystem which port the session came by.
        env = {
            **os.environ,
            "SSH_CONNECTION": f"127.0.0.1 1 127.0.0.1 {server.port}",
            "USER": "test",
        }
        words = [client, "--lock", "--ports", "8", "--slice", "1-8", *server.subsystem.split()]
        pipe = subprocess.PIPE
        # A session that is ended under way complains.
        self.process = subprocess.Popen(
            words, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, env=env, text=True
        )

    def says(self):
        return self.process.stdout.readline().strip()

    def ask(self, order):
        self.process.stdin.write(order + "\n")
        self.process.stdin.flush()

    def answers(self, order):
        self.ask(order)
        return self.says().split(" ", 2)[2]

    def close(self):
        stop(self.process)
        self.process.stdin.close()
        self.process.stdout.close()


@pytest.mark.parametrize("target", ["running", "candidate"])
def test_the_lock_of_a_session_fences(client, target):
    """The second controller changes nothing; after `claim` the first one's session is dead."""
    with Server(f"--target={target}") as server:
        first = Session(server, client)
        term = first.says()
        assert term.startswith("term ") and first.says().startswith("up 8 ")
        assert first.answers("apply set 1,10 2,9") == "done"
        second = Session(server, client)
        try:
            assert second.says().startswith("up 8 ")
            holder = f"session {term.removeprefix('term ')} holds the lock: "
            assert second.says().startswith(f"fenced {holder}lock-denied")
            # It reads, and gives no order.
            assert second.answers("read") == "state 1,10 2,9"
            assert second.answers("apply end 1,10 2,9").startswith(f"fenced {holder}")
            # A session that asks for no lock is refused by the server itself.
            _, answers = server.speak(client, ["apply end 1,10", "read"])
            assert answers[0].startswith("refused") and answers[1] == "state 1,10 2,9", answers
            # The first one is stopped, and an operator says that the second one is alone.
            first.process.send_signal(signal.SIGSTOP)
            first.ask("apply end 1,10 2,9")
            second.ask("claim")
            assert second.says().startswith("term ")
            assert second.answers("apply end 1,10 2,9 set 1,11 3,9") == "done"
            # It goes on, and nothing of it gets through.
            first.process.send_signal(signal.SIGCONT)
            assert first.says() in ("closed", "")
            assert second.answers("read") == "state 1,11 3,9"
            assert second.answers("apply end 1,11 3,9") == "done"
        finally:
            first.process.send_signal(signal.SIGCONT)
            first.close()
            second.close()


def test_a_lock_ends_with_its_session(client):
    with Server() as server:
        for _ in range(3):
            session = Session(server, client)
            assert session.says().startswith("term ") and session.says().startswith("up 8 ")
            # As when the controller is killed.
            session.process.kill()
            session.close()
            time.sleep(0.1)
