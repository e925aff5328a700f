"""What the last word of a command line may become: commands, options, and names that are there.

A line is read as the commands would read it, by what they declare; which names a parameter takes is
in `lightloom.cli.names`. An empty list leaves the word to the shell, which knows files. Checked:
every command, and real shells, in ``tests/test_completion.py``.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from typer.main import get_command

from lightloom.cli import COMMANDS, names


class Candidate(NamedTuple):
    """A word, and a few words about it."""

    word: str
    about: str = ""


def candidates(line: str) -> list[Candidate]:
    """Return what may stand in the place of the last word of a line that was typed so far.

    Parameters
    ----------
    line
        From the name of the program to the cursor. After a blank the last word is empty.

    Examples
    --------
    >>> [found.word for found in candidates("lightloom comp")]
    ['compare', 'completion', 'compute']
    >>> [found.word for found in candidates("lightloom cost --fabrics fat-tree,mixnet-o")]
    ['fat-tree,mixnet-optical-io', 'fat-tree,mixnet-optical-io-16tbps']
    >>> [found.word for found in candidates("lightloom memory a.toml --set training.recompute=f")]
    ['training.recompute=full']
    """
    *typed, last = _words(line)
    found = [one for one in _possible(typed[1:], last) if one.word.startswith(last)]
    return sorted(dict.fromkeys(found))


def _words(line: str) -> list[str]:
    """Split a line as a shell does, the last word as far as it was typed."""
    for end in ("\0", '\0"', "\0'"):  # the mark of the end, and a quotation that is still open
        try:
            words = shlex.split(line + end)
        except ValueError:
            continue
        return [*words[:-1], words[-1].removesuffix("\0")]
    return ["", ""]


def _possible(typed: Sequence[str], last: str) -> Iterator[Candidate]:
    from lightloom.cli.application import app, load

    while typed and typed[0].startswith("-"):  # options before the command
        typed = typed[1:]
    if not typed:
        yield from _options(get_command(app)) if last.startswith("-") else _commands(COMMANDS)
        return
    if typed[0] not in COMMANDS:
        return
    path, command, waiting, arguments = typed[0], load(typed[0]), None, 0
    for word in typed[1:]:
        inner = getattr(command, "commands", {})
        if waiting is not None:
            waiting = None
        elif word.startswith("-"):
            waiting = _option(command, word)
        elif word in inner:
            path, command = f"{path} {word}", inner[word]
        else:
            arguments += 1
    inner = getattr(command, "commands", {})
    places = [param for param in command.params if param.param_type_name == "argument"]
    if waiting is not None:
        yield from _values(path, waiting, last)
    elif last.startswith("-"):
        yield from _options(command)
    elif inner:
        yield from _commands({name: each.help or "" for name, each in inner.items()})
    elif places and (arguments < len(places) or places[-1].nargs == -1):
        yield from _values(path, places[min(arguments, len(places) - 1)], last)


def _commands(listed: Mapping[str, str]) -> Iterator[Candidate]:
    for name, about in listed.items():
        yield Candidate(name, _first_sentence(about))


def _options(command: Any) -> Iterator[Candidate]:
    for param in command.params:
        for name in (*param.opts, *param.secondary_opts):
            if name.startswith("--") and not getattr(param, "hidden", False):
                yield Candidate(name, _first_sentence(param.help))
    yield Candidate("--help", "Show this message and exit.")


def _option(command: Any, word: str) -> Any:
    """Return the option that waits for the word after this one, or None."""
    for param in command.params:
        if word in param.opts and param.param_type_name == "option" and not param.is_flag:
            return param
    return None


def _values(command: str, param: Any, last: str) -> Iterator[Candidate]:
    given = names.of(command, param.name)
    if given is None:
        choices = str(param.metavar or "").split("|")  # such as "out|in"
        yield from (Candidate(choice) for choice in choices if len(choices) > 1)
        return
    before, comma, _ = last.rpartition(",")
    row = param.name in names.ROWS or f"{command} {param.name}" in names.ROWS
    if not row:
        before = comma = ""
    key, equals, _ = last.partition("=")
    if equals and param.name in ("settings", "over"):
        from lightloom.keys import values

        yield from (Candidate(f"{key}={value}") for value in values(key))
        return
    found = given()
    about = found if isinstance(found, Mapping) else dict.fromkeys(found, "")
    for name, text in about.items():
        yield Candidate(f"{before}{comma}{name}", _first_sentence(text))


def _first_sentence(text: str | None) -> str:
    """Return what fits beside a word in a list.

    Examples
    --------
    >>> _first_sentence("Each flow on one path, by a hash. More.")
    'Each flow on one path, by a hash.'
    """
    plain = (text or "").replace("\\[", "[").replace("`", "").split("\n\n")[0]
    first, stop, _ = plain.partition(". ")
    return " ".join((first + stop).split())
