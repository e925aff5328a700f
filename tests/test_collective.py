"""Collectives on a testbed, as a user runs them: bytes, NICs, circuits, and what goes wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lightloom import daemon, testbed
from lightloom.errors import InputError, RunError
from lightloom.runtime import Arena, Rank
from lightloom.testbed import record, system
from lightloom.testbed.collective import between
from lightloom.testbed.shape import Shape
from lightloom.units import Rate, Time
from testbed_beds import standing

try:
    daemon.find()
except InputError:
    pytest.skip("no lightloomd: make daemon", allow_module_level=True)

NAME = f"c{os.getpid() % 1_000_000}"
SHAPE = Shape(
    name=NAME, servers=3, ranks_per_server=2, eps_nics=2, ocs_nics=2,
    rate=Rate.parse("50 Mbps"), delay=Time.parse("10 ms"),
)  # fmt: skip
RANKS = SHAPE.servers * SHAPE.ranks_per_server


@pytest.fixture(scope="module")
def bed() -> Iterator[Shape]:
    with standing(SHAPE) as shape:
        yield shape


def cli(*words: str, name: str = NAME) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-m", "lightloom", "testbed", words[0], "--name", name]
    return subprocess.run([*program, *words[1:]], capture_output=True, text=True, timeout=120)


def outcomes(*words: str) -> list[dict[str, Any]]:
    done = cli("collective", *words, "--json")
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout))


def test_all_to_alls_take_the_nics_that_their_path_says(bed: Shape) -> None:
    words = [
        "--size",
        "600001 B",
        "--demand",
        "receiver-skewed:1.1",
        "--path",
        "delegate,rails,stripe",
    ]
    found = outcomes("alltoall", *words, "--count", "2", "--chunk", "16 KiB")
    request = testbed.Request(size_bytes=600_001, workload="receiver-skewed:1.1", count=2)
    demands = request.demands(bed)
    assert [row["path"] for row in found] == ["delegate"] * 2 + ["rails"] * 2 + ["stripe"] * 2
    for row in found:
        wanted = between(demands[row["demand"]], bed)
        sent, received = np.array(row["sent"]), np.array(row["received"])
        # Nothing is sent twice here; a barrier moves a few bytes more.
        for moved, asked in ((sent, wanted.sum(axis=1)), (received, wanted.sum(axis=0))):
            more = moved.sum(axis=1).astype(int) - asked.astype(int)
            assert more.min() >= 0 and more.max() < 100, row
        assert row["seconds"] > row["placed_seconds"] * 0.99
        packet, optical = sent[:, : bed.eps_nics], sent[:, bed.eps_nics :]
        if row["path"] == "delegate":
            assert row["circuits"] > 0 and optical.sum() > 0
        else:
            assert optical.sum() < 100
        if row["path"] == "rails":
            # RailS, Theorem 4: a sender's NICs differ by a chunk at most.
            assert np.ptp(packet, axis=1).max() <= 16 * 1024 + 100


@pytest.mark.parametrize("algorithm", ["direct", "ring"])
@pytest.mark.parametrize(
    "kind", ["allreduce", "reducescatter", "allgather", "broadcast", "barrier"]
)
def test_other_collectives_end_with_the_right_bytes(bed: Shape, kind: str, algorithm: str) -> None:
    words = ["--size", "400004 B", "--algorithm", algorithm, "--count", "2"]
    assert len(outcomes(kind, *words)) == 2


def test_sizes_of_nothing_and_of_one(bed: Shape) -> None:
    assert outcomes("alltoall", "--size", "0 B", "--path", "stripe")[0]["between_bytes"] < 100
    assert outcomes("allreduce", "--size", "4 B")[0]["between_bytes"] < 100
    assert outcomes("allreduce", "--size", "0 B")


PROGRAM = """
import os, sys, time
import numpy as np
from lightloom.runtime import Rank
with Rank() as rank:
    assert (rank.rank, rank.size) == (int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    # Arrays that are not in the arena are copied, before and after.
    array = np.full((3, 5), rank.rank, np.float64)
    rank.all_reduce(array, "max")
    assert (array == rank.size - 1).all()
    half = np.full(9, 0x3F80 + rank.rank, np.uint16)
    rank.all_reduce(half, "min", element="bfloat16")
    assert (half == 0x3F80).all()
    even = rank.group(range(0, rank.size, 2))
    if rank.rank % 2 == 0:
        rows = [1 + at for at in range(rank.size // 2)]
        mine = rank.members(even).index(rank.rank)
        sent = np.repeat(rank.rank, len(rows) * rows[mine]).astype(np.int64)
        received = np.empty(sum(rows), np.int64)
        rows_out = [rows[mine]] * len(rows)
        work = rank.all_to_all(received, sent, rows, rows_out, group=even, wait=False)
        work.wait(20)
        wanted = np.repeat(rank.members(even), rows)
        assert (received == wanted).all(), (received, wanted)
        assert set(work.times) == {"gather", "exchange", "local", "scatter"}
    word = np.array([7 + rank.rank])
    if rank.rank == 0:
        rank.send(word, rank.size - 1)
    if rank.rank == rank.size - 1:
        rank.receive(word, 0)
        assert word[0] == 7
    for wrong in (lambda: rank.all_reduce(np.zeros(3, np.float16)),
                  lambda: rank.all_to_all(np.zeros(7), np.zeros(7)),
                  lambda: rank.all_reduce(np.zeros((4, 4)).T)):
        try:
            wrong()
        except Exception as error:
            assert type(error).__name__ == "InputError", error
        else:
            raise SystemExit("that makes no sense")
    rank.barrier()
    if rank.rank == 0:
        print("all is well")
"""


def test_a_program_runs_as_every_rank(bed: Shape, tmp_path: Path) -> None:
    program = tmp_path / "job.py"
    program.write_text(PROGRAM)
    done = cli("run", "--", sys.executable, str(program))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "all is well\n"


def test_a_rank_that_fails_ends_the_job_with_exit_code_1(bed: Shape, tmp_path: Path) -> None:
    program = tmp_path / "job.py"
    program.write_text(
        "import os, sys, time\nfrom lightloom.runtime import Rank\nwith Rank() as rank:\n"
        "    if rank.rank == 3: sys.exit(7)\n"
        "    try:\n        rank.barrier()\n"
        "    except Exception as error:\n        sys.stderr.write(f'{rank.rank}: {error}\\n')\n"
        "        raise SystemExit(0)\n"
    )
    begun = time.monotonic()
    done = cli("run", "--", sys.executable, str(program))
    assert done.returncode == 1 and done.stderr.splitlines()[-1] == (
        "error: rank 3 has ended with exit code 7"
    ), done.stderr
    assert time.monotonic() - begun < 30
    # Every other rank was told why: those of its server by name, those of others by server.
    said = dict(line.split(": ", 1) for line in done.stderr.splitlines()[:-1])
    assert set(said) == {"0", "1", "2", "4", "5"}
    assert "rank 3 has ended" in said["2"]
    assert all("endpoint 1" in said[rank] for rank in "0145"), said
    assert cli("collective", "barrier").returncode == 0, "the testbed is as it was"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["run"], "testbed run: no program; `lightloom testbed run -- python job.py`"),
        (["run", "--", "no-such-program"], "no-such-program: is no program on the PATH"),
        (["run", "--path", "x", "--", "true"], "--path: x: must be one of delegate, rails"),
        (["collective", "allsum"], "KIND: allsum: must be one of alltoall, allreduce"),
        (["collective", "--path", "rails,x"], "--path: x: must be one of delegate, rails"),
        (["collective", "--count", "0"], "--count: 0: must be from 1 to 100000"),
        (["collective", "--chunk", "1 B"], "--chunk: 1: must be from 1024 to 1048576"),
        (["collective", "--size", "x"], "--size: x: "),
        (["collective", "allreduce", "--size", "5 B"], "--size: 5: must be a multiple of 4 B"),
        (["collective", "--demand", "x"], 'workload "x": no such workload'),
        (["collective", "--algorithm", "x"], "--algorithm: x: must be one of direct, ring"),
    ],
)
def test_bad_input_is_refused(bed: Shape, words: list[str], why: str) -> None:
    done = cli(*words)
    assert done.returncode == 2 and why in done.stderr, done.stderr
    assert len(done.stderr.strip().splitlines()) == 1 and done.stdout == ""


def test_no_testbed_of_that_name() -> None:
    done = cli("collective", name="nosuch")
    assert done.returncode == 2 and "--name: nosuch: there is no such testbed" in done.stderr


def test_one_job_at_a_time_and_nothing_is_left_of_one_that_was_killed(bed: Shape) -> None:
    words = [sys.executable, "-m", "lightloom", "testbed", "run", "--name", NAME]
    with subprocess.Popen([*words, "--", "sleep", "60"]) as running:
        until = time.monotonic() + 20
        while sum("sleep" in line for line in _processes()) < RANKS:
            assert time.monotonic() < until
            time.sleep(0.05)
        refused = cli("collective", "barrier")
        assert refused.returncode == 2 and "a job is on this testbed" in refused.stderr
        running.send_signal(signal.SIGINT)
        assert running.wait(timeout=20) == 130
    assert not any("sleep" in line or "runtime" in line for line in _processes())
    assert cli("collective", "barrier").returncode == 0


def _processes() -> list[str]:
    pids = [pid for namespace in SHAPE.namespaces for pid in system.processes(namespace)]
    lines = []
    for pid in pids:
        try:
            lines.append(Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return lines


def test_down_removes_what_a_killed_job_has_left() -> None:
    shape = Shape(name=f"{NAME}k", servers=2, ranks_per_server=1, eps_nics=1, ocs_nics=1)
    with standing(shape):
        words = [sys.executable, "-m", "lightloom", "testbed", "run", "--name", shape.name]
        with subprocess.Popen([*words, "--", "sleep", "61"]) as running:
            until = time.monotonic() + 20
            while len(system.processes(shape.namespace(1))) < 2:
                assert time.monotonic() < until
                time.sleep(0.05)
            running.kill()
    assert not any(system.exists(namespace) for namespace in shape.namespaces)
    assert not record.place(shape.name).exists()
    listed = subprocess.run(["pgrep", "-af", "sleep 61"], capture_output=True, text=True)
    assert listed.stdout == ""


def test_a_rank_without_a_runtime_is_told_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("LIGHTLOOM_RUNTIME", raising=False)
    with pytest.raises(InputError, match="LIGHTLOOM_RUNTIME: is not in the environment"):
        Rank()
    with pytest.raises(InputError, match="RANK: 'x': must be a number from 0"):
        monkeypatch.setenv("RANK", "x")
        Rank(str(tmp_path / "none"))
    with pytest.raises(InputError, match="is no runtime of a server"):
        Rank(str(tmp_path / "none"), 0)


def test_an_arena_is_used_again_and_again() -> None:
    arena = Arena(1 << 20)
    for _ in range(100):
        kept = [arena.empty(1 << 17, "uint8") for _ in range(8)]
        with pytest.raises(RunError, match="no room"):
            arena.empty(1, "uint8")
        view = kept[3][10:]
        view[:] = 3
        del kept
        # A view keeps the whole array.
        assert arena.place(view) is not None and (view == 3).all()
        with pytest.raises(RunError, match="no room"):
            arena.empty(1 << 20, "uint8")
        del view
    assert arena.empty(1 << 20, "uint8").nbytes == 1 << 20
