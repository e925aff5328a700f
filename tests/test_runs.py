"""Sets of runs: what is kept and when it is used, what ends badly, and what is left then."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import lightloom
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lightloom import GatingTrace, InputError, RunError, Scenario, rails
from lightloom.cli import run as main
from lightloom.progress import _Shares
from lightloom.runs import (
    Cache,
    Outcome,
    Processes,
    Run,
    ScenarioRun,
    Threads,
    perform,
    run,
    table,
    times,
    users,
)
from lightloom.runs.rails import RailsRun
from lightloom.runs.tables import write

FAKES = Path(__file__).parent / "fixtures" / "runs"
EXECUTORS = {"threads": Threads, "processes": Processes}


@pytest.fixture
def marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where each run of the kind `fake_runs` leaves a mark, here and in other processes."""
    monkeypatch.syspath_prepend(str(FAKES))
    monkeypatch.setenv("PYTHONPATH", str(FAKES))
    place = tmp_path / "marks"
    place.mkdir()
    return place


def point(marks: Path, x: int, **how: Any) -> Run:
    where = {"marks": str(marks), **how}
    return Run(
        "fake_runs", f"point {x}", {"x": x}, where, {"axis": {"x": x}}, f"x = {x}", memory=1 << 20
    )


def performed(marks: Path) -> Counter[int]:
    """How often each point was performed."""
    return Counter(int(path.name.partition("-")[0]) for path in marks.iterdir())


# Keys


def small(**changes: Any) -> Scenario:
    job = Scenario.preset("mixtral-8x7b", gpus=128)
    return job.with_({"training.micro_batches": 1, "model.layers": 4} | changes)


def test_a_key_is_of_all_that_the_outcome_depends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = np.ones((1, 1, 8, 8), np.uint32)
    trace, other = GatingTrace(counts, top_k=2), GatingTrace(counts + np.eye(8, dtype=np.uint32), 2)

    def key(job: Scenario, of: GatingTrace = trace) -> str:
        return ScenarioRun.of(job, of).key

    first = key(small())
    assert key(small()) == first == key(small(), GatingTrace(counts.copy(), top_k=2))
    assert key(small(name="another name"), trace) == first, "names change no outcome"
    others = [
        key(small(seed=2)),
        key(small(), other),
        key(small(**{"engine.tolerance": 0.01})),
        key(small(**{"engine.kind": "packet"})),
        key(small(**{"fabric.link_bandwidth": "200 Gbps"})),
    ]
    for version in (("9.9.9", run.engine()[1]), (run.engine()[0], "another core")):
        monkeypatch.setattr(run, "engine", lambda found=version: found)
        others.append(key(small()))
    monkeypatch.undo()
    monkeypatch.setattr(run, "_FORM", 0)
    others.append(key(small()))
    assert len({first, *others}) == len(others) + 1


