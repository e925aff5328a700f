"""Where namespaces are permitted a testbed stands in at least one of its two modes.

The other tests of testbeds skip where none can stand. This one fails if both modes are refused
though the system permits namespaces: else all of them could be skipped and nobody would notice.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from lightloom import daemon, testbed
from lightloom.errors import InputError, LightloomError
from lightloom.testbed.shape import Shape
from testbed_beds import permitted

LIGHTLOOM = [sys.executable, "-m", "lightloom"]
NAME = f"m{os.getpid() % 1_000_000}"


def stands(without_root: bool) -> str | None:
    """Return why no testbed stands here in this mode; none if one does, and takes collectives."""
    crossbar = "mirred" if without_root else "bpf"
    shape = Shape(
        name=NAME, servers=2, ranks_per_server=1, eps_nics=1, ocs_nics=1, crossbar=crossbar
    )
    try:
        testbed.up(shape, without_root=without_root)
    except LightloomError as error:
        return str(error)
    try:
        words = ["testbed", "collective", "allreduce", "--size", "4 kB", "--name", NAME]
        done = subprocess.run([*LIGHTLOOM, *words], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    finally:
        testbed.down(NAME)
    return None


def test_one_of_two_modes_stands_where_namespaces_are_permitted() -> None:
    try:
        daemon.find()
    except InputError:
        pytest.skip("no lightloomd: make daemon")
    root, user = permitted("--net"), permitted("--user", "--map-root-user", "--net", "--mount")
    if not root and not user:
        pytest.skip("NOT TESTED: this system permits no namespaces")
    why = {mode: stands(mode == "rootless") for mode in ("root", "rootless")}
    print(why)
    assert None in why.values(), why
