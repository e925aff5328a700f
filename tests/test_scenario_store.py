"""Result directories: equal contents are equal bytes, and nothing of others is touched."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from lightloom import store
from lightloom.errors import InputError

TABLE = pa.table({"run": [0, 0, 1], "kind": ["expert", "gate", "expert"], "start_ps": [0, 5, 9]})


def write(directory: Path, seed: int = 1, force: bool = False) -> None:
    with store.create(directory, force=force) as draft:
        store.write_tables(draft, {"tasks": TABLE})
        store.write_json(draft / store.INFO, {"lightloom": "0.2.0", "seed": seed})


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_equal_results_are_equal_bytes(tmp_path: Path) -> None:
    write(tmp_path / "a")
    write(tmp_path / "b")
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert store.read_table(tmp_path / "a", "tasks").equals(TABLE)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_an_empty_directory_is_filled(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    write(tmp_path / "out")
    assert store.is_result(tmp_path / "out")


def test_a_failed_run_leaves_what_was_there(tmp_path: Path) -> None:
    write(tmp_path / "out")
    before = contents(tmp_path / "out")

    def fail() -> None:
        with store.create(tmp_path / "out", force=True) as draft:
            store.write_json(draft / store.INFO, {"lightloom": "0.2.0"})
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert contents(tmp_path / "out") == before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_full_disk_is_told_by_the_place_that_was_asked_for(tmp_path: Path) -> None:
    code = """
import resource, sys
from pathlib import Path
import numpy as np
import pyarrow as pa
from lightloom import store
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
with store.create(Path(sys.argv[1])) as draft:
    store.write_tables(draft, {"runs": pa.table({"x": np.random.default_rng(1).random(9_000)})})
"""
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "out"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.endswith(f"File too large: '{tmp_path / 'out'}'\n")
    assert not any(tmp_path.iterdir())


def test_foreign_places_are_refused(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").write_text("keep")
    (tmp_path / "file").touch()
    places = {
        "notes": "is not empty and not a Result",
        "file": "is a file",
        "file/below": "cannot be made",
    }
    for place, says in places.items():
        with pytest.raises(InputError, match=says):
            write(tmp_path / place)
        with pytest.raises(InputError, match=says):
            store.check_place(tmp_path / place)
    assert contents(tmp_path / "notes") == {"mine.txt": b"keep"}


def test_the_current_directory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for place in (Path(), Path(".."), tmp_path):
        with pytest.raises(InputError, match="holds the current directory"):
            write(place)
    write(Path("below"))
    assert store.is_result(tmp_path / "below")


def test_what_is_not_a_result_is_named(tmp_path: Path) -> None:
    for text in ("", "[]", "{}", '{"seed": 1}', "[" * 100_000):
        (tmp_path / store.INFO).write_text(text)
        with pytest.raises(InputError, match="not a Result"):
            store.read_info(tmp_path)
    write(tmp_path / "out")
    with pytest.raises(InputError, match="no table 'runs'; it has: tasks"):
        store.read_table(tmp_path / "out", "runs")
    (tmp_path / "out" / "tasks.parquet").write_bytes(b"PAR1 and then nothing PAR1")
    with pytest.raises(InputError, match="not a readable Parquet file"):
        store.read_table(tmp_path / "out", "tasks")


def add_files_of_a_user(out: Path) -> dict[str, bytes]:
    """Put files, a directory and a link of a user's own into a Result."""
    (out / "thesis").mkdir()
    files = {"notes.txt": b"mine", "thesis/one.tex": b"years of work", "fit.parquet": b"own"}
    for name, data in files.items():
        (out / name).write_bytes(data)
    (out / "latest").symlink_to("thesis")
    return files


def kept(out: Path, files: dict[str, bytes]) -> bool:
    return (
        all((out / name).read_bytes() == data for name, data in files.items())
        and (out / "latest").is_symlink()
    )


def test_a_result_is_replaced_by_force_alone(tmp_path: Path) -> None:
    write(tmp_path / "out")
    before = contents(tmp_path / "out")
    for attempt in (lambda: store.check_place(tmp_path / "out"), lambda: write(tmp_path / "out")):
        with pytest.raises(InputError, match=r"out: holds a Result; allowed: .*--force"):
            attempt()
    assert contents(tmp_path / "out") == before
    store.check_place(tmp_path / "out", force=True)


