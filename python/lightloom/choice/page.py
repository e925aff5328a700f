"""The answer as one page of HTML that opens offline: pick, reason, runner-up, what reverses it."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from lightloom.style import pages

if TYPE_CHECKING:
    from lightloom.choice.result import Choice
    from lightloom.choice.search import Entry

HEADINGS = (
    "candidate", "iteration [s]", "k tokens/s", "network [M$]", "cluster [M$]",
    "tokens/s per k$", "closed form [s]",
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


def page(choice: Choice, picture: bytes) -> str:
    """Return the page, with its picture as PNG in it."""
    data = base64.b64encode(picture).decode("ascii")
    less = choice.frontier()
    parts = [
        f"<h1><strong>{escape(str(choice.pick.candidate))}</strong> {escape(choice.title)}</h1>",
        "<h2>Why</h2>",
        *(f"<p>{escape(line)}</p>" for line in choice.reason),
        "<h2>Finalists</h2>",
        _table("Finalists", HEADINGS, [cells(one) for one in choice.finalists]),
        "<h2>What would reverse it</h2>",
        _list(str(one) for one in choice.reversals),
        "<h2>For less money</h2>",
        _table(
            "What less money buys",
            ("candidate", "network [M$]", "k tokens/s by closed form"),
            [
                [
                    str(one.candidate),
                    f"{(one.network_usd or 0.0) / 1e6:.2f}",
                    f"{one.tokens_per_s / 1e3:,.0f}",
                ]
                for one in less[:12]
            ],
        ),
        f'<img class="png" alt="{escape(choice.title)}: tokens a second over the network\'s cost" '
        f'src="data:image/png;base64,{data}">',
        "<h2>How it was searched</h2>",
        *(f"<p>{escape(line)}</p>" for line in choice.searched),
        f"<p><code>{escape(str(choice.info['command']))}</code></p>",
    ]
    title = escape(f"{choice.pick.candidate} for {choice.asked.job.model.name}")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{pages.style()}</style></head><body><main>"
        f"{''.join(parts)}</main></body></html>\n"
    )


def _table(caption: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    heads = [pages.Head(text, left=not at) for at, text in enumerate(headings)]
    return pages.table(caption, heads, [[escape(text) for text in row] for row in rows])


def _list(lines: Iterable[str]) -> str:
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<ul>{items}</ul>"
