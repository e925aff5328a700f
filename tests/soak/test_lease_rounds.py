"""A hundred rounds of ``lease_bound``: everything is stopped and killed, agents stopped for 8 s."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from lease_bound import ALIKE, World, rounds
from lightloom import daemon

pytestmark = pytest.mark.soak


def test_a_hundred_rounds_and_no_byte_in_the_dark(tmp_path: Path) -> None:
    kinds = [ALIKE[number % len(ALIKE)] for number in range(100)]
    with World(tmp_path, daemon.find(), 1000, 200) as world:
        verdicts = list(rounds(world, kinds, 1, 8.0, print))
    assert [verdict for verdict in verdicts if verdict.violations] == []
    assert sum(verdict.sends for verdict in verdicts) > 10_000


@pytest.mark.parametrize("runtimes", ["obey", "ignore the lease's end"])
def test_no_frame_gets_through_where_a_filter_stands(runtimes: str) -> None:
    script = Path(__file__).parents[1] / "lease_bound.py"
    words = ["--rounds", "50", "--filter", *(["--ignore-lease-end"] if runtimes != "obey" else [])]
    done = subprocess.run([sys.executable, str(script), *words], capture_output=True, text=True)
    if done.returncode == 3 or "unshare" in done.stderr:
        pytest.skip(f"no filter can stand here: {done.stdout.strip()}{done.stderr.strip()}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "50 rounds: " in done.stdout and " 0 dark, 0 misdirected, 0 late" in done.stdout
