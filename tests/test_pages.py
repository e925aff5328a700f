"""Every command of every page is run, or says why not; what a page shows is what is printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import test_docs
import walk

LEAST = 12


def run_of(path: Path) -> list[walk.Step]:
    return [step for step in walk.steps(path) if not step.reason and not step.file]


WALKED = [path for path in test_docs.GUIDES if run_of(path)]


@pytest.mark.parametrize("path", WALKED, ids=test_docs.name)
@pytest.mark.usefixtures("undrawn")
def test_a_page_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From top to bottom; ``python tests/walk.py PAGE`` writes what commands print now."""
    monkeypatch.setenv("COLUMNS", str(walk.WIDTH))
    monkeypatch.setenv("PYTHONPATH", str(test_docs.ROOT / "python"))
    for step, printed in walk.walk(path, tmp_path):
        if step.printed is not None:
            lines = [line.rstrip() for line in printed.rstrip("\n").splitlines()]
            assert lines == list(step.printed), f"line {step.line}: {step.text}"
    for made, shown in walk.pictures(path):
        assert (tmp_path / made).is_file(), f"{made}: no command makes it"
        assert shown.read_bytes().startswith(b"\x89PNG"), f"{shown} is no picture"


@pytest.mark.parametrize("path", test_docs.GUIDES, ids=test_docs.name)
def test_nothing_is_left_out_silently(path: Path) -> None:
    """Each command that a page names is one that is run or marked, and a reason is one."""
    steps = walk.steps(path)
    known = {step.line for step in steps}
    assert {number for number, _ in test_docs.commands(path)} <= known
    reasons = walk.MARK.findall(path.read_text(encoding="utf-8"))
    assert all(len(reason) >= LEAST for reason in reasons)
    assert set(reasons) == {step.reason for step in steps if step.reason}, "a mark of nothing"


def test_how_tos_are_listed_and_run() -> None:
    """Each how-to is in their list, has a goal, and runs something unless that needs root."""
    here = test_docs.ROOT / "docs" / "howto"
    pages = {path.name for path in here.glob("*.md")} - {"README.md"}
    table = (here / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"\| \[[\w-]+\]\(([\w-]+\.md)\) \|", table)
    assert sorted(listed) == sorted(pages)
    for name in pages:
        text = (here / name).read_text(encoding="utf-8")
        assert ("**Goal:**" in text and "**What you see:**" in text) or name == "mixnet-or-not.md"
        assert run_of(here / name) or name in ("testbed.md", "train.md")


def test_a_command_without_a_mark_would_be_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# Page\n\n    lightloom --version\n\n## Left out\n\n<!-- not run: takes an hour -->\n"
        "    lightloom compare x\n\n### Below\n\n```sh\nlightloom simulate y\n```\n\n"
        "## Run\n\n`a.toml`:\n\n```toml\nx = 1\n```\n\n    lightloom cost \\\n      --prices\n\n"
        "```text\nprices\n```\n"
    )
    first, left, below, file, last = walk.steps(page)
    assert (first.text, first.reason) == ("lightloom --version", "")
    assert left.reason == below.reason == "takes an hour"
    assert (file.file, file.text) == ("a.toml", "x = 1\n")
    assert (last.text, last.printed) == ("lightloom cost --prices", ("prices",))
