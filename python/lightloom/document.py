"""JSON files with a schema: one reader, whose refusals are one message each, and one way to write.

A file says its format and version first. Values are strict: no text for a number, no key that is
not known. Checked: plans and port maps, fuzzed.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lightloom.errors import InputError
from lightloom.trace.wording import reason, shown

_MOST = 2**63 - 1
# What pydantic calls a key that is not known, of a table and of a dataclass.
_UNKNOWN = ("extra_forbidden", "unexpected_keyword_argument")
Index = Annotated[int, Field(ge=0, lt=1 << 32)]
Picoseconds = Annotated[int, Field(ge=0, le=_MOST)]
Count = Annotated[int, Field(ge=0, le=_MOST)]
CONFIG = ConfigDict(extra="forbid", frozen=True, strict=True)


class Table(BaseModel):
    """A table of a file."""

    model_config = CONFIG


_Table = TypeVar("_Table", bound=Table)
_Read = TypeVar("_Read")


def parse(table: type[_Table], text: bytes, what: str, variants: Sequence[str] = ()) -> _Table:
    """Read a file's text.

    Parameters
    ----------
    table
        What the file holds.
    text
        Its bytes.
    what
        What such a file is called, such as "a plan".
    variants
        Values of `kind` that tables of several kinds have.

    Raises
    ------
    InputError
        If the text is none; the message names the key, its value and what is allowed.
    """
    try:
        return table.model_validate_json(text)
    except ValidationError as error:
        # What kind of file it is comes first; an unknown key explains a missing one.
        details = error.errors(include_url=False, include_context=True)
        first = min(
            details,
            key=lambda d: (d["loc"][:1] not in (("format",), ("version",)),
                           d["type"] not in _UNKNOWN),
        )  # fmt: skip
    if first["type"] == "json_invalid":
        raise InputError(f"not JSON: {reason(ValueError(first['ctx']['error']))}")
    key = ""
    for part in first["loc"]:
        if isinstance(part, int):
            key += f"[{part}]"
        elif part not in variants:
            key += f".{shown(part)}" if key else shown(part)
    if first["type"] in _UNKNOWN:
        raise InputError(f"{key}: unknown key")
    if first["type"] == "missing":
        raise InputError(f"{key}: missing")
    if not key:
        raise InputError(f"not {what}: must be a JSON object")
    if first["type"].startswith("union_tag"):
        raise InputError(f"{key}.kind: must be one of {', '.join(variants)}")
    raise InputError(f"{key} = {_short(first['input'])}: {_in_words(first['msg'])}")


def read(path: str | Path, parse: Callable[[bytes], _Read]) -> _Read:
    """Read a file.

    Raises
    ------
    InputError
        As `parse` does, with the file's name; or if the file cannot be read.
    """
    place = Path(path)
    try:
        return parse(place.read_bytes())
    except OSError as error:
        raise InputError(f"{place}: cannot be read: {reason(error)}") from None
    except InputError as error:
        raise InputError(f"{place}: {error}") from None


def schema(table: type[Table], title: str, description: str) -> dict[str, Any]:
    """Return the JSON Schema of a file."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **table.model_json_schema(),
        "title": title,
        "description": description,
    }


def schema_text(schema: dict[str, Any]) -> str:
    """Return a schema as it is published."""
    return json.dumps(schema, indent=2) + "\n"


def items(texts: Iterator[str]) -> Iterator[str]:
    """Yield the text of a list, an item a line."""
    separator = "\n      "
    for text in texts:
        yield separator + text
        separator = ",\n      "


def _short(value: object) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _in_words(text: str) -> str:
    """Say what pydantic says as the rest of the program does."""
    from lightloom.messages import _WORDS

    for words, ours in _WORDS.items():
        if text.startswith(words):
            text = ours + text.removeprefix(words)
            break
    return text.partition(", unable to parse")[0].replace("'", '"')


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a file to write, which takes the place of `path` if all goes well.

    Raises
    ------
    InputError
        If `path` cannot be written.
    """
    draft: Path | None = None
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        os.close(handle)
        draft = Path(name)
        yield draft
        draft.chmod(0o644)
        draft.replace(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {reason(error)}") from None
    finally:
        if draft is not None:
            draft.unlink(missing_ok=True)
