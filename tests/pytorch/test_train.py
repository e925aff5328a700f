"""The training script: the losses of lightloom, of gloo and of one process; and what it refuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from lightloom.runtime.train import main
from loopback import RANKS, run, runtimes
from reference import ALIKE, TEXT, alone

STEPS = 4


def trained(place: Path, backend: str) -> dict[str, Any]:
    place.mkdir()
    words = ["--iterations", str(STEPS), "--text", str(TEXT), "--backend", backend, "--json"]
    words += ["--timeline", str(place / "timeline.json")]
    with runtimes(place) as sockets:
        ends = run(
            place, sockets, [sys.executable, "-m", "lightloom.runtime.train", *words], 240,
            PYTHONPATH=os.pathsep.join(sys.path),
        )  # fmt: skip
    assert [code for code, _ in ends] == [0] * RANKS, ends
    return dict(json.loads(ends[0][1].splitlines()[-1]))


def test_losses_are_those_of_gloo_and_of_one_process(tmp_path: Path) -> None:
    with ThreadPoolExecutor() as both:
        ours, gloos = both.map(lambda it: trained(tmp_path / it, it), ("lightloom", "gloo"))
    right = alone(RANKS, STEPS)
    assert right[0] - right[-1] > 0.5, "it learns"
    for found in (ours, gloos):
        assert found["losses"] == pytest.approx(right, abs=ALIKE)
        assert {"forward", "all_to_all", "experts", "backward"} <= set(found["seconds"])
        assert 0.5 < sum(found["seconds"].values()) / found["wall_s"] <= 1.0
    # A layer's gate, and so an announcement, in every step.
    assert (ours["rounds"], gloos["rounds"]) == (2 * STEPS, 0)

    timeline_is_whole(tmp_path / "lightloom" / "timeline.json", ours)


def timeline_is_whole(path: Path, found: dict[str, Any]) -> None:
    """A track a rank; slices nest, and those of rank 0 last as long as the training says."""
    events = json.loads(path.read_text())["traceEvents"]
    names = [event["args"]["name"] for event in events if event["name"] == "thread_name"]
    assert names == [f"rank {rank}" for rank in range(RANKS)]
    seconds: dict[str, float] = {}
    for rank in range(RANKS):
        open_: list[tuple[str, float]] = []
        for event in (it for it in events if it["ph"] == "X" and it["tid"] == 1 + rank):
            ends = event["ts"] + event["dur"]
            while open_ and open_[-1][1] <= event["ts"] + 0.002:
                open_.pop()
            assert not open_ or ends <= open_[-1][1] + 0.002, "slices nest"
            if rank == 0:
                seconds[event["name"]] = seconds.get(event["name"], 0.0) + event["dur"] / 1e6
                if open_:  # a phase counts for itself, not for the outer one
                    seconds[open_[-1][0]] -= event["dur"] / 1e6
            open_.append((event["name"], ends))
    assert seconds == pytest.approx(found["seconds"], abs=1e-3)


@pytest.mark.parametrize(
    ("words", "environment", "why"),
    [
        ([], {}, "RANK: is no number in the environment; `lightloom testbed run -- python -m"),
        (["--experts", "6"], {"RANK": "0"}, "--experts 6: must be a multiple of the 4 ranks"),
        (["--iterations", "0"], {"RANK": "0"}, "--iterations 0: must be 1 to "),
        (["--block", "--no-announce"], {"RANK": "0"}, "--block: is read with --backend lightloom"),
        (["--timeline", "no/t"], {"RANK": "0"}, "--timeline no/t: there is no directory"),
        (["--out", "none/out.json"], {"RANK": "0"}, "--out none/out.json: there is no directory"),
        (["--backend", "x"], {"RANK": "0"}, "argument --backend: invalid choice: 'x'"),
        (["--text", "none"], {"RANK": "0"}, "--text none: no such file or directory"),
    ],
)
def test_bad_input_is_refused(
    words: list[str], environment: dict[str, str], why: str,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.delenv("RANK", raising=False)
    for name, value in ({"WORLD_SIZE": "4"} | environment).items():
        monkeypatch.setenv(name, value)
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(f"error: {why}") and err.count("\n") == 1, err


def test_the_help_has_an_example() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "lightloom.runtime.train", "--help"],
        capture_output=True, text=True, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert "Example: lightloom testbed run -- python -m" in " ".join(done.stdout.split())
