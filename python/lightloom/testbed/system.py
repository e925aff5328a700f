"""Asks the kernel: runs ``ip``, ``tc``, ``mount`` and ``nsenter``, and says what is missing."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from lightloom.errors import InputError, RunError
from lightloom.testbed.lines import Batch

NAMESPACES = Path("/run/netns")


def check() -> None:
    """Say what is missing for a testbed, in one line.

    Raises
    ------
    InputError
        If this is not root, or a program is not there.
    """
    if os.geteuid() != 0:
        raise InputError(
            "a testbed needs root: it makes network namespaces and loads programs for tc;"
            " `lightloom testbed up --rootless` does without, in a user namespace"
        )
    find_tools("ip", "tc", "nsenter")


def find_tools(*tools: str) -> None:
    """Say which of these programs is missing.

    Raises
    ------
    InputError
        If one is; with the package that brings it.
    """
    for tool in tools:
        if shutil.which(tool) is None:
            package = "iproute2" if tool in ("ip", "tc") else "util-linux"
            raise InputError(f"{tool}: is not on the PATH ({package})")


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Let an interrupt wait: what was begun is made whole, and so can be removed.

    It is blocked, for the programs that are started; and only noted, since other threads of this
    process (a library's) may be given it all the same.
    """
    ours = threading.current_thread() is threading.main_thread()
    noted: list[int] = []
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    before = signal.getsignal(signal.SIGINT)
    notes = ours and callable(before)
    if notes:
        signal.signal(signal.SIGINT, lambda number, _: noted.append(number))
    try:
        yield
    finally:
        if notes:
            signal.signal(signal.SIGINT, before)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if noted:
            signal.raise_signal(signal.SIGINT)


def _ask(words: Sequence[str], said: str | None = None) -> subprocess.CompletedProcess[str]:
    with uninterrupted():
        return subprocess.run(words, input=said, capture_output=True, text=True)


def call(*words: str) -> str:
    """Run a command, and return what it prints.

    Raises
    ------
    RunError
        If it fails; with the command and the first line of what it says.
    """
    done = _ask(words)
    if done.returncode != 0:
        line = (done.stderr.strip().splitlines() or ["failed"])[0]
        raise RunError(f"{' '.join(words)}: {line}")
    return done.stdout


def run(batch: Batch) -> None:
    """Run lines of ``ip`` or ``tc``.

    Raises
    ------
    RunError
        As `call`, with the line that failed.
    """
    where = ["-n", batch.namespace] if batch.namespace else []
    words = [batch.tool, *where, "-batch", "-"]
    done = _ask(words, "\n".join(batch.lines) + "\n")
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or ["failed"]
        number = next((line for line in said if line.startswith("Command failed")), "")
        at = number.rpartition(":")[2]
        line = batch.lines[int(at) - 1] if at.isdigit() else ""
        raise RunError(f"{' '.join(words[:-2])} {line}: {said[0]}")


def within(namespace: str, *words: str) -> list[str]:
    """Return a command that runs these words in a namespace, and sees all else as here.

    ``ip netns exec`` would hide pinned programs: it mounts ``/sys`` anew.
    """
    return ["nsenter", f"--net={NAMESPACES / namespace}", *words]


def exists(namespace: str) -> bool:
    """Return whether there is a namespace of this name."""
    return (NAMESPACES / namespace).exists()


def processes(namespace: str) -> list[int]:
    """Return the processes in a namespace."""
    return [int(word) for word in call("ip", "netns", "pids", namespace).split()]
