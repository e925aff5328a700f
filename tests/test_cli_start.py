"""How the command starts: the help that it draws without Typer, and what it does not load."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from lightloom.cli import COMMANDS, top

ROOT = Path(__file__).resolve().parents[1]
PLAIN = {key: value for key, value in os.environ.items() if key not in (*top._ASKS, "COLUMNS")}
TYPER = "from lightloom.cli.application import app; app(['--help'], 'lightloom')"


def python(code: str, **more: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], env=PLAIN | more, capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.mark.parametrize("width", [76, 80, 99, 200])
@pytest.mark.parametrize("colour", [False, True])
def test_the_help_is_the_one_that_typer_draws(width: int, colour: bool):
    asked = {"FORCE_COLOR": "1", "TERM": "xterm-256color"} if colour else {}
    drawn = python(TYPER, COLUMNS=str(width), **asked)
    assert f"{top.help_text(width, colour=colour)}\n\n" == drawn
    assert ("\033[" in drawn) == colour


def on_a_terminal(code: str, **more: str) -> str:
    """Run Python with a terminal of 24 x 90 for all three streams; return what it wrote."""
    ours, theirs = pty.openpty()
    # Without a window size a terminal says 0 columns.
    os.system(f"stty rows 24 cols 90 < {os.ttyname(theirs)}")
    program = [sys.executable, "-c", code]
    child = subprocess.Popen(program, env=PLAIN | more, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    said = b""
    while True:
        try:
            part = os.read(ours, 1 << 16)
        except OSError:  # the child has left
            break
        if not part:
            break
        said += part
    os.close(ours)
    assert child.wait() == 0
    return said.decode()


@pytest.mark.parametrize("term", ["xterm-256color", "dumb"])
def test_the_help_on_a_terminal_is_the_one_that_typer_draws(term: str):
    command = "import lightloom.cli as c; raise SystemExit(c.run(['-h']))"
    assert on_a_terminal(command, TERM=term) == on_a_terminal(TYPER, TERM=term)


@pytest.mark.parametrize(
    "more",
    [{"COLUMNS": "75"}, {"NO_COLOR": "1"}, {"FORCE_COLOR": "1"}, {"PYTHONIOENCODING": "latin-1"}],
    ids=str,
)
def test_typer_answers_where_the_help_would_be_another(more: dict[str, str]):
    command = "import sys, lightloom.cli as c; c.run(['--help']); assert 'typer' in sys.modules"
    assert python(command, **more) == python(TYPER, **more)


@pytest.mark.parametrize("name", ["simulat", "", "a\nb", "two  words", "-", "ü'"])
def test_a_mistyped_command_is_told_as_typer_tells_it(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    from lightloom.cli import run

    ours = run([name, "--help"]), capsys.readouterr()
    monkeypatch.setattr(top, "answer", lambda _: None)
    assert ours == (run([name, "--help"]), capsys.readouterr())
    assert ours[0] == 2


# A budget of CPU, kept by what is loaded: clocks differ from machine to machine.
HEAVY = ("typer", "rich", "pydantic", "numpy", "pyarrow", "matplotlib", "typing", "re", "inspect")


def loaded(*arguments: str) -> set[str]:
    """Run the command as its script does; return the modules that it loaded."""
    code = f"""
import atexit, sys
before = set(sys.modules)
sys.argv = ["lightloom", *{list(arguments)!r}]
atexit.register(lambda: print(*(set(sys.modules) - before)))
from lightloom.cli import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code], env=PLAIN, capture_output=True, text=True)
    assert done.returncode in (0, 2) and "Traceback" not in done.stderr
    return set(done.stdout.splitlines()[-1].split())


def test_a_mistyped_command_is_told_without_typer():
    assert loaded("simulat").isdisjoint(set(HEAVY) - {"re"})  # which finds what is meant


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["-h"]], ids=str)
def test_what_needs_no_subcommand_loads_next_to_nothing(arguments: list[str]):
    found = loaded(*arguments)
    assert found.isdisjoint(HEAVY)
    ours = {name for name in found if name.partition(".")[0] == "lightloom"}
    allowed = {"lightloom", "lightloom.cli", "lightloom.cli.top", "lightloom.errors"}
    assert ours <= allowed | {"lightloom.lazy", "lightloom._core"}
    assert ("lightloom._core" in ours) == (arguments == ["--version"])
    assert len(found) < 16


def test_resolving_a_specification_loads_neither_tables_nor_drawings():
    example = str(ROOT / "examples" / "mixnet.toml")
    found = loaded("spec", "resolve", example)
    assert found.isdisjoint(("numpy", "pyarrow", "matplotlib", "rich", "rich.console"))
    ours = {name for name in found if name.startswith("lightloom.")}
    for room in ("simulation", "comparison", "report", "store", "trace", "plan", "papers"):
        assert not any(name.split(".")[1] == room for name in ours), room


PLAN = "plan collective --algorithm ring-allreduce --nodes 8 --size 64MB"


@pytest.mark.parametrize("command", ["cost", "cost --json", PLAN, f"{PLAN} --json"])
def test_what_only_counts_loads_neither_tables_nor_drawings(command: str):
    assert loaded(*command.split()).isdisjoint(("numpy", "pyarrow", "matplotlib"))


@pytest.mark.parametrize("package", ["plan", "trace"])
def test_a_package_loads_what_it_is_asked_for(package: str):
    code = f"""
import sys, lightloom.{package} as package
print(not any(heavy in sys.modules for heavy in ("numpy", "pyarrow")))
print(*(name for name in package.__all__ if not hasattr(package, name)))
"""
    assert python(code).split() == ["True"]


def test_a_command_does_not_look_for_plugins_of_pydantic():
    """It would read the metadata of every package that is installed."""
    code = """
import importlib.metadata, sys
def looked(**_):
    raise SystemExit("looked for plugins")
importlib.metadata.entry_points = looked
sys.argv = ["lightloom", "spec", "resolve", "mixtral-8x7b"]
from lightloom.cli import main
main()
"""
    assert "fabric.kind = " in python(code)


def test_a_command_hardly_looks_for_garbage():
    """What it loads lives until it ends; by default Python looks for garbage in it 80 times."""
    code = """
import atexit, gc, sys
def count():
    print(sum(generation["collections"] for generation in gc.get_stats()))
from lightloom.cli import main
before = sum(generation["collections"] for generation in gc.get_stats())
atexit.register(lambda: print(before))
atexit.register(count)
sys.argv = ["lightloom", "spec", "resolve", "mixtral-8x7b"]
main()
"""
    *_, after, before = python(code).splitlines()
    assert int(after) - int(before) <= 3


def test_every_command_has_its_file():
    for name in COMMANDS:
        place = ROOT / "python" / "lightloom" / "cli" / name
        assert place.with_suffix(".py").is_file() or (place / "__init__.py").is_file(), name
