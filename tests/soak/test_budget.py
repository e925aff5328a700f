"""The main job within its budget: 60 s of CPU time and 4 GiB."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.soak


def test_five_fabrics_at_four_rates_on_1024_gpus(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from lightloom.cli import main; main()"]
    arguments = ["compare", "mixtral-8x7b", "--gpus", "1024", "--json", "--out", "result"]
    with (tmp_path / "rows.json").open("w") as stdout:
        child = subprocess.Popen([*command, *arguments], cwd=tmp_path, stdout=stdout)
        _, status, used = os.wait4(child.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    rows = json.loads((tmp_path / "rows.json").read_text())["rows"]
    assert len(rows) == 20 and {row["gpus"] for row in rows} == {1024}
    assert used.ru_utime + used.ru_stime < 60, "seconds of CPU time"
    # Kilobytes, but on macOS bytes.
    assert used.ru_maxrss * (1 if sys.platform == "darwin" else 1024) < 4 << 30
