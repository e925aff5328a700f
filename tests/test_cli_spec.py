"""``lightloom spec`` and the way every command ends."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightloom.cli
import pytest
from lightloom.cli import COMMANDS, run
from lightloom.errors import RunError
from lightloom.resolve import load_job, load_scenario
from lightloom.toml_text import to_toml

GOLDEN = Path(__file__).parent / "golden"
JOB = """\
name = "a job"

[model]
preset = "mixtral-8x7b"

[training]
micro_batch = 16

[compute]
table = "paper-profile"

[fabric]
kind = "mixnet"
link_bandwidth = "200 Gbps"

[fabric.ocs]
device = "calient"
"""


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "job.toml").write_text(JOB)
    monkeypatch.chdir(tmp_path)
    return "job.toml"


def test_values_and_origins(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The golden listing, one line a value."""
    settings = ["--set", "fabric.eps.link_bandwidth=100 Gbps"]
    assert run(["spec", "resolve", job, *settings, "--sources"]) == 0
    assert capsys.readouterr().out == (GOLDEN / "resolved.txt").read_text(encoding="utf-8")


def test_json_holds_the_same(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["spec", "resolve", job, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    resolved = load_job(job)
    assert load_scenario(printed["scenario"]).scenario == resolved.scenario
    rows = {row["key"]: row for row in printed["values"]}
    assert rows["fabric.ocs.ports"] == {
        "key": "fabric.ocs.ports",
        "value": 320,
        "origin": "preset devices/calient.toml",
        "source": "MixNet Table 2",
    }
    assert rows["fabric.eps.link_bandwidth"]["origin"] == "job.toml"
    assert rows["parallelism.dp"]["value"] == resolved.scenario.dp == 8


def test_toml_runs_again(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["spec", "resolve", job, "--toml"]) == 0
    text = capsys.readouterr().out
    assert load_scenario(tomllib.loads(text)).scenario == load_job(job).scenario


def test_presets_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["spec", "presets", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert "mixtral-8x7b" in listed["model.preset"] and "polatis" in listed["fabric.ocs.device"]


def test_a_trace_that_does_not_fit_is_an_error_of_the_specification(
    job: str, capsys: pytest.CaptureFixture[str]
) -> None:
    import numpy as np
    from lightloom.trace import GatingTrace

    for name, sources, experts in (("wide", 8, 16), ("few", 4, 8)):
        GatingTrace(np.ones((2, 2, sources, experts), dtype=np.uint32), top_k=2).save(name)
        assert run(["spec", "resolve", job, "--set", f"gating.trace={name}"]) == 2
    wide, few = capsys.readouterr().err.splitlines()
    assert "has 16 experts; must have model.experts = 8: lightloom trace record --expe" in wide
    assert "has 4 source ranks; must be a multiple of parallelism.ep = 8" in few


@pytest.mark.parametrize(
    ("failure", "code", "says"),
    [
        (RunError("the disk is full"), 1, "error: the disk is full"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (ZeroDivisionError("division by zero"), 1, "internal error: ZeroDivisionError: division"),
        (OSError(28, "No space left on device"), 1, "error: No space left on device"),
        (MemoryError(), 1, "error: out of memory"),
    ],
)
def test_every_end_is_one_line(
    failure: BaseException,
    code: int,
    says: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise failure

    monkeypatch.setattr("lightloom.resolve.load_job", fail)
    assert run(["spec", "resolve", "mixtral-8x7b"]) == code
    err = capsys.readouterr().err
    assert err.startswith(says) and err.count("\n") == 1
    assert run(["spec", "resolve", "mixtral-8x7b", "--debug"]) == code
    if isinstance(failure, Exception):
        assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["spec", "resolve"], "Missing argument 'FILE'"),
        (["spec", "resolve", "mixtral-8x7b", "--jsn"], "No such option: --jsn"),
        (["specs"], "No such command 'specs'"),
        (["spec", "resolve", "mixtral-8x7b", "--json", "--toml"], "allowed: one of the two"),
        (["spec", "resolve", "."], ".: cannot be read: Is a directory"),
        (["spec", "resolve", "mixtral-8x7b", "--set", "a b=1"], '"a b": not a key'),
    ],
)
def test_usage_errors(arguments: list[str], says: str, refused: Callable[..., str]) -> None:
    assert says in refused(*arguments)


def test_help_imports_no_subcommand_and_shows_examples(capsys: pytest.CaptureFixture[str]) -> None:
    code = (
        "import sys, lightloom.cli as c; c.run(['--help']); "
        "print([m for m in sys.modules if m.startswith('lightloom.cli.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.rstrip().endswith("['lightloom.cli.top']")
    for command in COMMANDS:
        assert command in done.stdout
    for arguments in (["spec", "resolve"], ["cost"], []):
        assert run([*arguments, "--help"]) == 0
        assert "Example: lightloom" in " ".join(capsys.readouterr().out.split())


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"lightloom {lightloom.__version__}\n"


def test_the_whole_program_prints_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text(to_toml({"model": {"preset": "nothing"}}))
    program = "from lightloom.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "spec", "resolve", "bad.toml"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith('error: bad.toml: model.preset = "nothing": no such preset')
    assert done.stderr.count("\n") == 1
