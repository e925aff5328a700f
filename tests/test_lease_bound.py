"""The end of a lease binds the sender: a short run of ``lease_bound``, and runtimes that lag."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from lease_bound import Look, World, judge, rounds
from lightloom import daemon
from lightloom.errors import InputError

try:
    LIGHTLOOMD: str = daemon.find()
except InputError:
    pytest.skip("no lightloomd: make daemon", allow_module_level=True)

LEASE_MS, GRACE_MS = 600, 200
CLOCK = {
    "boot": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
    "time_namespace": os.readlink("/proc/self/ns/time"),
    "boottime_offset": "0 0",
}


def test_nothing_is_sent_into_the_dark_whatever_stops_or_dies(tmp_path: Path) -> None:
    kinds = ["agents frozen", "controller frozen", "switch frozen", "agents killed", "all killed"]
    with World(tmp_path, LIGHTLOOMD, LEASE_MS, GRACE_MS) as world:
        verdicts = list(rounds(world, kinds, 1, 2.5, print))
    assert [verdict for verdict in verdicts if verdict.violations] == []
    assert all(verdict.sends > 100 for verdict in verdicts)
    assert sum(verdict.plans for verdict in verdicts) > 10
    sends, unseen = (sum(getattr(one, key) for one in verdicts) for key in ("sends", "unseen"))
    assert unseen < sends / 10, "the machine was too busy to look at the switch"


def test_what_came_and_went_between_two_looks_is_unseen() -> None:
    ms = 1_000_000
    send = {"server": 0, "port": 0, "peer": (1, 0), "generation": 1, "ns": 50 * ms}
    other = {1: 5, 5: 1, 3: 7, 7: 3}

    def looks(apart_ms: int) -> list[Look]:
        half = apart_ms * ms // 2
        return [Look(0, 50 * ms - half, other), Look(50 * ms + half, 200 * ms, other)]

    def judged(apart_ms: int) -> tuple[int, int]:
        verdict = judge([send | {"sent_ns": send["ns"]}], looks(apart_ms))
        return verdict.misdirected, verdict.unseen

    assert (judged(40), judged(60)) == ((1, 0), (0, 1))


def test_runtimes_that_ignore_the_end_are_found(tmp_path: Path) -> None:
    with World(tmp_path, LIGHTLOOMD, LEASE_MS, GRACE_MS, "--ignore-lease-end") as world:
        # A server that has no circuit just when its agent is frozen sends nothing.
        verdicts = rounds(world, ["agents frozen"] * 4, 1, 2.5, print)
        assert any(verdict.violations > 100 for verdict in verdicts)


def test_what_is_stopped_between_the_clock_and_the_send_is_counted_apart(tmp_path: Path) -> None:
    with World(tmp_path, LIGHTLOOMD, LEASE_MS, GRACE_MS, "--dwell", "50 ms") as world:
        verdicts = []
        while not any(verdict.late for verdict in verdicts) and len(verdicts) < 10:
            world.stopped("runtime-0", 3 * LEASE_MS / 1000)
            verdicts.append(judge(world.settle(), world.eye.looks))
    assert [verdict for verdict in verdicts if verdict.violations] == []
    assert any(verdict.late for verdict in verdicts)


def agent(*words: str, **how: Any) -> subprocess.Popen[str]:
    pipes = {name: subprocess.PIPE for name in ("stdin", "stdout", "stderr")}
    words = (LIGHTLOOMD, "--log-level", "off", "agent", "serve", "--server", "node-00", *words)
    return subprocess.Popen(words, text=True, **pipes, **how)


@pytest.mark.parametrize("key", ["boot", "time_namespace", "boottime_offset"])
def test_a_runtime_with_another_clock_is_refused(key: str) -> None:
    with agent() as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline()) == {"agent": CLOCK}
        said = json.dumps({"runtime": CLOCK | {key: "other"}})
        _, error = process.communicate(said + "\n", timeout=20)
    assert process.returncode == 1 and error.count("\n") == 1
    assert f'{key} is "{CLOCK[key]}" here and "other" there' in error


def test_a_runtime_says_first_which_clock_it_reads() -> None:
    with agent() as process:
        out, error = process.communicate('{"using": {"number": 1}}\n', timeout=20)
    assert (process.returncode, error) == (0, "")
    assert (
        "the first line of a runtime must be `runtime`" in json.loads(out.splitlines()[1])["error"]
    )


def test_an_agent_whose_runtime_does_not_read_is_silent_and_not_stuck(tmp_path: Path) -> None:
    with World(tmp_path, LIGHTLOOMD, LEASE_MS, GRACE_MS) as world:
        world.kill("runtime-0")
        del world.running["runtime-0"]
        # It speaks, and never reads: of the little that fits into the pipe nothing is taken out.
        with agent("--controller", world.url) as process:
            assert process.stdin is not None and process.stdout is not None
            fcntl.fcntl(process.stdout, 1031, 4096)  # F_SETPIPE_SZ
            process.stdin.write(json.dumps({"runtime": CLOCK}) + "\n")
            for number in range(1, 4):
                process.stdin.write(json.dumps({"using": {"number": number}}) + "\n")
                process.stdin.flush()
                time.sleep(0.2)
            until = time.monotonic() + 20
            while not any("server-silent" in alarm for alarm in world.alarms()):
                assert time.monotonic() < until, world.alarms()
                process.stdin.write(json.dumps({"demand": {"round": 1, "bytes": [0] * 4}}) + "\n")
                process.stdin.flush()
                time.sleep(0.1)
            (alarm,) = world.alarms()
            assert '"server": 0' in alarm or "node-00" in alarm
            # The others go on: circuits come and go.
            world.new_sends()
            time.sleep(1.5)
            sends = world.new_sends()
            assert {send["server"] for send in sends} == {1, 2, 3}
            assert len({send["generation"] for send in sends}) > 2
            process.stdin.close()
            assert process.wait(timeout=20) == 0
            process.stdin = None
        world.start_runtime(0)
        world.settle()
        assert not any("server-silent" in alarm for alarm in world.alarms())


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--every", "0 ms"], "--every"),
        (["--round", "2 h"], "from 10 us to 1 h"),
        (["--controller", "ftp://x"], "--controller: ftp://x: must begin with"),
        (["--token-file", "none"], "--token-file: none: "),
        (["--sends", "none/none"], "--sends: none/none: "),
    ],
)
def test_bad_input_of_the_emulator(words: list[str], says: str) -> None:
    whole = [LIGHTLOOMD, "runtime-emulator", "--server", "node-00", *words]
    done = subprocess.run(whole, capture_output=True, text=True, timeout=20)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert says in done.stderr


def test_bad_input_of_the_script() -> None:
    script = Path(__file__).with_name("lease_bound.py")
    done = subprocess.run(
        [sys.executable, str(script), "--rounds", "0"], capture_output=True, text=True
    )
    assert done.returncode == 2 and "--rounds must be 1 or more" in done.stderr
