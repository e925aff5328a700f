"""What a notebook shows of a value: a small table of facts as HTML, everything in it escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def facts(
    title: str, rows: Iterable[tuple[str, object]], *, more: tuple[str, str] = ("", "")
) -> str:
    """Return a table of names and values as HTML.

    Parameters
    ----------
    title
        A line above it.
    rows
        A name and a value each.
    more
        What unfolds below it: a line to click on, and a text of many lines.

    Examples
    --------
    >>> "a &lt; b" in facts("a < b", [("experts", 8)])
    True
    """
    left = 'style="text-align: left; vertical-align: top"'
    body = "".join(
        f'<tr><th scope="row" {left}>{escape(name)}</th><td {left}>{escape(str(value))}</td></tr>'
        for name, value in rows
    )
    line, text = map(escape, more)
    folded = f"<details><summary>{line}</summary><pre>{text}</pre></details>" if line else ""
    return (
        f"<div><strong>{escape(title)}</strong><table><tbody>{body}</tbody></table>{folded}</div>"
    )


def rows_table(title: str, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return rows of text under headings as HTML.

    Parameters
    ----------
    title
        A line above them.
    headings
        One a column.
    rows
        As many cells each.

    Examples
    --------
    >>> rows_table("sizes", ["bytes"], [["<8"]])
    '<p>sizes</p><table><thead><tr><th scope="col">bytes</th></tr></thead><tbody><tr><td>&lt;8</td>\
</tr></tbody></table>'
    """
    heads = "".join(f'<th scope="col">{escape(heading)}</th>' for heading in headings)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    return (
        f"<p>{escape(title)}</p><table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
    )
