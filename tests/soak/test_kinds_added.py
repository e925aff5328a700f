"""The steps of `docs/extend.md`, followed in a copy of the tree."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from test_docs import FILES as TRACKED
from test_docs import commands
from test_extend import FILES, LINES, PRESETS, ROOT

pytestmark = pytest.mark.soak

CRATES = ("fabric", "packet", "decide", "control")
NAMES = ("one-switch", "away", "heaviest-first")


@pytest.fixture(scope="module")
def tree() -> Path:
    """A copy of the tree with the four kinds, built; it lies where the last one lay."""
    copy = ROOT / "target" / "extend" / "tree"
    shutil.rmtree(copy, ignore_errors=True)
    for path in TRACKED:
        there = copy / path.relative_to(ROOT)
        there.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, there)
    for block in FILES:
        shutil.copy2(block.example, copy / block.path)
    for block in LINES:
        path = copy / block.path
        path.write_text(block.applied(path.read_text(encoding="utf-8")), encoding="utf-8")
    for block in PRESETS:
        (copy / block.path).write_text(block.text, encoding="utf-8")
    cargo(copy, "build", "--package", "lightloom-py", "--features", "pyo3/extension-module")
    (built,) = (ROOT / "target" / "extend" / "debug").glob("lib*core*.so")
    shutil.copy(built, copy / "python" / "lightloom" / "_core.abi3.so")
    return copy


def cargo(tree: Path, command: str, *words: str) -> None:
    target = ROOT / "target" / "extend"
    fixed = ["cargo", command, "--quiet", "--offline", "--target-dir", target]
    subprocess.run([*fixed, *words], cwd=tree, check=True)


def python(tree: Path, *words: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(tree / "python")}
    done = subprocess.run(
        [sys.executable, *words], cwd=tree, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_tests_of_all_kinds_hold(tree: Path) -> None:
    packages = [word for crate in CRATES for word in ("--package", f"lightloom-{crate}")]
    cargo(tree, "test", *packages)


def test_the_commands_of_the_page_know_them(tree: Path) -> None:
    said = [python(tree, "-m", *text.split()) for _, text in commands(ROOT / "docs" / "extend.md")]
    assert len(said) == 3
    for name in ("one-switch", "away"):
        assert any(name in text for text in said)


def test_lists_and_pages_know_them(tree: Path) -> None:
    python(tree, "docs/specification.py", "--write")
    python(tree, "docs/tables.py", "--write")
    python(tree, "tests/test_cli_malformed.py")
    page = (tree / "docs" / "specification.md").read_text(encoding="utf-8")
    assert all(name in page for name in NAMES)
    tests = [f"tests/test_{name}.py" for name in ("kinds", "cli_malformed", "rails")]
    python(tree, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests)


def test_python_and_rust_decide_alike(tree: Path) -> None:
    script = """
import lightloom
from test_extend import cell
names, own = cell("decision")
job = names["job"].with_({"fabric.decision": "heaviest-first"})
core = lightloom.simulate(job)
assert own.rows[0]["iteration_s"] == core.rows[0]["iteration_s"], (own.rows, core.rows)
assert own.demand.equals(core.demand)
"""
    python(tree, "-c", f"import sys; sys.path.insert(0, 'tests')\n{script}")
