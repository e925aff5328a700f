"""Every malformed specification ends in one message, exit code 2, no traceback, nothing written.

The messages are a golden file: a change of wording is a reviewable difference.
``python tests/test_cli_malformed.py`` writes it anew.
"""

from __future__ import annotations

import contextlib
import io
import os
from pathlib import Path

import pytest
from lightloom.cli import run

HERE = Path(__file__).parent / "malformed"
GOLDEN = HERE / "messages.txt"
# Those of several jobs are a folder of their own.
SPECIFICATIONS = [path.name for path in HERE.glob("*.toml")]
JOBS = [f"jobs/{path.name}" for path in (HERE / "jobs").glob("*.toml")]
FILES = sorted([*SPECIFICATIONS, *JOBS])


def complain(name: str) -> tuple[int, str, str]:
    """Resolve one file from where they all are, so that messages name it alone."""
    out, err, before = io.StringIO(), io.StringIO(), Path.cwd()
    os.chdir(HERE)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run(["jobs", name] if name in JOBS else ["spec", "resolve", name])
    finally:
        os.chdir(before)
    return code, out.getvalue(), err.getvalue().replace(f"{HERE}{os.sep}", "")


def golden() -> dict[str, str]:
    lines = GOLDEN.read_text(encoding="utf-8").splitlines()
    return dict(line.split(" => ", 1) for line in lines)


def test_there_are_enough_and_none_is_forgotten() -> None:
    assert len(SPECIFICATIONS) >= 30 and len(JOBS) >= 20
    assert sorted(golden()) == FILES


@pytest.mark.parametrize("name", FILES)
def test_one_message(name: str) -> None:
    before = sorted(HERE.rglob("*"))
    code, out, err = complain(name)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1 and "Traceback" not in err
    assert err == f"error: {golden()[name]}\n"
    assert sorted(HERE.rglob("*")) == before


@pytest.mark.parametrize("name", FILES)
def test_the_message_names_a_file(name: str) -> None:
    """The specification itself, or the file that it names and that is wrong."""
    message = golden()[name]
    assert message.startswith((f"{name}: ", "data/"))


if __name__ == "__main__":
    text = "".join(f"{name} => {complain(name)[2].removeprefix('error: ')}" for name in FILES)
    GOLDEN.write_text(text, encoding="utf-8")
