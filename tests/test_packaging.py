"""What a package says of itself is true: one version, extras that exist, words that can be had."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import requires
from pathlib import Path

import lightloom
import pytest
from fixtures.commands import commands
from lightloom import extras

ROOT = Path(__file__).parents[1]
VERSION = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_one_version() -> None:
    assert lightloom.__version__ == VERSION and "version" in PROJECT["dynamic"]
    assert re.search(r"^version: (.*)$", text("CITATION.cff"), re.MULTILINE)[1] == VERSION
    assert re.search(r"^## (\S+)", text("CHANGELOG.md"), re.MULTILINE)[1] == VERSION
    assert set(re.findall(r"lightloom-(\d+\.\d+\.\d+)", text("docs/install.md"))) == {VERSION}
    for lock in ("Cargo.lock", "fuzz/Cargo.lock"):
        ours = re.findall(r'name = "lightloom-(?!fuzz)\w+"\nversion = "(.*)"', text(lock))
        assert ours and set(ours) == {VERSION}, lock


def test_the_extras_exist_and_messages_name_their_packages() -> None:
    assert {"torch", "ray", "sql"} <= set(PROJECT["optional-dependencies"])
    known = " ".join(requires("lightloom") or ())
    for extra, wanted in PROJECT["optional-dependencies"].items():
        assert f"extra == '{extra}'" in known.replace('"', "'")
        if extra == "dev":
            continue  # nothing that users run names it
        assert extras.install(extra) == " ".join(("pip install", *(f"'{one}'" for one in wanted)))


def advice() -> dict[str, str]:
    """Where something to install is named: pages, help, and messages in the code."""
    found = {path.name: path.read_text(encoding="utf-8") for path in PAGES}
    for path, command in commands().items():
        params = (getattr(param, "help", None) or "" for param in command.params)
        found[f"lightloom {path} --help"] = "\n".join([command.help, *params])
    for path in sorted((ROOT / "python").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        words = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
        found[str(path)] = "\n".join(word for word in words if isinstance(word, str))
    return found


def test_what_is_advised_can_be_had() -> None:
    """No index has lightloom yet, so nothing says to install it or its extras from one."""
    packages = {
        re.split(r"[<>=]", one)[0]
        for wanted in PROJECT["optional-dependencies"].values()
        for one in wanted
    } | {"pre-commit", "uv"}
    for place, said in advice().items():
        assert not re.search(r"pip install '?\"?lightloom", said), place
        for named in re.findall(r"(?:pip|uv tool) install '?\"?([A-Za-z][\w-]*)", said):
            local = named == "dist" or named == "pip"  # a file
            assert local or named in packages, f"{place}: {named}"


def test_the_release_is_made_by_its_tag_signed_and_without_a_key() -> None:
    flow = text(".github/workflows/release.yml")
    for needed in (
        'tags: ["v*"]', "make packages-check", "attest-build-provenance", "attest-sbom",
        "id-token: write", "gh-action-pypi-publish", "lightloom.cdx.json", "sdist wheel",
    ):  # fmt: skip
        assert needed in flow, needed
    assert "secrets." not in flow and "password" not in flow
    targets = set(re.findall(r"^([a-z0-9-]+):", text("Makefile"), re.MULTILINE))
    for line in re.findall(r"make ([a-z0-9 -]+)$", flow, re.MULTILINE):
        assert set(line.split()) <= targets, line


def test_what_a_release_is_made_of() -> None:
    """Two runs write the same, and every crate that is locked and linked is there."""

    def made() -> str:
        command = [sys.executable, "tools/packaging/sbom.py"]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout

    document = made()
    assert document == made()
    parts = json.loads(document)
    names = {one["name"] for one in parts["components"]}
    assert {"lightloom-sim", "lightloom-daemon", "pyo3", "rusqlite", "ring", "numpy"} <= names
    assert names.isdisjoint({"proptest", "rcgen", "maturin"})  # for tests and builds
    refs = {one["bom-ref"] for one in parts["components"]}
    for one in parts["dependencies"]:
        assert set(one["dependsOn"]) <= refs
    for one in parts["components"]:
        ours = one["name"].startswith("lightloom-")
        assert ours or "pypi" in one["purl"] or len(one["hashes"][0]["content"]) == 64


@pytest.mark.parametrize("name", ["SECURITY.md", "CITATION.cff", "CHANGELOG.md"])
def test_the_papers_of_a_project_are_there(name: str) -> None:
    assert text(name).strip()
