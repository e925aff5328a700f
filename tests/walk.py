"""What pages tell readers to type: found, and run as a reader would, from top to bottom.

A page has commands (``lightloom ...`` or ``python FILE``, indented or in a fence of ``sh``), files
(a fence after a line that ends with their name in backticks and a colon), and in a fence of
``text`` right after commands what the last of them prints. ``<!-- not run: REASON -->`` holds for
what is left of its section, headings below it included. ``<!-- picture: FILE -->`` says which file
of a command the next picture is.

``python tests/walk.py PAGE ...`` runs pages, and writes what commands print, and the pictures, into
them anew.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
COMMAND = re.compile(r"(?:#? {2,}|\$ ?)((?:sudo )?(?:\.venv/bin/)?(?:lightloom|python) .*)")
PLAIN = re.compile(r"(?:sudo )?(?:lightloom|python) ")
MARK = re.compile(r"^<!-- not run: (.+?) -->$", re.MULTILINE)
PICTURE = re.compile(r"<!-- picture: (\S+) -->\n!\[[^\]]+\]\(([^)]+)\)")
NAMED = re.compile(r"`([\w./-]+\.\w+)`[^`]*:$")
WIDTH = 88
# Commands that become another program, which must not be the tests' own process.
DAEMON = ("controller", "ocs", "agent", "soak")


@dataclass(frozen=True)
class Step:
    """A command or a file of a page, why it is not run, and what is printed, line by line."""

    line: int
    text: str
    file: str = ""
    reason: str = ""
    printed: tuple[str, ...] | None = None
    at: tuple[int, int] = (0, 0)


class Fence(NamedTuple):
    language: str
    first: int
    lines: list[str]


def steps(path: Path) -> list[Step]:
    """Read the steps of a page, in order."""
    lines = path.read_text(encoding="utf-8").splitlines()
    found: list[Step] = []
    reason, depth, here = "", 0, 1
    number = 0
    while number < len(lines):
        line = lines[number]
        if mark := MARK.search(line):
            reason, depth = mark[1], here
        elif line.startswith("#") and path.suffix == ".md":
            here = len(line) - len(line.lstrip("#"))
            reason, depth = (reason, depth) if here > depth else ("", 0)
        if line.startswith("```"):
            end = next(n for n in range(number + 1, len(lines)) if lines[n].startswith("```"))
            fence = Fence(line[3:].strip(), number + 1, lines[number + 1 : end])
            add(found, fence, before(lines, number), reason)
            number = end
        elif match := COMMAND.match(line):
            text, number = joined(match[1], lines, number)
            found.append(Step(number + 1, text, reason=reason))
        number += 1
    return found


def add(found: list[Step], fence: Fence, above: tuple[int, str], reason: str) -> None:
    """Add what a fence holds: commands, a file, or what the command before it prints."""
    number, line = above
    if fence.language == "text" and found and found[-1].line >= number:
        span = (fence.first, fence.first + len(fence.lines))
        found[-1] = replace(found[-1], printed=tuple(fence.lines), at=span)
    elif named := NAMED.search(line):
        text = "\n".join(fence.lines) + "\n"
        found.append(Step(fence.first, text, file=named[1], reason=reason))
    elif fence.language in ("", "sh", "text"):
        at = 0
        while at < len(fence.lines):
            match = COMMAND.match(fence.lines[at])
            if match or PLAIN.match(fence.lines[at]):
                text, last = joined(match[1] if match else fence.lines[at], fence.lines, at)
                at = last
                found.append(Step(fence.first + at + 1, text, reason=reason))
            at += 1


def joined(text: str, lines: list[str], number: int) -> tuple[str, int]:
    """Join a command whose lines end with a backslash; return it and its last line's number."""
    while text.endswith("\\"):
        number += 1
        text = text[:-1] + lines[number].strip()
    return text, number


def before(lines: list[str], number: int) -> tuple[int, str]:
    """Return the number, from 1, and the text of the last line that is not empty."""
    while number and not lines[number - 1].strip():
        number -= 1
    return number, lines[number - 1] if number else ""


def pictures(path: Path) -> list[tuple[str, Path]]:
    """Return the pictures that commands of a page make: the file, and where the page has it."""
    text = path.read_text(encoding="utf-8")
    return [(made, path.parent / shown) for made, shown in PICTURE.findall(text)]


def walk(path: Path, place: Path) -> Iterator[tuple[Step, str]]:
    """Run what a page does not leave out, in an empty directory; yield what each step prints."""
    shutil.copytree(ROOT / "examples", place / "examples")
    found = steps(path)
    with contextlib.chdir(place):
        for step in found:
            if step.reason:
                continue
            if step.file:
                Path(step.file).parent.mkdir(parents=True, exist_ok=True)
                Path(step.file).write_text(step.text, encoding="utf-8")
            else:
                yield step, perform(step.text)


def perform(text: str) -> str:
    """Run a command and return what it prints; ends the test if it fails."""
    words = shlex.split(text, comments=True)
    target = None
    if words[-2:-1] == [">"]:
        target, words = words[-1], words[:-2]
    program = {"python": [], "lightloom": ["-m", "lightloom"]}.get(Path(words[0]).name)
    assert program is not None, f"cannot run {text}: mark it with the reason"
    if not program or words[1] in DAEMON:
        ran = subprocess.run(
            [sys.executable, *program, *words[1:]], capture_output=True, text=True, check=False
        )
        code, printed, said = ran.returncode, ran.stdout, ran.stderr
    else:
        from lightloom.cli import run

        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run(words[1:])
        printed, said = out.getvalue(), err.getvalue()
    assert code == 0, f"{text}: {said}"
    if target:
        Path(target).write_text(printed, encoding="utf-8")
    return printed


def refreshed(path: Path, place: Path) -> str:
    """Return a page with what its commands print, having copied its pictures."""
    lines = path.read_text(encoding="utf-8").splitlines()
    done = [(step, printed) for step, printed in walk(path, place) if step.printed is not None]
    for step, printed in reversed(done):
        lines[slice(*step.at)] = [line.rstrip() for line in printed.rstrip("\n").splitlines()]
    for made, shown in pictures(path):
        shutil.copyfile(place / made, shown)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    os.environ |= {"COLUMNS": str(WIDTH), "LIGHTLOOM_CACHE": "off", "MPLBACKEND": "Agg"}
    for page in map(Path, sys.argv[1:]):
        with tempfile.TemporaryDirectory() as directory:
            page.write_text(refreshed(page.resolve(), Path(directory)), encoding="utf-8")
