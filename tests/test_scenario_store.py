"""Result directories: equal contents are equal bytes, and nothing of others is touched."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from lightloom import store
from lightloom.errors import InputError

TABLE = pa.table({"run": [0, 0, 1], "kind": ["expert", "gate", "expert"], "start_ps": [0, 5, 9]})


def write(directory: Path, seed: int = 1) -> None:
    with store.create(directory) as draft:
        store.write_tables(draft, {"tasks": TABLE})
        store.write_json(draft / store.INFO, {"lightloom": "0.1.0", "seed": seed})


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_equal_results_are_equal_bytes(tmp_path: Path) -> None:
    write(tmp_path / "a")
    write(tmp_path / "b")
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert store.read_table(tmp_path / "a", "tasks").equals(TABLE)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_a_result_replaces_a_result(tmp_path: Path) -> None:
    write(tmp_path / "out")
    (tmp_path / "out" / "report.html").touch()
    write(tmp_path / "out", seed=2)
    assert sorted(contents(tmp_path / "out")) == ["result.json", "tasks.parquet"]
    assert store.read_info(tmp_path / "out")["seed"] == 2
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_an_empty_directory_is_filled(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    write(tmp_path / "out")
    assert store.is_result(tmp_path / "out")


def test_a_failed_run_leaves_what_was_there(tmp_path: Path) -> None:
    write(tmp_path / "out")
    before = contents(tmp_path / "out")

    def fail() -> None:
        with store.create(tmp_path / "out") as draft:
            store.write_json(draft / store.INFO, {"lightloom": "0.1.0"})
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert contents(tmp_path / "out") == before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


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
