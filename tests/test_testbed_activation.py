"""NICs that take time to become active, and what an emulated switch does wrong, on testbeds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from lightloom import daemon, testbed
from lightloom.errors import InputError, LightloomError
from lightloom.testbed import record, system
from lightloom.testbed.shape import Shape
from lightloom.units import Rate, Time
from testbed_beds import standing

try:
    daemon.find()
except InputError:
    pytest.skip("no lightloomd: make daemon", allow_module_level=True)

NAME = f"a{os.getpid() % 1_000_000}"
# The time that the switch takes to answer a login [s].
LOGIN = """
import socket, time
with socket.create_connection(("127.0.0.1", 3082)) as switch:
    begun = time.monotonic()
    switch.sendall(b"ACT-USER::root:1::root;")
    said = switch.recv(1000)
    assert b"COMPLD" in said, said
    print(time.monotonic() - begun)
"""


def test_the_first_bytes_come_once_nics_are_active() -> None:
    try:
        system.check()
        found = testbed.turnaround(1, 3, Time.parse("10 ms"), activation=Time.parse("300 ms"))
    except InputError as error:
        pytest.skip(f"NOT TESTED, no testbed can stand here: {error}")
    said = found.said()
    assert (said["activation_ms"], len(found.late_ms)) == (300, 3)
    # From the announcement: the switch's 10 ms, and NICs' 300 ms.
    assert all(310 < delivered < 10_000 for delivered in found.delivered_ms)
    assert min(found.control_ms) < 300, "the switch and the controller do not wait for NICs"


@pytest.mark.parametrize("told", [None, Time(0)])
def test_bytes_are_right_whether_the_controller_knows_or_not(
    told: Time | None, tmp_path: Path
) -> None:
    shape = Shape(
        name=NAME, servers=3, ranks_per_server=2, ocs_nics=2, rate=Rate.parse("20 Mbps"),
        activation=Time.parse("200 ms"), told_activation=told,
    )  # fmt: skip
    with standing(shape):
        region = (record.place(NAME) / "region.toml").read_text()
        assert f'activation = "{"200 ms" if told is None else "0 ps"}"' in region
        assert testbed.status(NAME)["shape"]["activation"] == "200 ms"
        request = testbed.Request(size_bytes=300_000, workload="receiver-skewed:1.1", count=3)
        # Every byte is checked by the ranks.
        outcomes = testbed.collective(NAME, request, out=tmp_path)
        assert len(outcomes) == 3 and any(outcome.circuits for outcome in outcomes)


def test_the_switch_does_wrong_what_up_was_told() -> None:
    shape = Shape(name=NAME, servers=2, ranks_per_server=1, ocs_nics=1, faults=("late=300ms",))
    with standing(shape):
        assert record.known(NAME) == shape
        took = float(system.call(*system.within(shape.ocs, sys.executable, "-c", LOGIN)))
        assert took >= 0.3


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--fault", "late"], "late: a fault is one of silent, late=2s"),
        (["--fault", "lies=2"], "lies=2: a share from 0 to 1"),
        (["--nic-activation", "61 s"], "--nic-activation: 61 s: must be from 0 ps to 60 s"),
        (["--nic-activation", "soon"], "--nic-activation: soon"),
        (["--told-activation", "61 s"], "--told-activation: 61 s: must be from"),
    ],
)
def test_bad_input_makes_nothing(words: list[str], why: str) -> None:
    up = [sys.executable, "-m", "lightloom", "testbed", "up", "--name", NAME]
    done = subprocess.run([*up, *words], capture_output=True, text=True, timeout=60)
    if "root" in done.stderr:
        pytest.skip(f"NOT TESTED, no testbed can stand here: {done.stderr}")
    assert done.returncode == 2, done
    assert why in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert not record.place(NAME).exists()


def test_a_record_from_before_is_read() -> None:
    said = Shape().said()
    for key in ("activation", "told_activation", "faults"):
        del said[key]
    assert Shape.heard(said) == Shape()
    with pytest.raises(LightloomError, match="--nic-activation"):
        Shape(activation=Time.parse("2 min"))
