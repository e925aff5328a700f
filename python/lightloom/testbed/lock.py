"""One job at a time is on a testbed."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator

from lightloom.errors import InputError
from lightloom.testbed import record
from lightloom.testbed.shape import Shape


@contextlib.contextmanager
def only_one(shape: Shape) -> Iterator[None]:
    """Hold a testbed, on which one job at a time is.

    Raises
    ------
    InputError
        If a job is on it.
    """
    path = record.place(shape.name) / "job.lock"
    lock = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(f"--name: {shape.name}: a job is on this testbed") from None
        yield
    finally:
        os.close(lock)
