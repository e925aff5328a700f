"""Testbeds for tests: one that stands, or a skip that says why none can."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from lightloom import daemon, testbed
from lightloom.errors import InputError, RunError
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
