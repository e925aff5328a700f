"""A job on a testbed goes on on a spare server when a rank, a runtime or a server fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from lightloom import daemon, testbed
from lightloom.errors import InputError
from lightloom.testbed.shape import Shape
from lightloom.units import Rate, Time
from spare_rank import total
from testbed_beds import kill, standing

try:
    daemon.find()
except InputError:
    pytest.skip("no lightloomd: make daemon", allow_module_level=True)

HERE = Path(__file__).parent
NAME = f"s{os.getpid() % 1_000_000}"
SHAPE = Shape(
    name=NAME, servers=4, ranks_per_server=2, eps_nics=1, ocs_nics=2,
    rate=Rate.parse("50 Mbps"), delay=Time.parse("10 ms"),
)  # fmt: skip
STEPS = 12


@pytest.fixture(scope="module")
def bed() -> Iterator[Shape]:
    with standing(SHAPE) as shape:
        yield shape


def words(place: Path, spares: int, *more: str, steps: int = STEPS) -> list[str]:
    options = [word for word in more if word.startswith("--")]
    failures = [word for word in more if not word.startswith("--")]
    line = [sys.executable, "-m", "lightloom", "testbed", "run", "--name", NAME, "--json"]
    line += ["--spares", str(spares), *options, "--"]
    return [*line, sys.executable, str(HERE / "spare_rank.py"), str(place), str(steps), *failures]


def run(place: Path, spares: int, *more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words(place, spares, *more), capture_output=True, text=True, timeout=120)


def said_by(place: Path, ranks: int) -> list[dict[str, Any]]:
    return [json.loads((place / f"rank-{rank}.json").read_text()) for rank in range(ranks)]


def restarts_of(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """Check what must hold of every restart, and return them."""
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    lines = [line for line in done.stderr.splitlines() if line.startswith("lightloom: ")]
    assert len(lines) == len(found["restarts"]), done.stderr
    for row, line in zip(found["restarts"], lines, strict=True):
        assert row["why"] in line and f"{row['spare']} takes the place of {row['server']}" in line
        assert 0 < row["seen_seconds"] < 60
        assert 0 <= row["ended_seconds"] < row["runtimes_seconds"] < 30
        if row["agents_seconds"] is not None:  # on a busy computer one may be late
            assert row["runtimes_seconds"] < row["agents_seconds"]
    print(*lines, sep="\n")
    return list(found["restarts"])


def test_a_rank_that_dies_takes_its_server_out(bed: Shape, tmp_path: Path) -> None:
    done = run(tmp_path, 1, "0:3:5:kill")
    (restart,) = restarts_of(done)
    assert (restart["rank"], restart["server"], restart["spare"]) == (3, "node-01", "node-03")
    assert restart["why"] == "rank 3 has ended with SIGKILL"
    found = json.loads(done.stdout)
    assert (found["ranks"], found["servers"]) == (6, ["node-00", "node-03", "node-02"])
    rows = said_by(tmp_path, 6)
    assert [row["server"] for row in rows] == [
        f"node-0{server}" for server in (0, 0, 3, 3, 2, 2)
    ]  # fmt: skip
    for row in rows:
        assert (row["restarts"], row["most"]) == ("1", "1")
        assert 4 <= row["from"] <= 5, "it goes on from where all were"
        assert row["sums"] == [total(step, 6) for step in range(row["from"], STEPS)]


def test_circuits_join_those_that_are_there(bed: Shape, tmp_path: Path) -> None:
    restarts_of(run(tmp_path, 1, "0:2:5:kill"))
    rows = said_by(tmp_path, 6)
    ends = {
        (server, port): tuple(end)
        for server, row in enumerate(rows[:: bed.ranks_per_server])
        for port, end in enumerate(row["ports"]) if end is not None
    }  # fmt: skip
    assert {server for server, _ in ends} == {0, 1, 2}, "each server of the job has one"
    assert all(ends[end] == port for port, end in ends.items()), "both ends know of it"
    assert all(row["decided"] and row["bytes"] > 100_000 for row in rows), "and they are used"
    # The controller's own view: node-01 is away.
    now = testbed.status(NAME)["controller"]
    assert "node-01 is silent" in [alarm["text"] for alarm in now["alarms"]]


def test_a_runtime_that_is_killed(bed: Shape, tmp_path: Path) -> None:
    # Server 0 has the rank where others meet.
    code, out, err = while_it_runs(tmp_path, lambda: kill(bed, "runtime", "serve", "node-00"))
    (restart,) = restarts_of(subprocess.CompletedProcess([], code, out, err))
    assert (restart["rank"], restart["server"]) == (None, "node-00")
    assert restart["why"].startswith("the runtime of node-00 has ended with SIGKILL")
    assert [row["server"] for row in said_by(tmp_path, 6)][:3] == ["node-03", "node-03", "node-01"]


def test_a_server_that_is_lost(bed: Shape, tmp_path: Path) -> None:
    try:
        code, out, err = while_it_runs(
            tmp_path, lambda: testbed.fault(NAME, "node", ["node-02", "lost"])
        )
        (restart,) = restarts_of(subprocess.CompletedProcess([], code, out, err))
        assert (restart["server"], restart["spare"]) == ("node-02", "node-03")
    finally:
        testbed.fault(NAME, "node", ["node-02", "back"])


def while_it_runs(place: Path, fault: Callable[[], None]) -> tuple[int, str, str]:
    with subprocess.Popen(
        words(place, 1, steps=60), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        try:
            until = time.monotonic() + 30
            while not (place / "begun").exists():
                assert time.monotonic() < until and running.poll() is None
                time.sleep(0.02)
            fault()
            out, err = running.communicate(timeout=90)
        except BaseException:
            running.terminate()
            raise
    return running.returncode, out, err


def test_who_failed_first_is_known_though_all_fail(bed: Shape, tmp_path: Path) -> None:
    # The others hear of it, and end with an exit code at once.
    (restart,) = restarts_of(run(tmp_path, 1, "0:5:3:7"))
    assert (restart["rank"], restart["why"]) == (5, "rank 5 has ended with exit code 7")


def test_a_spare_may_fail_too(bed: Shape, tmp_path: Path) -> None:
    done = run(tmp_path, 2, "0:1:2:9", "1:0:6:kill")
    first, second = restarts_of(done)
    assert (first["server"], first["spare"]) == ("node-00", "node-02")
    assert (second["server"], second["spare"]) == ("node-02", "node-03")
    assert second["seen_seconds"] > first["seen_seconds"] + first["runtimes_seconds"]
    assert json.loads(done.stdout)["servers"] == ["node-03", "node-01"]
    assert [row["restarts"] for row in said_by(tmp_path, 4)] == ["2"] * 4


@pytest.mark.parametrize(
    ("spares", "more", "last", "begun"),
    [
        (1, ["0:1:2:9", "1:0:6:9"], "error: rank 0 has ended with exit code 9", 1),
        (1, ["--restarts=0", "0:3:2:kill"], "error: rank 3 has ended with SIGKILL", 0),
        # Bad input: another server would be told the same.
        (1, ["0:2:1:2"], "error: rank 2 has ended with exit code 2", 0),
    ],
    ids=["no-spare-left", "no-restart-left", "bad-input"],
)
def test_what_is_not_started_again(
    bed: Shape, tmp_path: Path, spares: int, more: list[str], last: str, begun: int
) -> None:
    done = run(tmp_path, spares, *more)
    assert done.returncode == 1 and done.stdout == "", done.stderr
    # Ranks that are ended may be in the midst of a line.
    assert done.stderr.endswith(f"{last}\n")
    assert done.stderr.count("takes the place of") == begun


def test_each_attempt_has_its_own_counters(bed: Shape, tmp_path: Path) -> None:
    (tmp_path / "ranks").mkdir()
    restarts_of(run(tmp_path / "ranks", 1, f"--out={tmp_path / 'out'}", "0:1:2:kill"))
    names = {path.relative_to(tmp_path / "out").as_posix() for path in tmp_path.glob("out/*/*")}
    assert names == {
        f"attempt-{attempt}/node-0{server}.json"
        for attempt, servers in enumerate([(0, 1, 2), (3, 1, 2)]) for server in servers
    }  # fmt: skip


def test_without_spares_all_servers_take_part(bed: Shape, tmp_path: Path) -> None:
    done = run(tmp_path, 0)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["ranks"], set(found)) == (8, {"name", "ranks", "command"})
    assert [row["restarts"] for row in said_by(tmp_path, 8)] == ["0"] * 8


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (["--spares", "3"], "--spares: 3: must be from 0 to 2: two servers at least take part"),
        (["--spares", "-1"], "--spares: -1: must be from 0 to 2"),
        (["--restarts", "1"], "--restarts: 1: must be from 0 to 0: each restart takes a spare"),
        (["--spares", "1", "--restarts", "2"], "--restarts: 2: must be from 0 to 1"),
        (["--spares", "1", "--restarts", "-1"], "--restarts: -1: must be from 0 to 1"),
        (["--spares", "1", "--job", "1"], "--job: 1: must be 0 with --spares"),
    ],
)
def test_bad_input_is_refused(bed: Shape, more: list[str], why: str) -> None:
    line = [sys.executable, "-m", "lightloom", "testbed", "run", "--name", NAME, *more]
    done = subprocess.run([*line, "--", "true"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and why in done.stderr, done.stderr
    assert done.stderr.count("\n") == 1 and done.stdout == ""
