"""What ``lightloom`` says before a subcommand is known: its version, its help, a mistyped command.

Typer needs 0.1 s of CPU for each, most of it to load itself; here they take what Python takes to
start. The help is the one that Typer would print, byte for byte, on terminals and in pipes: tests
compare the two. Where that would need more than this file knows (a narrow or a dumb terminal, an
environment that asks for other colours, any other argument), Typer answers.
"""

from __future__ import annotations

import os
import sys

from lightloom.cli import COMMANDS
from lightloom.lazy import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ABOUT = "Design, simulate and run the reconfigurable networks of GPU clusters."
EXAMPLE = "lightloom compare mixtral-8x7b --gpus 1024"
TASKS = {
    "choose a fabric": "lightloom choose mixtral-8x7b --gpus 128 --budget 1M",
    "time collectives": "lightloom collective all-reduce --ranks 64",
    "price networks": "lightloom cost --gpus 1024 --fabrics fat-tree,mixnet",
    "plan switching": "lightloom plan alltoall --demand e32k4",
    "look at traffic": "lightloom trace show e8k2",
    "drive a switch": "lightloom controller serve examples/region.toml",
    "complete by Tab": "lightloom completion bash",
}
VERSION = "Print the version and exit."
DEBUG = "Show a traceback of what went wrong."

_OPTIONS = (
    ("--version", "", VERSION),
    ("--debug", "", DEBUG),
    ("--help", "-h", "Show this message and exit."),
)
_NARROW = 76  # below, the paragraphs above would need lines of their own
# What changes how Rich or Typer draw.
_ASKS = (
    *("FORCE_COLOR", "NO_COLOR", "PY_COLORS", "GITHUB_ACTIONS", "TTY_COMPATIBLE"),
    *("TERMINAL_WIDTH", "TYPER_USE_RICH", "_TYPER_FORCE_DISABLE_TERMINAL"),
)


def answer(arguments: Sequence[str]) -> int | None:
    """Answer a command line without Typer; returns the exit code, or None if Typer has to.

    Examples
    --------
    >>> answer(["--version"])  # doctest: +ELLIPSIS
    lightloom ...
    0
    >>> answer(["cost", "--help"])
    """
    if list(arguments) == ["--version"]:
        print_version()
        return 0
    if list(arguments) in (["--help"], ["-h"]):
        width = _width()
        if width is None:
            return None
        print(help_text(width, colour=sys.stdout.isatty()), end="\n\n")
        return 0
    if arguments and arguments[0] not in COMMANDS and not arguments[0].startswith("-"):
        print(f"error: {_unknown(arguments[0])} (see lightloom --help)", file=sys.stderr)
        return 2
    return None


def _unknown(name: str) -> str:
    """Say as Typer does that there is no such command, and which one may be meant."""
    from difflib import get_close_matches

    meant = ", ".join(map(repr, get_close_matches(name, COMMANDS)))
    return " ".join(
        f"No such command {name!r}{f'. Did you mean {meant}?' if meant else ''}".split()
    )


def print_version() -> None:
    """Print the version."""
    from lightloom import __version__

    print(f"lightloom {__version__}")


def tasks() -> str:
    """Return a command for each task, as the help lists them."""
    wide = max(map(len, TASKS))
    return "\n".join(
        ("By task:", *(f"  {task.ljust(wide)}  {command}" for task, command in TASKS.items()))
    )


def _dim(text: str) -> Iterator[tuple[str, str]]:
    """Yield parts of a line of the help, each with its code: options stand out."""
    yield " ", ""
    parts = text.split(" --")
    for at, part in enumerate(parts):
        option, blank, rest = part.partition(" ") if at else ("", "", part)
        if option:
            yield "-", "1;2;36"
            yield f"-{option}", "1;2;36"
        yield blank + rest + (" " if at + 1 < len(parts) else ""), "2"


