"""What the reproductions of papers share: a directory whose finished parts are never made twice.

A part is a JSON file under ``parts``: a head that says what made it (version, settings), and rows.
One that was made by something else, or is damaged, counts as absent. Checked: by the tests of each
paper's reproduction.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lightloom import __version__, store
from lightloom.errors import InputError

Rows = list[dict[str, Any]]


def take(directory: Path) -> None:
    """Make `directory` ready for parts, or refuse what is no reproduction.

    Raises
    ------
    InputError
        If it is a file, holds something else, or cannot be written.
    """
    try:
        if directory.exists() and not directory.is_dir():
            raise InputError(f"{directory}: is a file; allowed: a new or empty directory")
        if directory.exists() and any(directory.iterdir()) and not (directory / "parts").is_dir():
            raise InputError(
                f"{directory}: is not empty and not a reproduction; allowed: a new or empty "
                "directory, or one that was begun"
            )
        (directory / "parts").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{directory}: cannot be used: {error.strerror or error}") from None


def keep(directory: Path, name: str, head: Mapping[str, Any], rows: Rows) -> None:
    """Keep a finished part; a reader sees all of it or nothing.

    Examples
    --------
    >>> import tempfile
    >>> place = Path(tempfile.mkdtemp())
    >>> take(place)
    >>> keep(place, "figure 7", {"seed": 1}, [{"x": 2}])
    >>> kept(place, "figure 7", {"seed": 1}), kept(place, "figure 7", {"seed": 2})
    ([{'x': 2}], None)
    """
    place = _place(directory, name)
    draft = place.with_suffix(".part")
    store.write_json(draft, {**_head(name, head), "rows": rows})
    draft.replace(place)


def kept(directory: Path, name: str, head: Mapping[str, Any]) -> Rows | None:
    """Return a part's rows if this version made them under the same head."""
    try:
        found = json.loads(_place(directory, name).read_text(encoding="utf-8"))
        if any(found[key] != value for key, value in _head(name, head).items()):
            return None
        return [dict(row) for row in found["rows"]]
    except (OSError, ValueError, KeyError, TypeError):
        return None  # absent, or nothing that was written here: made anew


def said(directory: Path, name: str) -> dict[str, Any]:
    """Return what stands beside the rows of a part that is kept."""
    found: dict[str, Any] = json.loads(_place(directory, name).read_text(encoding="utf-8"))
    return {key: value for key, value in found.items() if key != "rows"}


def write_csv(place: Path, rows: Rows) -> None:
    """Write rows, each column that any of them has; lists and tables as JSON."""
    keys = list(dict.fromkeys(key for row in rows for key in row))
    with place.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, keys)
        writer.writeheader()
        writer.writerows(
            {
                key: json.dumps(value) if isinstance(value, (dict, list)) else value
                for key, value in row.items()
            }
            for row in rows
        )


def markdown(headings: Sequence[str], table: Sequence[Mapping[str, str]]) -> str:
    """Return a table as Markdown.

    >>> print(markdown(("what", "here"), [{"what": "time", "here": "3 s"}]), end="")
    | what | here |
    |---|---|
    | time | 3 s |
    """
    head = f"| {' | '.join(headings)} |\n|{'---|' * len(headings)}\n"
    return head + "".join(f"| {' | '.join(row.values())} |\n" for row in table)


def _place(directory: Path, name: str) -> Path:
    return directory / "parts" / f"{name.replace(' ', '-')}.json"


def _head(name: str, head: Mapping[str, Any]) -> dict[str, Any]:
    whole = {"lightloom": __version__, "part": name, **head}
    return dict(json.loads(json.dumps(whole)))  # as it is read back: lists, no tuples
