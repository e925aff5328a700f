"""What gates decided is recorded, and makes the bytes between servers that runtimes count."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from lightloom import daemon
from lightloom.errors import InputError
from lightloom.runtime.train import main
from lightloom.testbed.shape import Shape
from lightloom.trace import GatingTrace
from lightloom.trace.record import Recording
from lightloom.trace.tiny_moe import TinyMoe
from lightloom.units import Rate
from reference import TEXT
from testbed_beds import standing

try:
    daemon.find()
except InputError:
    pytest.skip("no lightloomd: make daemon", allow_module_level=True)

SERVERS, EXPERTS, LAYERS, HIDDEN, STEPS, TOP_K = 3, 6, 2, 64, 3, 2
FLOAT, INTEGER = 4, 8
TOKENS = 4 * 128
# Before the first step.
BARRIERS = 2


@pytest.fixture(scope="module")
def bed() -> Iterator[Shape]:
    shape = Shape(
        name=f"r{os.getpid() % 1_000_000}", servers=SERVERS, ranks_per_server=1, eps_nics=2,
        ocs_nics=1, rate=Rate.parse("50 Mbps"),
    )  # fmt: skip
    with standing(shape) as stands:
        yield stands


def run(bed: Shape, place: Path, *more: str) -> GatingTrace:
    line = [sys.executable, "-m", "lightloom", "testbed", "run", "--name", bed.name]
    line += ["--out", str(place / "counted"), "--", sys.executable, "-m", "lightloom.runtime.train"]
    line += ["--experts", str(EXPERTS), "--text", str(TEXT), "--json"]
    line += ["--record", str(place / "gates.parquet"), *more]
    path = os.pathsep.join(sys.path)
    done = subprocess.run(
        line, capture_output=True, text=True, timeout=240, env=os.environ | {"PYTHONPATH": path}
    )
    assert done.returncode == 0, done.stderr
    return GatingTrace.load(place / "gates.parquet")


def counted(place: Path) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """Return the payload that servers sent each other [B]: [sender, receiver]."""
    found = np.zeros((SERVERS, SERVERS), np.int64)
    for server in range(SERVERS):
        said = json.loads((place / "counted" / f"node-{server:02}.json").read_text())
        for row in said["peers"]:
            found[server, int(row["peer"].removeprefix("node-"))] = row["bytes_sent"]
    return found


def test_bytes_of_the_trace_are_those_that_nics_carried(bed: Shape, tmp_path: Path) -> None:
    trace = run(bed, tmp_path, "--iterations", str(STEPS))
    assert trace.counts.shape == (STEPS, LAYERS, SERVERS, EXPERTS)
    assert (trace.counts.sum(3) == TOKENS * TOP_K).all() and trace.top_k == TOP_K
    assert trace.meta["origin"] == "recorded" and "runtime.train" in str(trace.meta["command"])
    # A token goes to its expert and comes back, and so does its gradient.
    tokens = trace.counts.reshape(STEPS, LAYERS, SERVERS, SERVERS, -1).sum((0, 1, 4), np.int64)
    moved = 2 * (tokens + tokens.T) * HIDDEN * FLOAT
    # What else there is: how many tokens come, to each expert, before a gate's tokens;
    # gradients of what all ranks have, the loss, and whether an answer was late; the trace, to
    # rank 0; barriers, a byte each.
    model = TinyMoe(
        Recording(
            experts=EXPERTS, sources=SERVERS, layers=LAYERS, sequences=4, intermediate=128
        )
    )  # fmt: skip
    experts = sum(it.numel() for layer in model.mixture for it in (layer.up, layer.down))
    shared = sum(it.numel() for it in model.parameters()) - experts + 2
    else_ = np.full((SERVERS, SERVERS), STEPS * LAYERS * (EXPERTS // SERVERS) * INTEGER)
    else_[1:, 0] += trace.counts[:, :, 0].size * INTEGER
    else_ += BARRIERS
    np.fill_diagonal(moved, 0)
    np.fill_diagonal(else_, 0)
    found = counted(tmp_path)
    reduced = found - moved - else_
    print(f"{moved.sum()} B of tokens, {else_.sum()} and {reduced.sum()} B else")
    # Each server sums a share of the elements: all others send it theirs, and are sent the sum.
    assert reduced.sum() == STEPS * 2 * (SERVERS - 1) * shared * FLOAT
    # Shares, of which there are some in four parts, differ by an element.
    even = STEPS * 2 * shared * FLOAT / SERVERS
    apart = ~np.eye(SERVERS, dtype=bool)
    assert np.abs(reduced[apart] - even).max() <= STEPS * 2 * 4 * FLOAT


def test_a_trace_goes_on_with_its_checkpoint(bed: Shape, tmp_path: Path) -> None:
    words = ["--checkpoint", str(tmp_path / "checkpoints"), "--iterations"]
    first = run(bed, tmp_path, *words, "2")
    second = run(bed, tmp_path, *words, "3")
    assert first.iterations == 2 and (second.counts[:2] == first.counts).all()
    (tmp_path / "whole").mkdir()
    assert (second.counts == run(bed, tmp_path / "whole", "--iterations", "3").counts).all()


def test_a_file_that_cannot_be_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in {"RANK": "0", "WORLD_SIZE": "4"}.items():
        monkeypatch.setenv(name, value)
    for place, why in ((tmp_path, "is a directory"), (tmp_path / "a" / "b", "there is no direc")):
        assert main(["--record", str(place), "--text", str(TEXT)]) == 2
        out, err = capsys.readouterr()
        assert out == "" and err.startswith(f"error: --record {place}: {why}"), err
