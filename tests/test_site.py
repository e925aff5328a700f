"""The site has every page once, under the kind that it is; `make site` builds it, strictly."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import test_docs
from scripts import script

ROOT = Path(__file__).parents[1]
NAV = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:\n")[1]
KINDS = ["Lightloom", "Tutorial", "How-to", "Explanation", "Reference", "Glossary"]


@pytest.fixture(scope="module")
def hook() -> ModuleType:
    return script("docs/site_files.py")


def test_every_page_is_in_the_list_once() -> None:
    listed = re.findall(r"(\S+\.md)$", NAV, re.M)
    pages = {test_docs.name(page) for page in test_docs.GUIDES}
    pages |= {f"notebooks/{path.stem}.md" for path in (ROOT / "notebooks").glob("*.ipynb")}
    assert sorted(listed) == sorted(pages)


def test_pages_are_listed_by_kind() -> None:
    assert re.findall(r"^  - ([\w -]+\??):", NAV, re.M) == [*KINDS, "Can I trust it?"]


def test_readme_leads_to_the_reason_in_three_commands() -> None:
    """A picture, a sentence, a command, and a link to the page whose three commands say why."""
    screen = (ROOT / "README.md").read_text(encoding="utf-8").partition("\nIt needs git")[0]
    first = re.split(r"\n\n+", screen)
    kinds = [line.split("\n")[-1][:2] for line in first[1:4]]
    assert kinds == ["![", "re", "  "] and "make demo" in first[3]
    assert "(docs/howto/mixnet-or-not.md)" in screen
    page = (ROOT / "docs" / "howto" / "mixnet-or-not.md").read_text(encoding="utf-8")
    assert len(re.findall(r"^    lightloom ", page, re.M)) == 3
    assert "**The answer for this job:**" in page


def test_lists_and_notebooks_become_pages(hook: ModuleType, tmp_path: Path) -> None:
    page = SimpleNamespace(file=SimpleNamespace(src_uri="docs/x.md"))
    text = "They are:\n- one\n- two, see [it](../notebooks/choose.ipynb)\n```\na:\n- b\n```"
    assert hook.on_page_markdown(text, page=page) == (
        "They are:\n\n- one\n- two, see [it](../notebooks/choose.md)\n```\na:\n- b\n```"
    )
    path = tmp_path / "short.ipynb"
    cells = [("markdown", "# Short"), ("code", "1 + 1")]
    path.write_text(json.dumps({"cells": [{"cell_type": k, "source": [s]} for k, s in cells]}))
    assert hook.notebook(path) == "# Short\n\n```python\n1 + 1\n```"


def test_what_pages_link_is_taken_along(hook: ModuleType) -> None:
    linked = hook.links(ROOT / "docs" / "alarms.md")
    assert linked == {"docs/operate.md", "deploy/lightloom-rules.yml"}