def test_the_engine_is_the_file_of_the_core(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Built:
        __version__ = "1"
        __file__ = str(tmp_path / "core.so")

    found = set()
    for code in (b"one", b"other"):
        Path(Built.__file__).write_bytes(code)
        monkeypatch.setattr(run, "_core", Built)
        found.add(run.engine.__wrapped__())
    assert len(found) == 2


@pytest.mark.parametrize("what", ["seed", "trace", "version", "core", "engine"])
def test_what_another_run_left_is_never_used(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through files and whole runs: the outcome is the one that an empty cache gives."""
    rng = np.random.default_rng(1)
    place = tmp_path / "trace.parquet"

    def record() -> None:
        GatingTrace(rng.integers(1, 99, (9, 2, 8, 8), np.uint32), top_k=2).save(place)

    record()
    job = small(**{"gating.trace": str(place), "fabric.splitting": "ecmp"})
    cache = Cache(tmp_path / "cache")
    before = perform([ScenarioRun.of(job)], cache=cache)
    assert perform([ScenarioRun.of(job)], cache=cache).cached == 1
    if what == "seed":
        job = job.with_(seed=2)
    elif what == "trace":
        record()
    elif what == "engine":
        job = job.with_({"engine.tolerance": 0.01})
    else:
        version, core = run.engine()
        other = (version + "1", core) if what == "version" else (version, "0" * 64)
        monkeypatch.setattr(run, "engine", lambda: other)
    after = perform([ScenarioRun.of(job)], cache=cache)
    assert after.cached == 0 and not after.failures
    fresh = perform([ScenarioRun.of(job)])
    assert after.outcomes[0].figures == fresh.outcomes[0].figures
    if what in ("seed", "trace"):
        assert after.outcomes[0].figures != before.outcomes[0].figures


# Files


def kept(tmp_path: Path, marks: Path) -> tuple[Cache, Path, list[Run]]:
    cache, runs = Cache(tmp_path / "cache"), [point(marks, 3)]
    perform(runs, cache=cache)
    (path,) = cache.place.glob("*/*")
    return cache, path, runs


def test_a_damaged_file_is_none(tmp_path: Path, marks: Path) -> None:
    cache, path, (one,) = kept(tmp_path, marks)
    whole = path.read_bytes()
    assert cache.get(one.key).figures == {"y": 9, "half": 1.5}
    rng = np.random.default_rng(0)
    for size in {0, 1, 15, 16, 47, 48, 55, 56, len(whole) - 1, *rng.integers(0, len(whole), 20)}:
        path.write_bytes(whole[:size])
        assert cache.get(one.key) is None
    for at in {0, 16, 50, len(whole) - 1, *rng.integers(0, len(whole), 20)}:
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert cache.get(one.key) is None
    path.write_bytes(whole + b"more")
    assert cache.get(one.key) is None
    assert perform([one], cache=cache).outcomes[0].figures["y"] == 9
    assert path.read_bytes()[:16] == whole[:16] and performed(marks) == {3: 2}


def test_a_file_of_another_run_is_none(tmp_path: Path, marks: Path) -> None:
    cache, path, _ = kept(tmp_path, marks)
    other = point(marks, 4)
    place = cache.place / other.key[:2]
    place.mkdir(exist_ok=True)
    path.rename(place / f"{other.key}.run")
    assert cache.get(other.key) is None


def test_an_outcome_comes_back_as_it_was() -> None:
    tables = {
        "names": pa.table(
            {"a": pa.array(["x", "y", "x"]).dictionary_encode(), "b": [1.5, None, 2]}
        ),
        "empty": pa.table({"a": pa.array([], pa.string()).dictionary_encode()}),
    }
    figures = {"a": 0.1, "b": 1 << 60, "c": None, "d": True, "e": "text"}
    outcome = Outcome(figures, tables, ("n",), ("w",))
    again = Outcome.from_bytes(outcome.to_bytes("k"), "k")
    assert again == outcome
    for name, each in tables.items():
        assert again.tables[name].schema == each.schema
        assert [c.num_chunks for c in again.tables[name].columns] == [1] * each.num_columns


def test_figures_alone_are_kept_and_not_taken_for_more(tmp_path: Path, marks: Path) -> None:
    cache, runs = Cache(tmp_path / "cache"), [point(marks, 3)]
    few = perform(runs, cache=cache, tables=False)
    assert few.outcomes[0].tables is None
    assert perform(runs, cache=cache, tables=False).cached == 1
    assert perform(runs, cache=cache).outcomes[0].tables["squares"].num_rows == 3
    assert perform(runs, cache=cache, tables=False).cached == 1
    assert perform(runs, cache=cache).cached == 1 and performed(marks) == {3: 2}


def test_the_oldest_go_where_there_are_too_many(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache", limit=10 * 4096)
    keys = [f"{at:02}aa" for at in range(30)]
    for at, key in enumerate(keys):
        cache.put(key, Outcome({"x": at}).to_bytes(key))
        assert cache.get(keys[0]) is not None, "what is used stays"
        time.sleep(0.002)
    left = [key for key in keys if Cache(cache.place).get(key)]
    assert len(left) <= 10 and left[0] == keys[0] and left[-1] == keys[-1]
    assert left[1:] == keys[-len(left) + 1 :]


def test_what_may_be_read_alone_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = Cache(tmp_path)
    cache.put("0a", Outcome({"x": 1}).to_bytes("0a"))

    def refused(path: Path) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(path))

    monkeypatch.setattr(os, "utime", refused)
    found = cache.get("0a")
    assert found is not None and found.figures == {"x": 1}


def test_drafts_of_killed_processes_go(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache", limit=1 << 20)
    (tmp_path / "cache" / "aa").mkdir(parents=True)
    old, new = (tmp_path / "cache" / "aa" / f".draft-{name}" for name in ("old", "new"))
    for draft in (old, new):
        draft.write_bytes(b"half")
    os.utime(old, (0, 0))
    cache.put("bb", Outcome({}).to_bytes("bb"))
    assert new.exists() and not old.exists()


def test_where_the_users_cache_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIGHTLOOM_CACHE", str(tmp_path / "mine"))
    assert users().place == tmp_path / "mine" and users().limit == 4 << 30
    monkeypatch.setenv("LIGHTLOOM_CACHE", "off")
    assert users() is None
    monkeypatch.delenv("LIGHTLOOM_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert users().place == tmp_path / "xdg" / "lightloom"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert users().place == tmp_path / ".cache" / "lightloom"
    monkeypatch.setenv("LIGHTLOOM_CACHE_LIMIT", "1 GB")
    assert users().limit == 10**9
    monkeypatch.setenv("LIGHTLOOM_CACHE_LIMIT", "much")
    with pytest.raises(InputError, match="LIGHTLOOM_CACHE_LIMIT=much: "):
        users()
    assert not list(tmp_path.iterdir()), "looking makes nothing"


def test_a_full_disk_loses_nothing(
    tmp_path: Path, marks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Disk full after the first outcome: all ends, what was kept stays, no draft is left."""
    opened = open

    def full(file: Any, mode: str = "r", *more: Any, **how: Any) -> Any:
        found = opened(file, mode, *more, **how)
        if len(list((tmp_path / "cache").glob("*/*.run"))) >= 1 and mode == "wb":

            class Full:
                def __enter__(self) -> Any:
                    return self

                def __exit__(self, *_: Any) -> None:
                    found.close()

                def write(self, data: bytes) -> None:
                    found.write(data[:10])
                    raise OSError(errno.ENOSPC, "No space left on device")

            return Full()
        return found

    cache, runs = Cache(tmp_path / "cache"), [point(marks, x) for x in range(4)]
    monkeypatch.setattr("builtins.open", full)
    done = perform(runs, cache=cache, executor=Threads(1))
    monkeypatch.undo()
    assert [outcome.figures["y"] for outcome in done.outcomes] == [0, 1, 4, 9]
    assert done.unkept.errno == errno.ENOSPC and str(cache.place) in done.unkept_text
    assert len(list(cache.place.glob("*/*"))) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
def test_a_disk_that_is_full(tmp_path: Path, marks: Path) -> None:
    """The same on a real disk of 64 KiB, if this machine lets a test have one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(disk)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no mounts here")
    try:
        runs = [point(marks, x, big=1000) for x in range(40, 60)]
        done = perform(runs, cache=Cache(disk), executor=Threads(1))
        assert None not in done.outcomes and done.unkept.errno == errno.ENOSPC
        again = perform(runs, cache=Cache(disk), executor=Threads(1))
        assert again.cached >= 1 and None not in again.outcomes
    finally:
        subprocess.run(["umount", str(disk)], check=True)


# Ends


@pytest.mark.parametrize("name", EXECUTORS)
def test_outcomes_and_progress(name: str, tmp_path: Path, marks: Path) -> None:
    runs = [point(marks, x, wait_s=0.3) for x in (5, 1, 3, 1)]
    told: list[tuple[str, float]] = []
    done = perform(runs, executor=EXECUTORS[name](2), on_progress=lambda *told_: told.append(told_))
    assert [outcome.figures["y"] for outcome in done.outcomes] == [25, 1, 9, 1]
    assert done.outcomes[0].notes == ("a note",)
    assert performed(marks) == {1: 1, 3: 1, 5: 1}
    assert [share for name, share in told if share == 1.0] == [1.0] * 3
    assert any(0 < share < 1 for _, share in told)
    spent = done.outcomes[0].spent
    assert spent.wall_s >= 0.3 and spent.host and (spent.peak_bytes or name == "threads")


@pytest.mark.parametrize("name", EXECUTORS)
def test_one_bad_point_does_not_end_a_set(name: str, tmp_path: Path, marks: Path) -> None:
    runs = [point(marks, x, fails=x == 2) for x in range(4)]
    cache = Cache(tmp_path / "cache")
    done = perform(runs, cache=cache, executor=EXECUTORS[name](2))
    assert [run.name for run, _ in done.failures] == ["point 2"]
    ((_, error),) = done.failures
    assert isinstance(error, RunError) and str(error) == "x = 2: fails as it should"
    assert [None if o is None else o.figures["y"] for o in done.outcomes] == [0, 1, None, 9]
    again = perform(runs, cache=cache, executor=EXECUTORS[name](2))
    assert again.cached == 3 and performed(marks) == {0: 1, 1: 1, 2: 2, 3: 1}


def test_the_first_failure_may_stop_a_set(marks: Path) -> None:
    runs = [point(marks, x, fails=x == 0, wait_s=0.02) for x in range(50)]
    done = perform(runs, executor=Threads(1), first_failure_stops=True)
    assert len(done.failures) == 1 and len(performed(marks)) < 5


def test_a_kind_that_there_is_not_is_one_failure(marks: Path) -> None:
    runs = [replace(point(marks, 1), kind="no_such_kind"), point(marks, 2)]
    for executor in (Threads(1), Processes(1)):
        done = perform(runs, executor=executor)
        assert len(done.failures) == 1 and done.outcomes[1].figures["y"] == 4


def test_a_worker_that_is_killed_is_tried_once_more_alone(tmp_path: Path, marks: Path) -> None:
    runs = [point(marks, x, dies={1: "always", 2: "once"}.get(x), wait_s=0.05) for x in range(6)]
    done = perform(runs, cache=Cache(tmp_path / "cache"), executor=Processes(2))
    assert [run.name for run, _ in done.failures] == ["point 1"]
    assert "ended by signal 9, twice; memory may have run out" in str(done.failures[0][1])
    assert performed(marks) == {0: 1, 1: 2, 2: 2, 3: 1, 4: 1, 5: 1}
    assert [o and o.figures["y"] for o in done.outcomes] == [0, None, 4, 9, 16, 25]


def test_no_more_at_once_than_fit(tmp_path: Path, marks: Path) -> None:
    """Three of 400 MB in a GB: two at once; one that never fits is performed alone all the same."""
    sizes = [400, 400, 400, 64000]
    runs = [
        replace(point(marks, x, wait_s=0.5), memory=size << 20, weight=1.0)
        for x, size in enumerate(sizes)
    ]
    at_once: dict[str, float] = {}
    most = 0
    big_with: set[str] = set()

    def watch(name: str, share: float) -> None:
        nonlocal most, big_with
        at_once[name] = share
        if share == 1.0:
            del at_once[name]
        most = max(most, len(at_once))
        if "point 3" in at_once:
            big_with |= set(at_once)

    done = perform(runs, executor=Processes(4, available=1 << 30), on_progress=watch)
    assert None not in done.outcomes and most == 2 and big_with == {"point 3"}


def test_runs_of_a_workload_go_to_one_process(marks: Path) -> None:
    runs = [replace(point(marks, x, wait_s=0.05), group="ab"[x % 2]) for x in range(8)]
    perform(runs, executor=Processes(2))
    by = {path.name.split("-")[0]: path.name.split("-")[1] for path in marks.iterdir()}
    assert len({by[f"{x}"] for x in (0, 2, 4)} | {by["6"]}) <= 2
    assert len(set(by.values())) == 2


# Interrupts and kills

SET = """
import sys, time
from pathlib import Path
sys.path.insert(0, {here!r})
from test_runs import point
from lightloom.runs import Cache, Processes, perform, table
from lightloom.runs.rails import RailsRun
from lightloom.runs.tables import write
marks, cache, out = map(Path, sys.argv[1:4])
done = perform([point(marks, x, wait_s=0.05) for x in range(60)], cache=Cache(cache),
               executor=Processes(2), tables=False)
write(table(done), out)
"""


def program(marks: Path, cache: Path, out: Path) -> subprocess.Popen[bytes]:
    """Perform a set in a script without a guard of `__main__`."""
    script = SET.format(here=str(Path(__file__).parent))
    return subprocess.Popen(
        [sys.executable, "-c", script, str(marks), str(cache), str(out)],
        stderr=subprocess.PIPE,
    )


def alive(pids: set[int]) -> set[int]:
    return {pid for pid in pids if Path(f"/proc/{pid}/stat").exists() and
            Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"}  # fmt: skip


def test_a_set_that_is_killed_goes_on(tmp_path: Path, marks: Path) -> None:
    """None twice but what was under way, none lost, the same bytes; and no process is left."""
    cache, out = tmp_path / "cache", tmp_path / "out.parquet"
    kills = 0
    while True:
        child = program(marks, cache, out)
        goal = len(performed(marks)) + 12
        while child.poll() is None and len(performed(marks)) < min(goal, 50):
            time.sleep(0.01)
        if kills == 3 or child.poll() is not None:
            break
        before = len(list(cache.glob("*/*.run")))
        child.kill()
        child.wait()
        kills += 1
        pids = {int(path.name.split("-")[1]) for path in marks.iterdir()}
        end = time.monotonic() + 20
        while alive(pids) and time.monotonic() < end:
            time.sleep(0.02)
        assert not alive(pids), "a worker outlived who began it"
        assert len(list(cache.glob("*/*.run"))) >= before
        done = {x for x in range(60) if Cache(cache).get(point(marks, x).key)}
        for path in marks.iterdir():
            if int(path.name.split("-")[0]) not in done:
                path.unlink()  # it was under way
    assert child.wait() == 0, child.stderr
    assert performed(marks) == dict.fromkeys(range(60), 1)
    again = program(marks, tmp_path / "other", tmp_path / "whole.parquet")
    assert again.wait() == 0
    assert out.read_bytes() == (tmp_path / "whole.parquet").read_bytes()
    assert pq.read_table(out).num_rows == 60


@pytest.mark.parametrize("name", EXECUTORS)
def test_an_interrupt_keeps_what_ended_and_stops_the_rest_at_once(
    name: str, tmp_path: Path, marks: Path
) -> None:
    runs = [point(marks, x, wait_s=0.1 if x < 2 else 60) for x in range(6)]
    runs = [replace(each, weight=2.0 if x < 2 else 1.0) for x, each in enumerate(runs)]
    cache, ended, at = Cache(tmp_path / "cache"), [], 0.0

    def stop(name: str, share: float) -> None:
        nonlocal at
        ended.append(name) if share == 1.0 else None
        if len(ended) == 2 and share < 0.9:
            at = time.monotonic()
            raise KeyboardInterrupt

    done = perform(runs, cache=cache, executor=EXECUTORS[name](2), on_progress=stop)
    assert time.monotonic() - at < 1.0
    assert isinstance(done.interrupted, KeyboardInterrupt)
    assert [o and o.figures["y"] for o in done.outcomes] == [0, 1, None, None, None, None]
    assert perform(runs[:2], cache=cache).cached == 2
    pids = {int(path.name.split("-")[1]) for path in marks.iterdir()} - {os.getpid()}
    assert not alive(pids)


def test_an_interrupt_that_python_forgets_ends_a_set_all_the_same() -> None:
    code = """
import os, signal, threading, time
from lightloom import Scenario, interrupts
from lightloom.runs import ScenarioRun, perform

class Slow:
    def __del__(self):
        time.sleep(5)

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored by what runs in the background
interrupts.watch()
job = Scenario.preset("mixtral-8x7b", gpus=128, training={"micro_batches": 1})
threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
slow = Slow()
del slow
print(perform([ScenarioRun.of(job)]).interrupted is not None)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Exception ignored in" in done.stderr and "KeyboardInterrupt" in done.stderr
    assert done.stdout == "True\n"


def test_an_interrupt_of_the_terminal_does_not_reach_workers(tmp_path: Path, marks: Path) -> None:
    """Control-C goes to every process of the terminal's group; only the set's owner minds."""
    script = SET.format(here=str(Path(__file__).parent)) + "\nprint(done.interrupted is not None)"
    start = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
    child = subprocess.Popen(
        [sys.executable, "-c", start + script, str(marks), str(tmp_path / "c"),
         str(tmp_path / "out")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    while len(performed(marks)) < 10:
        time.sleep(0.01)
    os.killpg(child.pid, signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert (out, err) == (b"True\n", b"")


# Tables


def test_tables_are_the_same_in_any_order(tmp_path: Path, marks: Path) -> None:
    runs = [point(marks, x) for x in (10, 9, 1, 30)]
    places = []
    for at, these in enumerate((runs, runs[::-1], [*runs, runs[0]])):
        done = perform(these, executor=Threads(2))
        places.append(tmp_path / f"{at}.parquet")
        write(table(done), places[-1])
    assert len({place.read_bytes() for place in places}) == 1
    read = pq.read_table(places[0])
    assert read.column_names == ["run", "point", "axis.x", "y", "half"]
    assert read["axis.x"].to_pylist() == [1, 9, 10, 30]
    took = times(done)
    assert took.num_rows == 4 and set(took["run"].to_pylist()) == set(read["run"].to_pylist())


def test_every_key_is_beside_every_figure() -> None:
    jobs = [small(**{"fabric.link_bandwidth": f"{rate} Gbps"}) for rate in (1600, 400)]
    jobs.append(jobs[1].with_(fabric={"preset": "mixnet"}))
    done = perform([ScenarioRun.of(job) for job in jobs])
    found = table(done)
    assert found.schema.field("training.micro_batches").type == pa.int64()
    assert found.schema.field("engine.tolerance").type == pa.float64()
    assert found.schema.field("fabric.hysteresis").type == pa.bool_()
    assert found.schema.field("iteration_s").type == pa.float64()
    kinds = {field.type for field in found.schema}
    assert kinds <= {pa.string(), pa.int64(), pa.float64(), pa.bool_()}


# Who performs sets


def forbid(monkeypatch: pytest.MonkeyPatch) -> None:
    def performed(*_: Any, **__: Any) -> None:
        pytest.fail("a run that is kept was performed")

    monkeypatch.setattr("lightloom.runs.sets._perform", performed)


def files(place: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in place.iterdir()}


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    "arguments",
    [
        ["compare", "mixtral-8x7b", "--gpus", "128", "--micro-batches", "1", "--bandwidth", "400"],
        ["rails", "--domains", "4", "--size", "64 KiB"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_second_time_it_comes_from_the_cache(
    arguments: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["lightloom", "the same"])
    monkeypatch.setenv("LIGHTLOOM_CACHE", "off")
    assert main([*arguments, "--out", "without"]) == 0
    monkeypatch.setenv("LIGHTLOOM_CACHE", str(tmp_path / "cache"))
    assert main([*arguments, "--out", "first"]) == 0
    forbid(monkeypatch)
    assert main([*arguments, "--out", "second"]) == 0
    assert files(tmp_path / "without") == files(tmp_path / "first") == files(tmp_path / "second")
    lines = capsys.readouterr().out.replace("second", "first").replace("without", "first")
    third = len(lines) // 3
    assert lines[:third] == lines[third : 2 * third] == lines[2 * third :]


def test_a_comparison_says_once_that_its_cache_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cache").write_text("a file in its place")
    monkeypatch.setenv("LIGHTLOOM_CACHE", str(tmp_path / "cache"))
    result = lightloom.compare(
        small(), fabrics=["fat-tree", "topoopt"], bandwidths=[400], progress=False
    )
    assert len(result.rows) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"warning: {tmp_path / 'cache'}") and err.count("\n") == 1
    assert "are not kept for a next time" in err


def test_the_report_of_the_same_result_is_not_drawn_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = lightloom.simulate(small(), progress=False)
    place = tmp_path / "out"
    result.save(place)
    before = files(place)
    drawn = []
    monkeypatch.setattr("lightloom.report.build_report", lambda place: drawn.append(place))
    result.save(place, force=True)
    assert files(place) == before and not drawn
    (place / "bars.png").unlink()
    result.save(place, force=True)
    assert len(drawn) == 1, "a report that is not whole is drawn"
    lightloom.simulate(small(seed=2), progress=False, out=place, force=True)
    assert len(drawn) == 2, "another Result's report is not taken"


def test_a_simulation_is_performed_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIGHTLOOM_CACHE", str(tmp_path / "cache"))
    lightloom.simulate(small(), progress=False)
    assert not (tmp_path / "cache").exists()


def test_a_rail_job_is_the_same_in_a_process_of_its_own() -> None:
    job = rails.Job.of(domains=4, gpus_per_domain=4, workload="sparse:0.5", size="64 KiB")
    drawn = rails.demand(job.workload, 4, 4, job.size_bytes)
    runs = [RailsRun.of(job, scheme, drawn) for scheme in ("rails", "ecmp")]
    here, there = (perform(runs, executor=one(2)).outcomes for one in (Threads, Processes))
    assert [one.figures for one in here] == [one.figures for one in there]
    assert all(one.tables[name].equals(other.tables[name]) for one, other in
               zip(here, there, strict=True) for name in one.tables)  # fmt: skip


def test_a_scenario_is_the_same_in_a_process_of_its_own(tmp_path: Path) -> None:
    place = tmp_path / "trace.parquet"
    GatingTrace.builtin(8, 2).save(place)
    runs = [ScenarioRun.of(small(**{"gating.trace": name})) for name in ("builtin", str(place))]
    runs = [*runs, ScenarioRun.of(small(fabric={"preset": "mixnet"}))]
    here, there = (perform(runs, executor=one(2)).outcomes for one in (Threads, Processes))
    for one, other in zip(here, there, strict=True):
        assert one.figures == other.figures and one.notes == other.notes
        assert all(one.tables[name].equals(other.tables[name]) for name in one.tables)
    assert there[0].spent.peak_bytes > 1 << 24 and there[0].spent.cpu_s > 0


def test_a_trace_that_changes_meanwhile_is_a_failure(tmp_path: Path) -> None:
    place = tmp_path / "trace.parquet"
    GatingTrace.builtin(8, 2).save(place)
    one = ScenarioRun.of(small(**{"gating.trace": str(place)}))
    GatingTrace(np.ones((1, 1, 8, 8), np.uint32), top_k=2).save(place)
    ((_, error),) = perform([one], executor=Processes(1)).failures
    assert "has changed since the set of runs began" in str(error)


def test_the_time_left_is_by_work() -> None:
    shares = _Shares(4, work={"a": 1.0, "b": 1.0, "c": 8.0})
    shares.tell("kept", 1.0, 0.0)
    shares.tell("a", 0.0, 0.0)
    shares.tell("a", 1.0, 10.0)
    shares.tell("b", 0.5, 10.0)
    assert shares.left(15.0) == "about 85 s left"  # 5 of b, and c: eight times what a took