def help_text(width: int, *, colour: bool) -> str:
    """Return the help of the command without a subcommand, as Typer draws it.

    Parameters
    ----------
    width
        Columns of the terminal.
    colour
        Whether escape sequences are wanted.
    """

    def ink(text: str, code: str) -> str:
        return f"\033[{code}m{text}\033[0m" if colour and code and text else text

    def panel(title: str, rows: Iterator[tuple[str, str]]) -> Iterator[str]:
        """Draw a box around rows of a left part, drawn already, and a text that may wrap."""
        rule = "─" * (width - len(title) - 6)
        yield "".join(ink(part, "2") for part in ("╭─", f" {title} ", rule, "─╮"))
        edge = ink("│", "2")
        for left, text in rows:
            yield f"{edge} {left} {text} {edge}"
        yield ink(f"╰{'─' * (width - 2)}╯", "2")

    def option_rows() -> Iterator[tuple[str, str]]:
        long, short = (max(len(option[at]) for option in _OPTIONS) for at in (0, 1))
        kind = ink("<", "1;2;33") + ink("bool", "1;33") + ink(">", "1;2;33")
        room = width - 4 - (long + 2 + short + 6 + len("<bool> ")) - 1
        for name, letter, text in _OPTIONS:
            names = ink("-", "1;36") + ink(name[1:], "1;36") + " " * (long - len(name) + 2)
            letters = ink(letter, "1;32") + " " * (short - len(letter) + 6)
            yield f"{names}{letters}{kind} ", text.ljust(room)

    def command_rows() -> Iterator[tuple[str, str]]:
        wide = max(map(len, COMMANDS))
        room = width - 4 - wide - 2
        for name, text in COMMANDS.items():
            left = ink(name.ljust(wide), "1;36") + ink(" ", "1;36")
            for line in _wrapped(text, room):
                yield left, line.ljust(room)
                left = ink(" " * (wide + 1), "1;36")

    def line(*parts: tuple[str, str]) -> str:
        """Draw texts, each with its code or none, and blanks up to the width."""
        rest = width - sum(len(text) for text, _ in parts)
        return "".join(ink(text, code) for text, code in parts) + " " * rest

    usage = "lightloom [OPTIONS] COMMAND [ARGS]..."
    rest = " " * (width - len(f" Usage: {usage} "))
    return "\n".join(
        (
            line((" " * width, "1")),
            line((" ", "1"), ("Usage: ", "1;33"), (usage, "1"), (rest, "1"), (" ", "1")),
            line((" " * width, "1")),
            line((f" {ABOUT}", "")),
            line(),
            line(*_dim(f"Example: {EXAMPLE}")),
            line(),
            *(line(*_dim(text)) for text in tasks().split("\n")),
            line(),
            *panel("Options", option_rows()),
            *panel("Commands", command_rows()),
        )
    )


def _wrapped(text: str, room: int) -> list[str]:
    """Break a text at blanks into lines of at most `room` characters.

    Examples
    --------
    >>> _wrapped("when they switch, and what is sent", 20)
    ['when they switch,', 'and what is sent']
    """
    lines: list[str] = []
    for word in text.split():
        if lines and len(lines[-1]) + 1 + len(word) <= room:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def _width() -> int | None:
    """Return the columns that Rich would take, or None where the help is not for this file."""
    out = sys.stdout
    if os.name != "posix" or any(name in os.environ for name in _ASKS):
        return None
    if (out.encoding or "").lower() not in ("utf-8", "utf8"):
        return None
    if out.isatty() and os.environ.get("TERM", "").lower() in ("", "dumb", "unknown"):
        return None
    width = 0
    for stream in (0, 1, 2):
        try:
            width = os.get_terminal_size(stream).columns
        except OSError:
            continue
        break
    columns = os.environ.get("COLUMNS", "")
    width = (int(columns) if columns.isdigit() else width) or 80
    return width if width >= _NARROW else None
