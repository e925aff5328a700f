"""Checkpoints: which counts, whatever dies at whatever moment; and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from lightloom.errors import InputError, RunError
from lightloom.runtime.checkpoints import Checkpoints

SETTINGS = {"WORLD_SIZE": 2, "--experts": 8}


def written(place: Path, *steps: int) -> Checkpoints:
    """Write checkpoints whose parts say which step they are of."""
    ours = Checkpoints(place, SETTINGS)
    for step in steps:
        ours.begin(step)
        for rank in range(2):
            ours.aside(step, f"rank-{rank}").write_text(f"{step}")
        ours.end(step)
    return ours


def test_the_last_two_are_kept(tmp_path: Path) -> None:
    ours = written(tmp_path / "new" / "place", 5, 10, 15, 17)
    assert ours.latest() == 17
    names = sorted(path.name for path in ours.place.iterdir())
    assert names == ["latest", "step-00000015", "step-00000017"]
    assert ours.part(15, "rank-1").read_text() == "15"


def test_what_was_not_ended_does_not_count(tmp_path: Path) -> None:
    ours = written(tmp_path, 5)
    ours.begin(10)
    ours.aside(10, "rank-0").write_text("half")
    assert Checkpoints(tmp_path, SETTINGS).latest() == 5
    # The next attempt writes the same step, or another, and nothing of the half is left.
    ours.begin(10)
    assert not ours.aside(10, "rank-0").exists()
    assert written(tmp_path, 12).latest() == 12
    assert sorted(path.name for path in tmp_path.glob("step-*")) == [
        "step-00000005", "step-00000012"
    ]  # fmt: skip


def test_one_that_dies_between_two_renames(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    ours = written(tmp_path, 5)

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", dies)
        with pytest.raises(KeyboardInterrupt):
            written(tmp_path, 10)
    assert ours.part(10, "rank-0").exists() and ours.latest() == 5
    assert written(tmp_path, 10).latest() == 10


def test_a_directory_of_another_job_is_refused(tmp_path: Path) -> None:
    written(tmp_path, 5)
    for settings, why in (
        (SETTINGS | {"--experts": 4}, "was made with --experts 8, not 4"),
        (SETTINGS | {"WORLD_SIZE": 3}, "was made with WORLD_SIZE 2, not 3"),
        (SETTINGS | {"--seed": 1}, "was made with --seed None, not 1"),
    ):
        with pytest.raises(InputError, match=why) as refused:
            Checkpoints(tmp_path, settings).latest()
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize("text", ["step-00000007\n", "", "../elsewhere\n"])
def test_a_name_of_nothing_is_refused(tmp_path: Path, text: str) -> None:
    ours = written(tmp_path, 5)
    (tmp_path / "latest").write_text(text)
    with pytest.raises(InputError, match="latest"):
        ours.latest()


def test_what_cannot_be_read_or_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "file" / "within"):
        with pytest.raises(InputError, match="must be a directory"):
            Checkpoints(place, SETTINGS)
    ours = written(tmp_path / "place", 5)
    ours.part(5, "checkpoint.json").write_text(json.dumps({"step": 5}))
    with pytest.raises(InputError, match="latest: cannot be read"):
        ours.latest()
    with pytest.raises(RunError, match="No such file"):
        ours.end(9)
