"""Print the tables of docs/jobs.md, each from runs that are made now.

``python docs/jobs.py`` runs all of them, ``python docs/jobs.py phase`` one. Progress goes to
stderr. Ignored: everything that `lightloom.run_jobs` ignores.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from lightloom import run_jobs
from lightloom.jobs import JobsResult
from tables import show

# A job of a block of four servers; an eighth of Mixtral 8x7B's layers.
JOB: dict[str, Any] = {
    "gpus": 32,
    "model": {"preset": "mixtral-8x7b", "layers": 4},
    "parallelism": {"pp": 1},
    "training": {"micro_batches": 2},
    "iterations": 4,
}
# Four leaves of two servers, whose uplinks carry a third of what servers send.
NARROW = {
    "preset": "leaf-spine",
    "link_bandwidth": "100 Gbps",
    "oversubscription": 3.0,
    "radix": 32,
}


def run(fabric: dict[str, Any], *jobs: dict[str, Any], gpus: int = 64, **more: Any) -> JobsResult:
    """Run jobs on a cluster of so many GPUs."""
    print(f"{fabric['preset']}: {[job.get('servers') for job in jobs]} {more}", file=sys.stderr)
    tables = {"cluster": {"gpus": gpus}, "fabric": fabric, "jobs": list(jobs)}
    return run_jobs(tables, settings=more, progress=False)


def phase() -> Iterator[tuple[str, ...]]:
    """Yield two jobs under the same leaves by when the second starts."""
    yield (
        *("second starts after", "first: together over alone", "second"),
        *("first: all-to-all alone [ms]", "together [ms]", "second [ms]"),
    )
    job = JOB | {"servers": "spread"}
    alone_s = run(NARROW, job).rows[0]["alone_s"]
    for share in (0.0, 0.125, 0.25, 0.375, 0.5, 0.75, 4.0):
        start = f"{round(share * alone_s * 1e9)} ns"
        first, second = run(NARROW, job, job | {"start": start}).rows
        yield (
            *(f"{share:g} iterations", f"{first['slowdown']:.3f}", f"{second['slowdown']:.3f}"),
            f"{1e3 * first['a2a_alone_s']:.1f}",
            *(f"{1e3 * row['a2a_together_s']:.1f}" for row in (first, second)),
        )


FABRICS: dict[str, dict[str, Any]] = {
    "leaf-spine 3:1": NARROW,
    "leaf-spine 1:1": NARROW | {"oversubscription": 1.0},
    "fat-tree 3:1": {"preset": "fat-tree-3to1", "link_bandwidth": "100 Gbps"},
    "rail-optimized 3:1": {
        "preset": "rail-optimized", "link_bandwidth": "100 Gbps", "oversubscription": 3.0,
        "radix": 8,
    },
    "MixNet": {"preset": "mixnet", "link_bandwidth": "100 Gbps"},
    "MixNet, packets 3:1": {
        "preset": "mixnet", "link_bandwidth": "100 Gbps", "eps": {"oversubscription": 3.0},
    },
}  # fmt: skip


def fabrics() -> Iterator[tuple[str, ...]]:
    """Yield two jobs by fabric and by where their servers are."""
    yield (
        *("fabric", "servers", "alone [ms]", "together [ms]", "apart [ms]"),
        *("together over alone", "left NICs [GB]", "on links of both [GB]"),
    )
    for name, fabric in FABRICS.items():
        for servers in ("spread", "packed"):
            row = run(fabric, JOB | {"servers": servers}, JOB | {"servers": servers}).rows[0]
            times = (row["alone_s"], row["together_s"], row["apart_s"])
            yield (
                *(name, servers),
                *("-" if time is None else f"{1e3 * time:.1f}" for time in times),
                f"{row['slowdown']:.3f}",
                *(f"{row[key] / 1e9:.1f}" for key in ("between_servers_bytes", "shared_bytes")),
            )


def engines() -> Iterator[tuple[str, ...]]:
    """Yield a small case on both engines."""
    yield "run", "flow engine [us]", "packet engine [us]", "packets over flows"
    job = {
        "gpus": 16,
        "model": {"preset": "mixtral-8x7b", "layers": 2},
        "parallelism": {"tp": 2, "pp": 1},
        "training": {"sequence_length": 256, "micro_batch": 1, "micro_batches": 1},
        "servers": "spread",
    }
    rows = [
        run(NARROW, job, job, gpus=32, **{"engine.kind": engine}).rows[0]
        for engine in ("flow", "packet")
    ]
    for kind in ("alone", "together", "apart"):
        flow, packet = (1e6 * row[f"{kind}_s"] for row in rows)
        yield kind, f"{flow:.1f}", f"{packet:.1f}", f"{packet / flow:.3f}"


TABLES = {"phase": phase, "fabrics": fabrics, "engines": engines}

if __name__ == "__main__":
    show(TABLES, sys.argv[1:])
