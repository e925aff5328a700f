"""A controller whose disk is nearly full starts anew, or says in one line what is missing."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from test_control_daemon import LIGHTLOOMD, REGION, daemon_at

pytestmark = pytest.mark.skipif(LIGHTLOOMD is None, reason="no lightloomd: make daemon")

# In a name space of its own: a disk of 3 MB with so many kB free, and a controller that is killed
# and started anew.
SCRIPT = """
set -e
mount -t tmpfs -o size=3m tmpfs "$1"
cp "$2" "$1/region.toml"
dd if=/dev/zero of="$1/others" bs=1024 count=$((3072 - $3 - 8)) status=none
for time in 1 2 3; do
  : > "$1/said"
  "$4" --log-level error controller serve "$1/region.toml" > "$1/said" &
  daemon=$!
  for wait in $(seq 100); do
    if ! kill -0 $daemon 2> /dev/null; then wait $daemon; exit 9; fi
    if grep -q listening "$1/said"; then break; fi
    sleep 0.05
  done
  cat "$1/said"
  sleep 1.5
  kill -9 $daemon
  wait $daemon || true
done
"""


def starts(tmp_path: Path, free_kb: int) -> subprocess.CompletedProcess[str]:
    if shutil.which("unshare") is None:
        pytest.skip("no unshare: a small disk cannot be made")
    disk = tmp_path / "disk"
    disk.mkdir()
    probe = ["unshare", "-m", "mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(disk)]
    done = subprocess.run(probe, capture_output=True, text=True, timeout=30)
    if done.returncode != 0:
        pytest.skip(f"a small disk cannot be made here: {done.stderr.strip()}")
    with daemon_at("ocs", "serve", "--ports", "8", "--listen", "127.0.0.1:0") as switch:
        file = tmp_path / "region.toml"
        file.write_text(REGION.format(listen="", switch=switch))
        words = ["unshare", "-m", "bash", "-c", SCRIPT, "bash"]
        words += [str(disk), str(file), str(free_kb), str(LIGHTLOOMD)]
        return subprocess.run(words, capture_output=True, text=True, timeout=60)


def test_a_controller_starts_anew_where_there_is_little_room(tmp_path: Path) -> None:
    done = starts(tmp_path, 900)
    assert done.returncode == 0, done.stderr
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(said) == 3 and all("listening" in line for line in said)


def test_a_controller_without_room_says_so_in_one_line(tmp_path: Path) -> None:
    done = starts(tmp_path, 100)
    assert done.returncode == 1, (done.returncode, done.stderr)
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, lines
    assert "kB are free on its disk, and a journal needs 256: make room" in lines[0]
