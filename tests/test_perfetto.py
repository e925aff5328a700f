"""Perfetto's own trace processor opens each kind of timeline that commands write, and finds all."""

from __future__ import annotations

import gzip
import json
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from checkers import NODE, TRACE_PROCESSOR, needs_perfetto
from fixtures.make_result import make_result
from lightloom import trace_events
from lightloom.cli import run
from lightloom.report import Result, perfetto
from lightloom.runtime import timeline

OPEN = Path(__file__).parent / "perfetto" / "open.mjs"

pytestmark = needs_perfetto


def opened(path: Path) -> dict[str, Any]:
    """What Perfetto finds in a timeline."""
    command = [str(NODE), str(OPEN), str(TRACE_PROCESSOR), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def whole(path: Path) -> dict[str, Any]:
    """Check that Perfetto finds every event of a timeline; return what it finds."""
    raw = path.read_bytes()
    text = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    events = json.loads(text)["traceEvents"]
    found = opened(path)
    assert found["bad"] == [], "nothing is dropped, nothing is out of order"
    slices = [event for event in events if event["ph"] == "X"]
    assert len(slices) > 0
    assert found["slices"]["count"] == len(slices)
    assert found["slices"]["ns"] == round(sum(event["dur"] for event in slices) * 1e3)
    assert found["slices"]["end"] == round(max(e["ts"] + e["dur"] for e in slices) * 1e3)
    assert found["counters"] == sum(event["ph"] == "C" for event in events)
    for kind, key in (("process_name", "processes"), ("thread_name", "threads")):
        named = sorted(event["args"]["name"] for event in events if event["name"] == kind)
        assert sorted(found[key]) == named
    return found


def test_an_iteration(tmp_path: Path) -> None:
    place = make_result(tmp_path / "out", ("fat-tree", "mixnet"), (100,), layers=4, micro_batches=2)
    path = tmp_path / "timeline.json.gz"
    perfetto.write(Result.open(place), path)
    assert "mixnet-100, replica 0" in whole(path)["processes"]


JOB = {
    "cluster.gpus": 16, "parallelism.tp": 4, "parallelism.ep": 4, "parallelism.pp": 1,
    "model.layers": 2, "training.micro_batches": 2, "training.sequence_length": 256,
    "fabric.preset": "mixnet",
}  # fmt: skip


@pytest.mark.parametrize("engine", ["flow", "packet"])
def test_what_simulate_writes(engine: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    values = JOB | ({"engine.sample_period": "5 us"} if engine == "packet" else {})
    sets = [word for key, value in values.items() for word in ("--set", f"{key}={value}")]
    words = ["simulate", "mixtral-8x7b", "--engine", engine, *sets, "--out", str(out)]
    assert run(words) == 0
    found = whole(out / "timeline.json.gz")
    assert (found["counters"] > 1000) == (engine == "packet"), "queues are counters"


def test_a_collective(tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ["collective", "all-to-all", "--ranks", "16", "--size", "1MB,4MB", "--out", str(out)]
    assert run(words) == 0
    found = whole(out / "timeline.json.gz")
    assert len(found["processes"]) == 2 and found["threads"]


def test_a_plan(tmp_path: Path) -> None:
    path = tmp_path / "plan.perfetto"
    words = ["plan", "collective", "--algorithm", "rabenseifner-allreduce", "--nodes", "8",
             "--size", "40MB", "--planes", "2", "--node-bandwidth", "800 Gbps",
             "--reconfiguration", "200 us", "--perfetto", str(path)]  # fmt: skip
    assert run(words) == 0
    assert whole(path)["threads"] == ["plane 0", "plane 1"]


def test_a_plan_port_by_port(tmp_path: Path) -> None:
    path, demand = tmp_path / "plan.perfetto", tmp_path / "demand.csv"
    rows = [
        [0 if a == b else 1_000_000 * (1 + (a + 2 * b) % 5) for b in range(4)] for a in range(4)
    ]
    demand.write_text("\n".join(",".join(map(str, row)) for row in rows))
    words = ["plan", "alltoall", "--demand", str(demand), "--planes", "3", "--reconfiguration",
             "20 us", "--circuits", "ports", "--perfetto", str(path)]  # fmt: skip
    assert run(words) == 0
    assert "plane 2" in whole(path)["processes"]


def test_a_training(tmp_path: Path) -> None:
    path = tmp_path / "timeline.json"
    spans = [("step", 0.0, 1.0), ("forward", 0.1, 0.3), ("all_to_all", 0.2, 0.123456789)]
    timeline.write([spans, spans], path)
    found = whole(path)
    assert sorted(found["threads"]) == ["rank 0", "rank 1"]


def test_slices_that_meet_within_a_nanosecond_are_all_found(tmp_path: Path) -> None:
    """Perfetto drops what overlaps, and keeps whole nanoseconds."""
    ends = [0]
    for number in range(4000):
        ends.append(ends[-1] + 1 + (number * 7919) % 2500)
    spans = [
        trace_events.span((1, 2), (start, end), "work", "compute") for start, end in pairwise(ends)
    ]
    path = tmp_path / "dense.json"
    trace_events.write([*trace_events.track(1, 2, "dense"), *spans], path)
    whole(path)
