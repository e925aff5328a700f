"""A testbed without root, as nobody: built, used, ended, and what is said where it cannot be."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lightloom import daemon
from lightloom.errors import InputError
from lightloom.testbed import holder, system
from lightloom.testbed.shape import Shape
from lightloom.units import Rate, Time
from testbed_agents import Agent, ask
from testbed_flows import is_shaped, transfer

try:
    daemon.find()
except InputError:
    pytest.skip("no lightloomd: make daemon", allow_module_level=True)

NAME = f"n{os.getpid() % 1_000_000}"
SHAPE = Shape(
    name=NAME, servers=3, ranks_per_server=2, ocs_nics=2, rate=Rate.parse("100 Mbps"),
    delay=Time.parse("10 ms"), crossbar="mirred",
)  # fmt: skip
FLAGS = ["--servers", "3", "--ranks-per-server", "2", "--ocs-nics", "2", "--delay", "10 ms"]
NOBODY = 65534


class User:
    """Who runs the commands: nobody, if this is root and there is a Python that nobody can run."""

    def __init__(self, state: Path) -> None:
        self.state, self.prefix, self.python = state, [], sys.executable
        paths = [str(Path(path).absolute()) for path in sys.path if path]
        places = [str(Path(daemon.find()).parent), os.environ["PATH"]]
        self.env = os.environ | {
            "XDG_RUNTIME_DIR": str(state),
            "PYTHONPATH": os.pathsep.join(paths),
            "PATH": os.pathsep.join(places),
        }
        if os.geteuid() != 0:
            return
        # By a shell: setpriv itself still may all when it runs a program.
        ids = [f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        self.prefix = ["setpriv", *ids, "sh", "-c", 'exec "$0" "$@"']
        for self.python in (sys.executable, "/usr/bin/python3"):
            if self.run("-c", "import lightloom.cli.application, lightloom._core").returncode == 0:
                os.chown(state, NOBODY, NOBODY)
                return
        self.prefix, self.python = [], sys.executable

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.prefix, self.python, *words], capture_output=True, text=True, env=self.env
        )

    def testbed(self, *words: str, name: str = NAME) -> subprocess.CompletedProcess[str]:
        command, *flags = words
        return self.run("-m", "lightloom", "testbed", command, "--name", name, *flags)

    def holder(self, name: str = NAME) -> holder.Holder:
        place = self.state / "lightloom" / "testbed" / f"{name}.holder"
        return holder.Holder(**json.loads(place.read_text()))

    def within(self, namespace: str, *words: str) -> list[str]:
        words = tuple(self.python if word == sys.executable else word for word in words)
        return [*self.prefix, *self.holder().enter(*system.within(namespace, *words))]


@pytest.fixture(scope="module")
def user() -> Iterator[User]:
    state = Path(tempfile.mkdtemp())
    yield User(state)
    shutil.rmtree(state)


@pytest.fixture(scope="module")
def bed(user: User) -> Iterator[Shape]:
    done = user.testbed("up", "--rootless", *FLAGS)
    if "permits no user namespaces" in done.stderr:
        pytest.skip(f"NOT TESTED, no testbed without root can stand here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    assert "no filters stand at NICs" in done.stdout and f"{NAME} is up" in done.stdout
    try:
        yield SHAPE
    finally:
        assert user.testbed("down").returncode == 0


def status(user: User) -> dict[str, Any]:
    done = user.testbed("status", "--json")
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_packets_are_shaped(bed: Shape, user: User) -> None:
    ends = [(server, bed.packet(server)[0].address) for server in (0, 2)]
    assert is_shaped(bed, ends[0], ends[1], 2_000_000, bed.rate, user.within)


def test_bytes_go_over_the_circuits_that_the_controller_sets(bed: Shape, user: User) -> None:
    agents = [Agent(bed, server, user.within) for server in range(bed.servers)]
    try:
        for round, pair in enumerate([(0, 1), (1, 2), (0, 1)], 1):
            circuits = ask(agents, round, pair)
            joined = [(port, end) for port, end in enumerate(circuits[pair[0]]) if end]
            assert len(joined) == bed.ocs_nics and {end[0] for _, end in joined} == {pair[1]}
            for port, (server, far) in joined:
                near = (pair[0], bed.optical(pair[0])[port].address)
                there = (server, bed.optical(server)[far].address)
                assert is_shaped(bed, near, there, 2_000_000, bed.rate, user.within), round
        # No filter holds it back: the switch loses what has no circuit.
        third = (2, bed.optical(2)[0].address)
        first = (0, bed.optical(0)[0].address)
        assert transfer(bed, third, first, 1000, within=user.within) is None
        now = status(user)
    finally:
        for agent in agents:
            agent.process.kill()
            agent.process.wait()
    assert now["shape"]["crossbar"] == "mirred" and now["filters"] == []
    assert now["controller"]["region"] == NAME and now["controller"]["alarms"] == []
    assert sum(row["bytes"] for row in now["switch"]) > 3 * bed.ocs_nics * 2_000_000
    assert sum(row["unconnected"] for row in now["switch"]) > 0
    assert {row["dark_bare"] for row in now["switch"]} == {None}


def test_status_is_for_people_and_for_the_simulator(bed: Shape, user: User) -> None:
    done = user.testbed("status")
    assert done.returncode == 0 and done.stdout.count(" any ") == bed.servers * bed.ocs_nics
    done = user.testbed("status", "--spec")
    assert done.returncode == 0 and "optical_nics = 2" in done.stdout, done.stderr


def test_what_is_there_is_not_built_again(bed: Shape, user: User) -> None:
    done = user.testbed("up", "--rootless")
    assert done.returncode == 2 and "there is such a testbed" in done.stderr
    assert user.holder().alive


def test_nothing_is_to_be_seen_outside(bed: Shape) -> None:
    names = os.listdir(system.NAMESPACES) if system.NAMESPACES.exists() else []
    assert not [name for name in names if name.startswith(f"{NAME}-")]


def test_rails_stand_without_root_too(bed: Shape, user: User) -> None:
    name = f"{NAME}r"
    flags = ["--rootless", "--servers", "2", "--eps", "rails", "--eps-nics", "2"]
    done = user.testbed("up", *flags, name=name)
    assert done.returncode == 0, done.stderr
    there = user.holder(name)
    assert user.testbed("down", name=name).returncode == 0
    assert not there.alive


@pytest.mark.parametrize("after_s", [0.05, 0.2, 0.4, 0.6, 0.9])
def test_one_that_is_killed_in_the_middle_is_removed_whole(
    bed: Shape, user: User, after_s: float
) -> None:
    name = f"{NAME}k"
    words = [*user.prefix, user.python, "-m", "lightloom", "testbed", "up", "--name", name]
    with subprocess.Popen(
        [*words, "--rootless"], env=user.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        time.sleep(after_s)
        process.kill()
    assert user.testbed("down", name=name).returncode == 0
    places = user.state / "lightloom" / "testbed"
    assert [path.name for path in places.iterdir() if path.name.startswith(name)] == []
    assert "there was none" in user.testbed("down", name=name).stdout
    assert user.holder().alive, "the other one goes on"


def test_one_that_is_interrupted_leaves_nothing(bed: Shape, user: User) -> None:
    name = f"{NAME}i"
    words = [*user.prefix, user.python, "-m", "lightloom", "testbed", "up", "--name", name]
    with subprocess.Popen(
        [*words, "--rootless"], env=user.env, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None and "namespaces" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 130
    places = user.state / "lightloom" / "testbed"
    assert [path.name for path in places.iterdir() if path.name.startswith(name)] == []
    assert f"/{name}/switch.json" not in commands()


def test_a_holder_that_was_killed_takes_all_with_it(bed: Shape, user: User) -> None:
    name = f"{NAME}d"
    done = user.testbed("up", "--rootless", "--servers", "2", name=name)
    assert done.returncode == 0, done.stderr
    there = user.holder(name)
    switch = f"/run/lightloom/testbed/{name}/switch.json"
    assert switch in commands()
    os.kill(there.pid, signal.SIGKILL)
    until = time.monotonic() + 10
    while switch in commands() and time.monotonic() < until:
        time.sleep(0.05)
    assert switch not in commands()
    done = user.testbed("status", name=name)
    assert done.returncode == 2 and "has ended, and with it the testbed" in done.stderr
    assert user.testbed("down", name=name).stdout == f"{name} is down\n"


def commands() -> str:
    """Return the command lines of all processes."""
    lines = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(place.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:  # it has ended
            continue
    return "\n".join(lines)


def test_without_rights_and_without_namespaces_one_line_says_what_to_do(user: User) -> None:
    if not user.prefix:
        pytest.skip("nobody cannot read Lightloom here, or this is not root")
    done = user.testbed("up")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "needs root" in done.stderr and "`lightloom testbed up --rootless`" in done.stderr
    done = user.testbed("up", "--rootless", "--crossbar", "bpf")
    assert done.returncode == 2 and "must be mirred with --rootless" in done.stderr
    done = user.testbed("status", name="nothing")
    assert done.returncode == 2 and "there is no such testbed" in done.stderr


def test_where_user_namespaces_are_not_permitted(user: User) -> None:
    """In a user namespace that may have no further ones."""
    code = (
        "import pathlib, subprocess, sys;"
        "pathlib.Path('/proc/sys/user/max_user_namespaces').write_text('0');"
        "sys.exit(subprocess.call(sys.argv[1:]))"
    )
    up = [user.python, "-m", "lightloom", "testbed", "up", "--rootless", "--name", "never"]
    words = ["unshare", "--user", "--map-root-user", user.python, "-c", code, *up]
    done = subprocess.run([*user.prefix, *words], capture_output=True, text=True, env=user.env)
    if "PermissionError" in done.stderr or done.stderr.startswith("unshare"):
        pytest.skip(f"NOT TESTED: {done.stderr.strip().splitlines()[-1]}")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "permits no user namespaces as a testbed needs them: unshare" in done.stderr
    assert not list(user.state.glob("lightloom/testbed/never*"))


def test_collectives_run_without_root(user: User) -> None:
    name = f"{NAME}j"
    done = user.testbed("up", "--rootless", *FLAGS, name=name)
    if "permits no user namespaces" in done.stderr:
        pytest.skip(f"NOT TESTED, no testbed without root can stand here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    try:
        words = ["--size", "1 MB", "--path", "delegate,stripe", "--json"]
        done = user.testbed("collective", "alltoall", *words, name=name)
        assert done.returncode == 0, done.stderr
        delegate, stripe = json.loads(done.stdout)
        assert delegate["circuits"] > 0 and delegate["between_bytes"] > 0
        assert stripe["between_bytes"] > 0
        done = user.testbed("run", "--", "sh", "-c", 'echo "rank $RANK"', name=name)
        assert done.returncode == 0, done.stderr
        ranks = range(SHAPE.servers * SHAPE.ranks_per_server)
        assert sorted(done.stdout.splitlines()) == sorted(f"rank {rank}" for rank in ranks)
        done = user.testbed("run", "--", "sh", "-c", "exit 3", name=name)
        assert done.returncode == 1 and "has ended with exit code 3" in done.stderr
    finally:
        assert user.testbed("down", name=name).returncode == 0
