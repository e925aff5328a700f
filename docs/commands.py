"""Write docs/commands.md: every command of the command line, from the commands themselves.

``python docs/commands.py`` prints the page, ``--write`` puts it in place. Checked:
``tests/test_docs.py``.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import typer.main
from lightloom.cli import COMMANDS

PAGE = Path(__file__).with_suffix(".md")
HEAD = """# Command line

<!-- Written by docs/commands.py. -->
<!-- not run: examples of the help; tests parse them, and pages that explain a command run it -->

`lightloom COMMAND --help` says the same. A command ends with 0 if all went well, 1 if a run failed,
2 if what it was given is bad, 130 after an interrupt; a bad end is one message on stderr. `--debug`
adds a traceback, `--version` prints the version. What a command prints as a table it prints as JSON
with `--json`, where it has that option.

| command | what it does |
|---|---|"""


def page() -> str:
    """Return the whole page."""
    lines = [HEAD]
    lines += [f"| [`{name}`](#lightloom-{name}) | {about} |" for name, about in COMMANDS.items()]
    for name in COMMANDS:
        lines += section(name, typer.main.get_command(import_module(f"lightloom.cli.{name}").app))
    return "\n".join(lines) + "\n"


def section(name: str, command: Any) -> Iterator[str]:
    """Give the lines of a command, and of those below it."""
    inner = getattr(command, "commands", {})
    yield from ("", f"{'##' if ' ' not in name else '###'} lightloom {name}")
    for paragraph in (command.help or "").split("\n\n"):
        yield ""
        yield example(paragraph) if paragraph.startswith("Example:") else prose(paragraph)
    listed = [param for param in command.params if not param.hidden and shown(param)]
    if listed:
        yield from ("", "| option | value | meaning |", "|---|---|---|", *map(row, listed))
    for below, one in inner.items():
        yield from section(f"{name} {below}", one)


def prose(text: str) -> str:
    """Return a paragraph with links to pages."""
    escaped = text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
    return re.sub(r"docs/([\w-]+)\.md", r"[\1](\1.md)", " ".join(escaped.split()))


def example(text: str) -> str:
    """Return the example of a help as a block of code."""
    return f"    {' '.join(text.removeprefix('Example:').split())}"


def shown(param: Any) -> bool:
    """Whether a parameter is the command's own and not Typer's."""
    return not str(param.name).endswith("_completion")


def row(param: Any) -> str:
    """Return the line of an argument or an option."""
    argument = param.param_type_name == "argument"
    name = param.metavar or str(param.name).upper()
    written = [name] if argument else [*param.opts, *param.secondary_opts]
    value = "" if argument or param.is_flag else param.metavar or kind(param)
    meaning = prose(param.help or "")
    if isinstance(param.show_default, str):
        meaning += f" ({param.show_default})"
    if param.required:
        meaning += " Required."
    return f"| {', '.join(f'`{one}`' for one in written)} | {value} | {meaning} |"


def kind(param: Any) -> str:
    """Return the type of an option's value."""
    of = param.type_descriptor.annotation
    of = next(iter(get_args(of)), of)  # of a list, what it lists
    return {int: "whole number", float: "number", Path: "path"}.get(of, "text")


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        print(page(), end="")
