"""Collectives of two thousand ranks: what an even all-to-all takes."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.soak

SCRIPT = """
import json, re, sys, time
from pathlib import Path
from lightloom.collectives import collective
began = time.process_time()
found = collective("all-to-all", ranks=2048, size="64 MiB", fabric=sys.argv[1], progress=False)
row = found.rows[0]
status = Path("/proc/self/status").read_text()  # getrusage counts what its parent held, too
peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", status)[1]) / 1024
print(json.dumps([row["of_bound"], row["flows"], time.process_time() - began, peak]))
"""


def test_an_even_all_to_all_of_2048_ranks_is_small() -> None:
    out = subprocess.run(
        [sys.executable, "-c", SCRIPT, "fat-tree"], capture_output=True, check=True
    )
    of_bound, flows, cpu_s, peak_mib = json.loads(out.stdout)
    print(f"{cpu_s:.2f} CPU s, {peak_mib:.0f} MiB")
    assert of_bound > 0.99 and flows == 2048 * 2047
    assert peak_mib < 400
    assert cpu_s < 4  # 1.8 to 2.0 on a machine that does nothing else
