"""What pages share: their style sheet, tables that a screen reader can read, legends."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources
from typing import NamedTuple

from lightloom.style import palette


class Head(NamedTuple):
    """A column's heading: its text, whether cells stand to the left, whether a phone leaves it out.

    A line break in the text is one on the page.
    """

    text: str
    left: bool = False
    extra: bool = False

    def attributes(self, more: str = "") -> str:
        """Return the class of its cells."""
        names = " ".join(name for name in ("t" * self.left, "x" * self.extra, more) if name)
        return f' class="{names}"' if names else ""


def style(more: Iterable[tuple[str, tuple[str, str]]] = ()) -> str:
    """Return a page's style sheet: the palette with `more` colours (light, dark), and the rules."""
    rules = (resources.files(__package__) / "page.css").read_text(encoding="utf-8")
    return f"{palette.stylesheet(more)}\n{rules}"


def table(
    caption: str,
    heads: Sequence[Head],
    rows: Iterable[Sequence[str]],
    *,
    sortable: bool = False,
    look: str = "",
) -> str:
    """Return a table in a region that scrolls, and is reached by the keyboard, where it is wide.

    Parameters
    ----------
    caption
        What is in it; for screen readers.
    heads
        One a column.
    rows
        Cells each, as HTML.
    sortable
        Whether headings are buttons that sort.
    look
        More classes of the region.

    Examples
    --------
    >>> "<td>&lt;8</td>" in table("sizes", [Head("bytes")], [["&lt;8"]])
    True
    """
    lines = []
    for row in rows:
        cells = (f"<td{h.attributes()}>{cell}</td>" for h, cell in zip(heads, row, strict=True))
        lines.append(f"<tr>{''.join(cells)}</tr>\n")
    return framed(caption, heads, "".join(lines), sortable=sortable, look=look)


def framed(
    caption: str, heads: Sequence[Head], body: str, *, sortable: bool = False, look: str = "",
    identity: str = "",
) -> str:  # fmt: skip
    """Return a `table` of rows that are written already."""

    def heading(head: Head) -> str:
        text = escape(head.text).replace("\n", "<br>")
        text = f'<button type="button">{text}</button>' if sortable else text
        return f'<th scope="col"{head.attributes()}>{text}</th>'

    title = escape(caption)
    names = " ".join(["scroll", look]).strip()
    sort = ' class="sortable"' if sortable else ""
    of = f' id="{identity}"' if identity else ""
    return (
        f'<div class="{names}" tabindex="0" role="region" aria-label="{title}"><table{sort}>'
        f'<caption class="hidden">{title}</caption><thead><tr>{"".join(map(heading, heads))}</tr>'
        f"</thead><tbody{of}>\n{body}</tbody></table></div>\n"
    )


def legend(entries: Iterable[tuple[str, str]]) -> str:
    """Return the items of a legend: of each its colour's variable and its text."""
    return "".join(
        f'<li><i style="background: var(--{name})"></i>{escape(label)}</li>'
        for name, label in entries
    )
