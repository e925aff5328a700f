"""What mkdocs makes the site of: pages where they lie in the repository, and the files they link.

`mkdocs.yml` calls it. Pages keep their places, so that a link that leads somewhere here does so
there. Notebooks become pages; the documentation of the crates is copied if cargo has made it.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("*.md", "docs/*.md", "docs/howto/*.md", "examples/README.md")
NOTEBOOKS = "notebooks/*.ipynb"
# Where `make lint` and `cargo doc` put it.
RUSTDOC = (ROOT / "target" / "lint" / "doc", ROOT / "target" / "doc")
LINK = re.compile(r"\]\(([^)\s#:]+)")
ITEM = re.compile(r" *(?:[-*]|\d+\.) ")


def on_files(files: Any, config: Any) -> Any:
    """Put the repository's pages, and what they link, in place of the files of `docs`."""
    from mkdocs.structure.files import File

    for file in list(files):
        if file.src_dir == config.docs_dir and not file.src_uri.startswith("site/"):
            files.remove(file)
    names = {path.relative_to(ROOT).as_posix() for pattern in PAGES for path in ROOT.glob(pattern)}
    names |= {linked for page in names for linked in links(ROOT / page)}
    for name in sorted(names):
        files.append(File(name, str(ROOT), config.site_dir, use_directory_urls=False))
    for path in sorted(ROOT.glob(NOTEBOOKS)):
        name = path.relative_to(ROOT).with_suffix(".md").as_posix()
        files.append(File.generated(config, name, content=notebook(path)))
    return files


def links(page: Path) -> set[str]:
    """Return the files that a page links or shows, but notebooks, from the repository's root."""
    found = set()
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        path = (page.parent / target).resolve()
        if path.is_file() and path.suffix != ".ipynb":
            found.add(path.relative_to(ROOT).as_posix())
    return found


def notebook(path: Path) -> str:
    """Return a notebook as Markdown.

    >>> from tempfile import mkdtemp
    >>> file = Path(mkdtemp()) / "short.ipynb"
    >>> _ = file.write_text('{"cells": [{"cell_type": "code", "source": ["1 + 1"]}]}')
    >>> print(notebook(file).splitlines()[1])
    1 + 1
    """
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    texts = ["".join(cell["source"]) for cell in cells]
    return "\n\n".join(
        f"```python\n{text}\n```" if cell["cell_type"] == "code" else text
        for cell, text in zip(cells, texts, strict=True)
    )


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Give lists the empty line that Python-Markdown wants, notebooks and crates their links."""
    lines: list[str] = []
    fenced = False
    for line in markdown.split("\n"):
        fenced ^= line.lstrip().startswith("```")
        before = lines[-1] if lines else ""
        if not fenced and ITEM.match(line) and before and not re.match(r" |[-*] |\d+\. ", before):
            lines.append("")
        lines.append(line)
    text = re.sub(r"(\]\([\w./-]+)\.ipynb\)", r"\1.md)", "\n".join(lines))
    if page.file.src_uri == "docs/rust.md" and rustdoc():
        link = r'| <a href="../rust/lightloom_\1/index.html"><code>lightloom-\1</code></a>'
        text = re.sub(r"\| `lightloom-(\w+)`", link, text)
    return text


def rustdoc() -> Path | None:
    """Return where the documentation of the crates is, if it was made."""
    return next((path for path in RUSTDOC if (path / "lightloom_units").is_dir()), None)


def on_post_page(output: str, **_: Any) -> str:
    """Name what screen readers read, and let keys scroll code that is wider than a page."""
    output = output.replace('<div class="md-search"', '<div class="md-search" aria-label="Search"')
    # Parts of a table of contents are lists in it, and no landmarks of their own.
    output = re.sub(
        r'<nav class="md-nav" aria-label="[^"]*">', '<nav class="md-nav" role="none">', output
    )
    # The corner of a table is no heading.
    output = re.sub(r"<th([^>]*)></th>", r"<td\1></td>", output)
    return output.replace("<pre>", '<pre tabindex="0">')


def on_post_template(output: str, template_name: str, **_: Any) -> str:
    """Do the same for the page of what is not found."""
    return on_post_page(output) if template_name == "404.html" else output


def on_post_build(config: Any) -> None:
    """Copy what cargo has made of the crates."""
    made = rustdoc()
    if made:
        shutil.copytree(made, Path(config.site_dir) / "rust", dirs_exist_ok=True)
