"""The page that says what was validated quotes the pages that it leads to."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
FIGURE = re.compile(r"(?<![A-Za-z\d.])\d[\d,]*(?:\.\d+)?")


def rows() -> list[list[str]]:
    lines = (DOCS / "trust.md").read_text(encoding="utf-8").splitlines()
    cells = [re.split(r"(?<!\\)\|", line)[1:-1] for line in lines if line.startswith("| ")]
    return [row for row in cells if "](" in row[-1]]


def section(target: str) -> str:
    """Return what stands below a heading, those below it included."""
    page, _, anchor = target.partition("#")
    lines = (DOCS / page).read_text(encoding="utf-8").splitlines()
    slugs = [re.sub(r"[^\w\- ]", "", line.lstrip("# ")).strip().lower() for line in lines]
    (at,) = (
        number
        for number, slug in enumerate(slugs)
        if lines[number].startswith("#") and slug.replace(" ", "-") == anchor
    )
    depth = len(lines[at]) - len(lines[at].lstrip("#"))
    end = next(
        (n for n in range(at + 1, len(lines)) if re.match(rf"#{{1,{depth}}} ", lines[n])), None
    )
    return "\n".join(lines[at:end])


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0].strip())
def test_figures_are_those_of_the_page(row: list[str]) -> None:
    link = re.search(r"\]\(([^)]+)\)", row[-1])
    assert link
    there = set(FIGURE.findall(section(link[1])))
    quoted = FIGURE.findall(re.sub(r"`[^`]*`|8x\d+B|120b", "", " ".join(row[1:3])))
    assert quoted
    assert [figure for figure in quoted if figure not in there] == []


def test_a_figure_that_is_not_there_would_be_found() -> None:
    assert len(rows()) > 20
    assert "0.3" in FIGURE.findall(section("validation.md#a-testbed-beside-the-flow-engine"))
    assert "0.31" not in FIGURE.findall(section("validation.md#a-testbed-beside-the-flow-engine"))
