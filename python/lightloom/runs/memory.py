"""Memory of this machine and of processes, where the system tells: Linux.

Elsewhere nothing is known, and what is not known bounds nothing.
"""

from __future__ import annotations

import resource
import sys
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")
_GROUPS = Path("/sys/fs/cgroup")


def available() -> int | None:
    """Return how much more memory processes may take here [B]; None if that is not known."""
    found = [free for free in (_field(_PROC / "meminfo", "MemAvailable"), _of_group()) if free]
    return min(found, default=None)


def held(process: int) -> int:
    """Return how much memory a process holds [B]; 0 if that is not known."""
    return _field(_PROC / str(process) / "status", "VmRSS") or 0


def forget_peak() -> None:
    """Begin to measure anew the most memory that this process holds."""
    with suppress(OSError):
        (_PROC / "self" / "clear_refs").write_text("5", encoding="ascii")


def peak() -> int:
    """Return the most memory that this process held since `forget_peak` [B]."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    whole = most * (1 if sys.platform == "darwin" else 1024)
    return _field(_PROC / "self" / "status", "VmHWM") or whole


def _field(path: Path, name: str) -> int | None:
    """Return a line ``name:  12 kB`` of a file in bytes."""
    with suppress(OSError, ValueError):
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
    return None


def _of_group() -> int | None:
    """Return what the process's control group and those above it leave: containers, Slurm."""
    free = None
    with suppress(OSError, ValueError):
        line = next(
            line
            for line in (_PROC / "self" / "cgroup").read_text(encoding="utf-8").splitlines()
            if line.startswith("0::")
        )
        group = _GROUPS / line[3:].lstrip("/")
        for place in (group, *group.parents):
            with suppress(OSError, ValueError):
                most = int((place / "memory.max").read_text(encoding="ascii"))
                used = int((place / "memory.current").read_text(encoding="ascii"))
                cached = _stat(place / "memory.stat", "inactive_file")
                left = max(1, most - used + cached)
                free = left if free is None else min(free, left)
            if place == _GROUPS:
                break
    return free


def _stat(path: Path, name: str) -> int:
    for line in path.read_text(encoding="ascii").splitlines():
        if line.startswith(f"{name} "):
            return int(line.split()[1])
    return 0
