"""Takes a testbed down: what its record names, and nothing else."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time

from lightloom.errors import RunError
from lightloom.testbed import record, system
from lightloom.testbed.shape import Shape

# Daemons end by themselves within this; what is left is killed.
PATIENCE_S = 2.0


def down(name: str) -> bool:
    """Take a testbed down, whole or half built; say whether there was one.

    Raises
    ------
    InputError
        If rights are missing, or its record cannot be read.
    RunError
        If something of it stays.
    """
    system.check()
    shape = record.read(name)
    directory = record.place(name)
    if shape is None:
        # It ended before it wrote what it was going to make: there is nothing but the directory.
        there = directory.exists()
        shutil.rmtree(directory, ignore_errors=True)
        return there
    remove(shape)
    return True


def remove(shape: Shape) -> None:
    """Remove all that a testbed of this shape is made of, as far as it is there.

    Raises
    ------
    RunError
        If processes do not end, or the kernel will not.
    """
    directory = record.place(shape.name)
    there = [namespace for namespace in shape.namespaces if system.exists(namespace)]
    _end(there)
    pins = directory / "bpf"
    while pins.is_mount():
        system.call("umount", str(pins))
    for namespace in there:
        system.call("ip", "netns", "delete", namespace)
    # The record last: until then this can be done again.
    shutil.rmtree(directory)
    with contextlib.suppress(OSError):  # there are others
        record.PLACE.rmdir()


def _end(namespaces: list[str]) -> None:
    """End all processes in these namespaces: first they are asked, then they are killed."""
    until = time.monotonic() + PATIENCE_S
    asked: set[int] = set()
    while alive := {pid for namespace in namespaces for pid in system.processes(namespace)}:
        late = time.monotonic() > until
        for pid in alive if late else alive - asked:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL if late else signal.SIGTERM)
                os.kill(pid, signal.SIGCONT)
        asked |= alive
        if time.monotonic() > until + 10:
            raise RunError(f"processes {sorted(alive)} do not end")
        time.sleep(0.02)
