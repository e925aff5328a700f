"""How commands end that somebody stops: Ctrl-C, and a reader that leaves."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import lightloom
import pytest
from test_cli_compare import JOB, program


def shell(line: str, at: Path) -> subprocess.CompletedProcess[str]:
    """Run a line of bash with `lightloom` in it, and print every exit code of its pipeline last."""
    start = (
        f'lightloom() {{ "{sys.executable}" -c "from lightloom.cli import main; main()" "$@"; }}'
    )
    return subprocess.run(
        ["bash", "-c", f'{start}\nset -o pipefail\n{line}\necho "${{PIPESTATUS[@]}}"'],
        capture_output=True,
        text=True,
        cwd=at,
        timeout=120,
    )


@pytest.mark.parametrize(
    "command",
    [
        f"compare {' '.join(JOB)} --fabrics mixnet --bandwidth 400",
        "cost --json",
        "cost",
        "spec resolve mixtral-8x7b",
        "spec presets",
        "--help",
    ],
)
def test_a_reader_that_leaves_ends_the_command_quietly(command: str, tmp_path: Path) -> None:
    """As SIGPIPE ends other tools: no message, and the exit code of that signal if any."""
    for reader in ("head -1", "true"):
        done = shell(f"lightloom {command} | {reader}", tmp_path)
        assert done.stderr == ""
        assert done.stdout.splitlines()[-1] in ("0 0", "141 0")


def test_a_reader_that_is_gone_before_the_first_byte_is_one_that_left(tmp_path: Path) -> None:
    done = shell("lightloom spec resolve mixtral-8x7b | (exec <&-; sleep 3)", tmp_path)
    assert (done.stdout, done.stderr) == ("141 0\n", "")


def test_a_full_disk_is_still_an_error(tmp_path: Path) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full")
    done = shell("lightloom spec resolve mixtral-8x7b > /dev/full", tmp_path)
    assert done.stdout == "1\n"
    assert done.stderr.count("\n") == 1 and "No space left" in done.stderr


STOP = """
import os, signal
def stop(*_, **__):
    os.kill(os.getpid(), signal.SIGINT)
    signal.sigtimedwait([signal.SIGINT], 5)
"""


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["simulate", *JOB[:1], "--set", "cluster.gpus=128"], "lightloom.simulation.load_trace"),
        (["rails", "--domains", "4"], "lightloom.rails.runs.demand"),
        (["predict", "evaluate", "e8k2"], "lightloom.predict.evaluate"),
        (
            [
                "plan",
                "collective",
                "--algorithm",
                "ring-allreduce",
                "--nodes",
                "8",
                "--size",
                "1MB",
            ],
            "lightloom.plan.plan_collective",
        ),
        (["reproduce", "rails", "--figures", "7"], "lightloom.rails.runs.demand"),
        (["railx", "simulate"], "lightloom.railx.flits.simulate"),
        (["compare", *JOB], "lightloom.simulation.load_trace"),
    ],
)
def test_an_interrupt_with_nothing_kept_says_so(
    arguments: list[str], code: str, tmp_path: Path
) -> None:
    module, _, name = code.rpartition(".")
    start = f"{STOP}\nimport {module} as module\nassert module.{name}\nmodule.{name} = stop"
    done = program(*arguments, at=tmp_path, code=start)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "interrupted: nothing was kept\n"


def test_an_interrupted_reproduction_says_where_it_goes_on(tmp_path: Path) -> None:
    code = """
import os, signal, lightloom.progress as progress
from contextlib import contextmanager

@contextmanager
def runs(total):
    def on_progress(name, share):
        if share == 1.0:
            os.kill(os.getpid(), signal.SIGINT)
    yield on_progress

progress.runs = runs
"""
    rails = ["reproduce", "rails", "--figures", "7,8", "--domains", "4", "--engine", "flow"]
    done = program(*rails, "--out", "out", at=tmp_path, code=code)
    assert done.returncode == 130
    assert done.stderr == (
        "interrupted: what was finished is kept in out; the same command goes on from there\n"
    )
    assert (tmp_path / "out" / "parts").is_dir()


def test_an_interrupt_in_python_says_what_was_kept(tmp_path: Path) -> None:
    job = lightloom.Scenario.preset("mixtral-8x7b", gpus=128, **{"training.micro_batches": 1})

    def stop(name: str, share: float) -> None:
        if share == 1.0:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match="nothing was kept"):
        lightloom.simulate(job, out=tmp_path / "out", on_progress=stop)
    assert list(tmp_path.iterdir()) == []
