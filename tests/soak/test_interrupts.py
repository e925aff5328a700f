"""Ctrl-C at any moment: nothing is left, or a Result that can be opened."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import lightloom
import pytest

pytestmark = pytest.mark.soak


@pytest.mark.parametrize("after_s", [0.1, 0.4, 0.7, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0])
def test_an_interrupt(after_s: float, tmp_path: Path) -> None:
    # Before the program begins an interrupt is Python's own affair, which on a busy machine takes a
    # while: the time is counted from the program's first word.
    start = "import os; from lightloom.cli import main; os.write(2, b'begins\\n'); main()"
    program = [sys.executable, "-c", start, "compare"]
    job = ["mixtral-8x7b", "--gpus", "128", "--set", "training.micro_batches=4", "--out", "result"]
    child = subprocess.Popen(
        [*program, *job], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stderr is not None and child.stderr.readline() == "begins\n"
    time.sleep(after_s)
    child.send_signal(signal.SIGINT)
    sent = time.monotonic()
    # What is kept is drawn first, which on a busy machine takes its turn.
    patience = 30 * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    out, err = child.communicate(timeout=2 * patience)
    assert time.monotonic() - sent < patience
    left = list(tmp_path.iterdir())
    if out:  # it was over already
        assert len(lightloom.Result.open(tmp_path / "result").rows) == 20
        return
    assert child.returncode == 130 and "Traceback" not in err
    assert left in ([], [tmp_path / "result"]), "no draft is left"
    assert ("kept in result" in err.splitlines()[-1]) == bool(left)
    if left:
        kept = lightloom.Result.open(tmp_path / "result")
        assert 1 <= len(kept.rows) <= 20 and kept.info["warnings"]
        assert kept.info["complete"] == (len(kept.rows) == 20)
