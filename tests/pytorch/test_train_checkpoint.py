"""A training that is killed goes on from its checkpoint with the losses of one that was not."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from lightloom.errors import InputError
from lightloom.runtime.checkpoints import Checkpoints
from lightloom.runtime.pytorch.saved import SHARED, Saved
from lightloom.runtime.train import main
from loopback import RANKS, run, runtime, runtimes
from reference import ALIKE, TEXT, alone

STEPS, EVERY = 8, 2
# Words that are not those of the training whose checkpoint is there, by number of ranks.
REFUSED = (
    ("4", ["--experts", "4"], "was made with --experts 8, not 4"),
    ("2", [], "was made with WORLD_SIZE 4, not 2"),
    ("4", ["--seed", "2"], "was made with --seed 1, not 2"),
    ("4", ["--text", __file__], "was made with --text of SHA-256"),
    ("4", ["--iterations", "3"], "--iterations 3: the checkpoint in "),
    ("4", ["--every", "0"], "--every 0: must be at least 1"),
)
# Kill once a checkpoint of so many steps counts.
KILLED_AFTER = 4


def words(place: Path, *more: str) -> list[str]:
    line = ["--iterations", str(STEPS), "--every", str(EVERY), "--text", str(TEXT)]
    return [*line, "--checkpoint", str(place / "checkpoints"), "--json", *more]


def trained(
    place: Path, name: str, meanwhile: Callable[[list[int], list[Path]], bool], *more: str
) -> list[tuple[int, str]]:
    """Train on runtimes of its own."""
    (place / name).mkdir()
    with runtimes(place / name) as sockets:
        return run(
            place / name, sockets,
            [sys.executable, "-m", "lightloom.runtime.train", *words(place, *more)], 240,
            lambda ranks: meanwhile(ranks, sockets), PYTHONPATH=os.pathsep.join(sys.path),
        )  # fmt: skip


def reached(place: Path) -> int:
    """Return the step that the last checkpoint is of, as anybody may read it; 0 without one."""
    latest = place / "checkpoints" / "latest"
    return int(latest.read_text().strip().removeprefix("step-")) if latest.exists() else 0


def said(ends: list[tuple[int, str]]) -> dict[str, Any]:
    assert [code for code, _ in ends] == [0] * RANKS, ends
    return dict(json.loads(ends[0][1].splitlines()[-1]))


@pytest.mark.parametrize("what", ["rank", "runtime"])
def test_losses_go_on_where_they_were(
    tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def kill(ranks: list[int], sockets: list[Path]) -> bool:
        if reached(tmp_path) < KILLED_AFTER:
            return False
        os.kill(ranks[-1] if what == "rank" else runtime(sockets[-1]), signal.SIGKILL)
        return True

    ends = trained(tmp_path, "first", kill)
    assert all(code for code, _ in ends), "all have failed"
    done = reached(tmp_path)
    assert KILLED_AFTER <= done < STEPS
    found = said(trained(tmp_path, "second", lambda *_: True))
    assert found["from_step"] == done and 0 < found["restore_s"] < 30
    assert len(found["step_s"]) == STEPS - done
    right = alone(RANKS, STEPS)
    assert found["losses"] == pytest.approx(right, abs=ALIKE)
    assert right[done - 1] - right[-1] > 0.1, "weights that were not restored would show"
    apart = max(abs(one - other) for one, other in zip(found["losses"], right, strict=True))
    print(f"{what}: went on after {done} steps, restored in {found['restore_s']:.3f} s;", apart)
    if what == "rank":
        return
    # A training that is over says so; one of other settings is refused.
    over = said(trained(tmp_path, "third", lambda *_: True))
    assert over["losses"] == found["losses"] and over["step_s"] == []
    for ranks, more, why in REFUSED:
        for name, value in {"RANK": "0", "WORLD_SIZE": ranks}.items():
            monkeypatch.setenv(name, value)
        capsys.readouterr()
        assert main(words(tmp_path, *more)) == 2
        out, err = capsys.readouterr()
        assert out == "" and err.startswith("error: ") and err.count("\n") == 1, err
        assert why in err


class Small:
    """A model, its optimizer, and where their checkpoints are."""

    def __init__(self, place: Path) -> None:
        torch.manual_seed(1)
        self.model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.1)
        own = {id(it) for it in self.model[1].parameters()}
        self.checkpoints = Checkpoints(place, {"--seed": 1})
        self.saved = Saved(self.checkpoints, self.model, self.optimizer, own)

    def step(self) -> None:
        self.optimizer.zero_grad()
        self.model(torch.ones(1, 3)).square().sum().backward()
        self.optimizer.step()

    def weights(self) -> list[torch.Tensor]:
        return [it.detach().clone() for it in self.model.parameters()]


@pytest.fixture
def alone_in_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dist, "get_rank", lambda: 0)
    monkeypatch.setattr(dist, "barrier", lambda: None)


def test_what_is_restored_is_what_was_saved_to_the_bit(
    tmp_path: Path, alone_in_a_group: None
) -> None:
    one, other = Small(tmp_path), Small(tmp_path)
    for _ in range(3):
        one.step()
    counts = [torch.tensor([[step, 7]]) for step in range(3)]
    one.saved.save(3, [0.5, 0.25, 0.125], counts)
    losses, found = other.saved.restore(3)
    assert losses == [0.5, 0.25, 0.125] and all(map(torch.equal, found, counts))
    # The optimizer's moments, too: the next steps are the same.
    for _ in range(2):
        assert all(map(torch.equal, one.weights(), other.weights()))
        one.step()
        other.step()


@pytest.mark.parametrize("part", [SHARED, "rank-0000.pt"])
def test_a_part_that_cannot_be_read_is_named(
    tmp_path: Path, alone_in_a_group: None, part: str
) -> None:
    small = Small(tmp_path)
    small.step()
    small.saved.save(1, [0.5], [])
    path = small.checkpoints.part(1, part)
    for broken in (path.read_bytes()[:100], b"", None):
        path.unlink()
        if broken is not None:
            path.write_bytes(broken)
        with pytest.raises(InputError, match=f"{part}: cannot be read: ") as refused:
            small.saved.restore(1)
        assert "\n" not in str(refused.value)
        path.touch()


def test_every_without_a_directory_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in {"RANK": "0", "WORLD_SIZE": "4"}.items():
        monkeypatch.setenv(name, value)
    assert main(["--every", "5"]) == 2
    assert capsys.readouterr().err == "error: --every 5: is read with --checkpoint alone\n"
