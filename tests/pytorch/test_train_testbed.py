"""A training on a testbed with a spare: a rank or a runtime is killed, and the losses go on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from lightloom import daemon
from lightloom.errors import InputError
from lightloom.testbed import system
from lightloom.testbed.shape import Shape
from lightloom.units import Rate, Time
from reference import ALIKE, TEXT, alone
from testbed_beds import kill, processes, standing

try:
    daemon.find()
except InputError:
    pytest.skip("no lightloomd: make daemon", allow_module_level=True)

RANKS, EXPERTS, STEPS, KILLED_AFTER = 3, 6, 8, 4
MODULE = "lightloom.runtime.train"


@pytest.fixture
def bed() -> Iterator[Shape]:
    shape = Shape(
        name=f"t{os.getpid() % 1_000_000}", servers=RANKS + 1, ranks_per_server=1, eps_nics=1,
        ocs_nics=2, rate=Rate.parse("50 Mbps"), delay=Time.parse("10 ms"),
    )  # fmt: skip
    with standing(shape) as stands:
        yield stands


@pytest.mark.parametrize("what", ["rank", "runtime"])
def test_a_training_goes_on_on_a_spare(bed: Shape, tmp_path: Path, what: str) -> None:
    place, latest = tmp_path / "checkpoints", tmp_path / "checkpoints" / "latest"
    line = [sys.executable, "-m", "lightloom", "testbed", "run", "--name", bed.name]
    line += ["--spares", "1", "--", sys.executable, "-m", MODULE, "--json"]
    line += ["--experts", str(EXPERTS), "--iterations", str(STEPS), "--text", str(TEXT)]
    line += ["--checkpoint", str(place), "--every", "1"]
    path = os.pathsep.join(sys.path)
    with subprocess.Popen(
        line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"PYTHONPATH": path},
    ) as running:  # fmt: skip
        try:
            until = time.monotonic() + 120
            while not latest.exists() or int(latest.read_text().strip()[5:]) < KILLED_AFTER:
                assert time.monotonic() < until and running.poll() is None
                time.sleep(0.02)
            if what == "rank":
                here = set(system.processes(bed.namespace(1)))
                (rank,) = here.intersection(processes(bed, MODULE))
                os.kill(rank, signal.SIGKILL)
            else:
                kill(bed, "runtime", "serve", "node-01")
            out, err = running.communicate(timeout=180)
        except BaseException:
            running.terminate()
            raise
    assert running.returncode == 0, err
    assert "node-03 takes the place of node-01" in err
    found = json.loads(out)
    assert KILLED_AFTER <= found["from_step"] < STEPS
    assert found["losses"] == pytest.approx(alone(RANKS, STEPS, EXPERTS), abs=ALIKE)
    print([line for line in err.splitlines() if line.startswith("lightloom:")], found)