@pytest.mark.parametrize("manifest", [True, False], ids=["with a manifest", "written before"])
def test_force_replaces_what_the_result_wrote_and_nothing_else(
    tmp_path: Path, manifest: bool
) -> None:
    out = tmp_path / "out"
    with store.create(out) as draft:
        store.write_tables(draft, {"tasks": TABLE, "queues": TABLE})
        store.write_json(draft / store.INFO, {"lightloom": "0.2.0", "seed": 1})
    if not manifest:
        info = store.read_info(out)
        del info["files"]
        store.write_json(out / store.INFO, info)
    files = add_files_of_a_user(out)
    inode = (out / "notes.txt").stat().st_ino
    write(out, seed=2, force=True)
    assert store.read_info(out)["seed"] == 2
    assert not (out / "queues.parquet").exists(), "the Result's own, and not of the new one"
    assert kept(out, files)
    assert (out / "notes.txt").stat().st_ino == inode, "whoever has it open goes on writing to it"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    write(out, seed=3, force=True)
    assert kept(out, files)


def test_a_file_of_a_user_is_never_overwritten_by_one_of_the_same_name(tmp_path: Path) -> None:
    write(tmp_path / "out")
    (tmp_path / "out" / "report.html").write_text("mine")
    with pytest.raises(InputError, match=r"out/report\.html: .* did not write"):
        store.check_place(tmp_path / "out", force=True)


@pytest.mark.parametrize("how", ["raise", "kill"])
def test_an_interrupted_replacement_leaves_the_old_or_the_new_whole(
    tmp_path: Path, how: str
) -> None:
    """Stop at each call that changes a directory; the Result is whole, and the user's files stay.

    As `kill -9` does, or as Ctrl-C.
    """
    code = """
import os, sys
sys.path.insert(0, sys.argv[1])
import test_scenario_store as test

def replaced(out, at, how):
    calls = 0
    def hook(event, arguments):
        nonlocal calls
        changes = event in ("os.rename", "os.remove", "os.rmdir", "os.link", "os.mkdir",
                            "os.symlink", "ctypes.dlsym")
        if changes and "out" in str(arguments) or event == "ctypes.dlsym":
            calls += 1
            if calls == at and how == "kill":
                os._exit(9)
            if calls == at:
                raise KeyboardInterrupt
    sys.addaudithook(hook)
    test.write(out, seed=2, force=True)
    os._exit(0)

for at in range(1, int(sys.argv[4])):
    if (child := os.fork()) == 0:
        try:
            replaced(test.Path(sys.argv[2], str(at), "out"), at, sys.argv[3])
        finally:
            os._exit(1)
    if not os.waitpid(child, 0)[1]:
        sys.exit(at)
"""
    places = {at: tmp_path / f"{at}" / "out" for at in range(1, 60)}
    for out in places.values():
        write(out)
        files = add_files_of_a_user(out)
    arguments = [str(Path(__file__).parent), str(tmp_path), how, str(len(places))]
    last = subprocess.run([sys.executable, "-c", code, *arguments]).returncode
    seen = set()
    for at in range(1, last + 1):
        seen.add(store.read_info(places[at])["seed"])
        assert store.read_table(places[at], "tasks").equals(TABLE)
        assert kept(places[at], files), f"stopped at call {at}"
    assert seen == {1, 2} and last > 8


def test_a_filesystem_without_an_exchange_or_links_is_served_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(95, "Operation not supported")

    write(tmp_path / "out")
    files = add_files_of_a_user(tmp_path / "out")
    monkeypatch.setattr(store, "_exchanged", lambda *_: False)
    monkeypatch.setattr("os.link", refuse)
    write(tmp_path / "out", seed=2, force=True)
    assert store.read_info(tmp_path / "out")["seed"] == 2 and kept(tmp_path / "out", files)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_link_to_a_result_stays_a_link(tmp_path: Path) -> None:
    write(tmp_path / "out")
    (tmp_path / "latest").symlink_to("out")
    write(tmp_path / "latest", seed=2, force=True)
    assert (tmp_path / "latest").is_symlink()
    assert store.read_info(tmp_path / "out")["seed"] == 2


def test_a_default_place_differs_by_what_is_run() -> None:
    places = {store.default_place("job", spec) for spec in ("a = 1\n", "a = 2\n", "a = 1\n")}
    assert len(places) == 2
    assert all(place.parent == Path("results") for place in places)
    assert all(place.name.startswith("job-") for place in places)


def test_a_report_of_a_result_without_a_manifest_makes_one(tmp_path: Path) -> None:
    store.write_tables(tmp_path, {"tasks": TABLE})
    store.write_json(tmp_path / store.INFO, {"lightloom": "0.2.0"})
    (tmp_path / "notes.txt").touch()
    store.add_files(tmp_path, ["report.html"])
    files = store.read_info(tmp_path)["files"]
    assert files == ["report.html", "result.json", "tasks.parquet"]
