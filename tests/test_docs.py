"""The documentation is true: its examples run, its commands exist, its links lead somewhere."""

from __future__ import annotations

import doctest
import re
import shlex
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer.main
import walk
from lightloom import presets
from lightloom.cli import COMMANDS
from lightloom.cli.options import settings
from lightloom.resolve import load_job

ROOT = Path(__file__).parents[1]


def tracked() -> list[Path]:
    """The files of the repository: git's list, or in an unpacked archive everything not hidden."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode == 0 and listed.stdout:
        names = listed.stdout.rstrip("\0").split("\0")
        return [ROOT / name for name in names if (ROOT / name).is_file()]
    made = {"target", "results", "dist"}
    return [
        path
        for path in sorted(ROOT.rglob("*"))
        if path.is_file()
        and not any(p.startswith(".") or p in made for p in path.relative_to(ROOT).parts)
    ]


FILES = tracked()
PAGES = [path for path in FILES if path.suffix == ".md"]
# Pages that say what to type.
GUIDES = [
    p
    for p in PAGES
    if p.parent in (ROOT, ROOT / "docs", ROOT / "docs" / "howto", ROOT / "examples")
]


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", GUIDES, ids=name)
def test_examples_in_python_run(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What looks like a Python session gives what the page says it gives."""
    monkeypatch.chdir(tmp_path)
    # A fence ends the expected output of the last example.
    text = re.sub(r"^ *```.*$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    test = doctest.DocTestParser().get_doctest(text, {}, name(path), name(path), 0)
    failed, _ = doctest.DocTestRunner().run(test)
    assert not failed


def commands(path: Path) -> list[tuple[int, str]]:
    """Command lines of a page or a specification's comments: line number and text."""
    lines = path.read_text(encoding="utf-8").splitlines()
    found = []
    for number, line in enumerate(lines):
        match = re.match(r"(?:#? {2,}|\$ ?)(?:\.venv/bin/)?(lightloom .*)", line)
        if match or (line.startswith("lightloom ") and fenced(lines, number)):
            text = match[1] if match else line
            while text.endswith("\\"):
                number += 1
                text = text[:-1] + lines[number].strip()
            found.append((number + 1, text))
    return found


def fenced(lines: list[str], number: int) -> bool:
    return sum(line.lstrip().startswith("```") for line in lines[:number]) % 2 == 1


# For kinds that docs/extend.md adds: kinds of their families that are there.
STAND_INS = {"heaviest-first": "matchings", "away": "flowlets", "one-switch": "dragonfly"}


@pytest.mark.parametrize(
    "path",
    [*GUIDES, *sorted((ROOT / "examples").glob("*.toml"))],
    ids=name,
)
def test_commands_exist(path: Path) -> None:
    """Subcommands, options and arguments are understood, and specifications resolve with them."""
    written = {step.file for step in walk.steps(path)}
    for number, text in commands(path):
        if path.name == "extend.md":
            for added, stands_in in STAND_INS.items():
                text = text.replace(added, stands_in)
        words = shlex.split(text, comments=True)[1:]
        if words[-1:] == ["&"]:
            words.pop()  # it goes on while the next are run
        if words[-2:-1] == [">"]:
            words = words[:-2]
        try:
            values = parsed(words)
        except Exception as error:
            said = error.format_message() if hasattr(error, "format_message") else error
            raise AssertionError(f"{name(path)}, line {number}: {text}: {said}") from None
        written.add(str(values.get("out")))
        job = values.get("job")
        if job and (job in presets.names("models") or job.startswith("examples/")):
            given = settings(values["settings"])
            if values.get("gpus"):
                given["cluster.gpus"] = values["gpus"]
            for key in ("gating.trace", "money.file"):
                if given.get(key) in written:  # by a command above, or shown by the page
                    del given[key]
            load_job(job if job in presets.names("models") else str(ROOT / job), given)


def parsed(words: list[str]) -> dict[str, Any]:
    """Parse a command line without running it; returns the values of its parameters."""
    if words[0].startswith("-"):
        assert words in (["--version"], ["--help"])
        return {}
    assert words[0] in COMMANDS, f"no command {words[0]}"
    command: Any = typer.main.get_command(import_module(f"lightloom.cli.{words[0]}").app)
    rest = words[1:]
    while hasattr(command, "commands"):
        assert rest and rest[0] in command.commands, f"no command {' '.join(words[:2])}"
        command, rest = command.commands[rest[0]], rest[1:]
    context = command.make_context("lightloom", list(rest))
    return dict(context.params)


def test_a_wrong_command_would_be_found() -> None:
    for words in (["compare", "x", "--fabric", "y"], ["comparison"], ["trace", "draw"], ["report"]):
        with pytest.raises(Exception, match=r"."):
            parsed(words)


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_links_lead_somewhere(path: Path) -> None:
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        page, _, heading = target.partition("#")
        there = (path.parent / page).resolve() if page else path
        assert there.exists(), f"{name(path)}: {target}"
        assert there.is_relative_to(ROOT), f"{name(path)}: {target}: outside the repository"
        if heading:
            assert heading in headings(there), f"{name(path)}: {target}: no such heading"


def headings(path: Path) -> set[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    titles = [line.lstrip("# ") for line in lines if line.startswith("#")]
    return {re.sub(r"[^\w\- ]", "", title).strip().lower().replace(" ", "-") for title in titles}


def test_the_glossary_is_in_order_and_whole() -> None:
    """Words stand in alphabetical order, and a word in italics has an entry."""
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1:3] for line in text.splitlines() if line.startswith("| ")][1:]
    words = [word.strip().lower() for word, _ in rows]
    assert words == sorted(set(words))
    named = {name.lower() for _, meaning in rows for name in re.findall(r"\*(\S[^*]*)\*", meaning)}
    assert not {
        name
        for name in named
        if not {name, name.removesuffix("s"), name.removesuffix("es")} & set(words)
    }


@pytest.mark.parametrize(
    ("page", "script"),
    [(page, [f"{page}.py"]) for page in ("specification", "commands", "columns")]
    + [(page, ["tables.py", page]) for page in ("prediction", "rails", "traces")]
    + [(page, ["listed.py", page]) for page in ("api", "alarms", "rust")],
)
def test_what_is_written_from_the_code_is_current(page: str, script: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, *script], cwd=ROOT / "docs", capture_output=True, encoding="utf-8",
        check=True,
    )  # fmt: skip
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    assert done.stdout == text, f"run: python docs/{script[0]} --write"


# Written in pieces, so that this file is none of those that it looks for. Where controllers put the
# tokens that they make is a place on every machine.
ELSEWHERE = re.compile(
    "|".join(
        [
            r"(?<![\w.~])/(?:wo" r"rk|ro" r"ot|ho" r"me/\w+|Use" r"rs/\w+)(?:/|\b)",
            r"(?<![\w.~])/tm" r"p(?!/lightloom-)(?:/|\b)",
            r"\b(?:py" r"pi|crates|python" r"hosted|go" r"lang)\.(?:org|io)\b",
            r"\bsha" r"red/(?:design|papers|data)\b",
            r"\bind" r"ex-url\s*=",
        ]
    )
)
# Written by cargo, which names its default registry.
LOCKS = {"Cargo.lock"}


def test_nothing_points_at_the_machine_it_was_made_on() -> None:
    found = []
    for path in FILES:
        if path.name in LOCKS or path.suffix in (".parquet", ".png"):
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            match = ELSEWHERE.search(line)
            if match:
                found.append(f"{name(path)}:{number}: {match[0]}")
    assert found == []
