"""The answer as one page of HTML that opens offline: pick, reason, runner-up, what reverses it."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lightloom.choice.result import Choice
    from lightloom.choice.search import Entry

_STYLE = """
:root { color-scheme: light dark; --line: #8886; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; line-height: 1.25; } h2 { font-size: 1.1rem; margin-top: 1.8rem; }
table { border-collapse: collapse; } .wide { overflow-x: auto; }
th, td { padding: .3rem .7rem; border-bottom: 1px solid var(--line); text-align: right; }
th:first-child, td:first-child { text-align: left; }
img { max-width: 100%; height: auto; background: #fff; }
"""

HEADINGS = (
    "candidate", "iteration s", "k tokens/s", "network M$", "cluster M$", "tokens/s per k$",
    "closed form s",
)  # fmt: skip


def cells(one: Entry) -> list[str]:
    """Return what a table shows of a finalist, under `HEADINGS`."""
    assert one.rated is not None and one.iteration_s is not None and one.network_usd is not None
    cluster = one.rated.cluster_usd
    return [
        str(one.candidate),
        f"{one.iteration_s:.2f}",
        f"{one.tokens_per_s / 1e3:,.0f}",
        f"{one.network_usd / 1e6:.2f}",
        "-" if cluster is None else f"{cluster / 1e6:.1f}",
        "-" if cluster is None else f"{1e3 * one.tokens_per_s / cluster:.2f}",
        f"{one.rated.about_s:.2f}",
    ]


def drawn(figure: Figure) -> bytes:
    """Return a picture as PNG."""
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=150)
    return picture.getvalue()


def page(choice: Choice, picture: bytes) -> str:
    """Return the page, with its picture as PNG in it."""
    data = base64.b64encode(picture).decode("ascii")
    less = choice.frontier()
    parts = [
        f"<h1>{escape(str(choice.pick.candidate))}</h1>",
        f"<p>{escape(choice.title)}</p>",
        "<h2>Why</h2>",
        *(f"<p>{escape(line)}</p>" for line in choice.reason),
        "<h2>Finalists</h2>",
        _table(HEADINGS, [cells(one) for one in choice.finalists]),
        "<h2>What would reverse it</h2>",
        _list(str(one) for one in choice.reversals),
        "<h2>For less money</h2>",
        _table(
            ("candidate", "network M$", "k tokens/s by closed form"),
            [
                [
                    str(one.candidate),
                    f"{(one.network_usd or 0.0) / 1e6:.2f}",
                    f"{one.tokens_per_s / 1e3:,.0f}",
                ]
                for one in less[:12]
            ],
        ),
        f'<img alt="{escape(choice.title)}: tokens a second over dollars of the network" '
        f'src="data:image/png;base64,{data}">',
        "<h2>How it was searched</h2>",
        *(f"<p>{escape(line)}</p>" for line in choice.searched),
        f"<p><code>{escape(str(choice.info['command']))}</code></p>",
    ]
    title = escape(f"{choice.pick.candidate} for {choice.asked.job.model.name}")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{_STYLE}</style></head><body><main>"
        f"{''.join(parts)}</main></body></html>\n"
    )


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in headings)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(text)}</td>' for text in row)}</tr>" for row in rows
    )
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="wide">{table}</div>'


def _list(lines: Iterable[str]) -> str:
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<ul>{items}</ul>"
