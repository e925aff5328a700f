"""Testbeds for tests: one that stands, or a skip that says why none can; and its processes."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from lightloom import daemon, testbed
from lightloom.errors import InputError, RunError
from lightloom.testbed import system
from lightloom.testbed.shape import Shape


def permitted(*words: str) -> bool:
    """Return whether this user may have namespaces of its own, by these words of ``unshare``."""
    try:
        return subprocess.run(["unshare", *words, "true"], capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


@contextmanager
def standing(shape: Shape, *, without_root: bool = False) -> Iterator[Shape]:
    """Build a testbed, and take it down.

    The test is skipped if rights or programs are missing, or the kernel permits no namespaces. An
    `up` that fails where it may do its work fails the test.
    """
    try:
        daemon.find()
        testbed.up(shape, without_root=without_root)
    except InputError as error:
        pytest.skip(f"NOT TESTED, no testbed can stand here: {error}")
    except RunError as error:
        if permitted("--net"):
            raise
        pytest.skip(f"NOT TESTED, this system permits no namespaces: {error}")
    try:
        yield shape
    finally:
        testbed.down(shape.name)


def processes(shape: Shape, *words: str) -> list[int]:
    """Return the processes of a testbed that have these words on their command line."""
    found = []
    for namespace in shape.namespaces:
        for pid in system.processes(namespace):
            try:
                line = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
            except OSError:
                continue
            if all(word in line for word in words):
                found.append(pid)
    return found


def kill(shape: Shape, *words: str) -> None:
    """Kill the processes of a testbed that have these words on their command line."""
    # What a runtime starts as its agent is on its own command line, too.
    runtimes = [] if "runtime" in words else processes(shape, "runtime")
    pids = set(processes(shape, *words)).difference(runtimes)
    assert pids, words
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
