"""TOML files: read with one message where they are wrong, and written.

Written, as Python's standard library cannot: tables, arrays, inline tables inside arrays, and the
scalars that a specification holds. Ignored: dates, comments, formatting choices. Checked:
`tomllib.loads(to_toml(tree)) == tree`, and damaged files.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from lightloom.errors import InputError

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def to_toml(tree: Mapping[str, Any]) -> str:
    """Write nested tables as TOML.

    Examples
    --------
    >>> print(to_toml({"seed": 1, "fabric": {"kind": "mixnet", "ocs": {"delay": "25 ms"}}}))
    seed = 1
    <BLANKLINE>
    [fabric]
    kind = "mixnet"
    <BLANKLINE>
    [fabric.ocs]
    delay = "25 ms"
    <BLANKLINE>
    """
    lines: list[str] = []
    _table(tree, "", lines)
    return "\n".join(lines) + "\n"


@lru_cache(maxsize=4096)
def key_text(key: str) -> str:
    """Write one key, quoted where TOML asks for it. A run asks for the same thousands of times.

    Examples
    --------
    >>> key_text("nic"), key_text("400 Gbps")
    ('nic', '"400 Gbps"')
    """
    return key if _BARE.fullmatch(key) else _string(key)


def value_text(value: Any) -> str:
    """Write one value on one line, as TOML would.

    Examples
    --------
    >>> value_text([1, "a", {"b": True}])
    '[1, "a", { b = true }]'
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, float):
        return {"inf": "inf", "-inf": "-inf", "nan": "nan"}.get(repr(value), repr(value))
    if isinstance(value, Mapping):
        inside = ", ".join(f"{key_text(key)} = {value_text(item)}" for key, item in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(value_text(item) for item in value)}]"
    return str(value)


def short_text(value: Any) -> str:
    """Write a value for a message: on one line, at most 80 characters.

    Examples
    --------
    >>> short_text("25 parsecs"), short_text({"kind": "mixnet"}), len(short_text([1] * 99))
    ('"25 parsecs"', '{ ... }', 80)
    """
    if isinstance(value, Mapping):
        return "{ ... }" if value else "{}"
    text = value_text(value).replace("\n", " ")
    return text if len(text) <= 80 else f"{text[:77]}..."


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file; InputError names it and what is wrong."""
    text = read_text(path)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: not valid TOML: {error}") from None
    except RecursionError:
        raise InputError(f"{path}: not valid TOML: nested too deeply") from None
    except ValueError as error:  # a number with thousands of digits
        raise InputError(f"{path}: not valid TOML: {error}") from None


def read_text(path: Path) -> str:
    """Read a UTF-8 text file of at most 16 MiB; InputError names it and what is wrong."""
    try:
        if path.stat().st_size > 16 << 20:
            raise InputError(f"{path}: too large; allowed: at most 16 MiB")
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (UnicodeDecodeError, ValueError):
        raise InputError(f"{path}: cannot be read: not text in UTF-8") from None


def _table(tree: Mapping[str, Any], name: str, lines: list[str]) -> None:
    tables = {key: value for key, value in tree.items() if isinstance(value, Mapping)}
    values = {key: value for key, value in tree.items() if key not in tables}
    if name and (values or not tables):
        lines.append(f"[{name}]")
    for key, value in values.items():
        if isinstance(value, list | tuple) and any(isinstance(item, Mapping) for item in value):
            rows = "".join(f"    {value_text(item)},\n" for item in value)
            lines.append(f"{key_text(key)} = [\n{rows}]")
        else:
            lines.append(f"{key_text(key)} = {value_text(value)}")
    for key, table in tables.items():
        if lines:
            lines.append("")
        _table(table, f"{name}.{key_text(key)}" if name else key_text(key), lines)


def _string(text: str) -> str:
    # JSON's escapes are TOML's, once everything outside ASCII that JSON would cut into surrogate
    # pairs is kept as it is; TOML also wants the delete character escaped.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
