"""``lightloom completion``: what is offered, and that bash, zsh and fish offer it."""

from __future__ import annotations

import os
import pty
import re
import select
import shlex
import shutil
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from fixtures.commands import commands
from lightloom import Scenario, presets
from lightloom.cli import COMMANDS, names, run
from lightloom.cli.candidates import candidates
from lightloom.keys import keys, values
from lightloom.trace import builtin_names

TREE = commands()
# Where the program of this Python is: shells call it by its name.
PROGRAM = Path(sys.executable).parent


def offered(line: str) -> list[str]:
    return [found.word for found in candidates(line)]


@pytest.mark.parametrize("path", ["", *TREE])
def test_commands_and_options_of_every_command(path: str) -> None:
    command = TREE.get(path)
    inner = COMMANDS if command is None else getattr(command, "commands", {})
    line = f"lightloom {path} ".replace("  ", " ")
    if inner:
        assert set(offered(line)) == set(inner)
        first = min(inner)
        assert first in offered(line + first[:-1])
    found = set(offered(f"{line}--"))
    assert "--help" in found
    for param in command.params if command else ():
        if param.param_type_name == "option" and not param.hidden:
            assert set(param.opts) - {one for one in param.opts if one[:2] != "--"} <= found


def test_every_entry_of_the_names_is_of_a_parameter_and_offers_some() -> None:
    known = {f"{path} {param.name}" for path, command in TREE.items() for param in command.params}
    known |= {name.rpartition(" ")[2] for name in known}
    assert [name for name in (*names.NAMES, *names.ROWS) if name not in known] == []
    for name, given in names.NAMES.items():
        assert list(given()) or name == "trace generate workload", name


def test_presets_fabrics_and_traces() -> None:
    models = set(presets.names("models"))
    for command in ("compare", "choose", "simulate", "cost", "memory", "sweep", "spec resolve"):
        assert set(offered(f"lightloom {command} ")) == models, command
    assert offered("lightloom compare mixtral-8x7") == ["mixtral-8x7b"]
    assert offered("lightloom collective all-reduce --fabric mixnet-u") == ["mixnet-unplugged"]
    assert offered("lightloom compare x --fabrics mixnet,rail-") == [
        "mixnet,rail-only", "mixnet,rail-optimized"
    ]  # fmt: skip
    for command in ("trace show", "trace widen", "predict evaluate", "predict evaluate e8k2"):
        assert set(offered(f"lightloom {command} ")) == set(builtin_names()), command
    assert offered("lightloom compare x --traces builtin,zipf-s") == ["builtin,zipf-sender"]


def test_a_file_is_left_to_the_shell() -> None:
    assert offered("lightloom simulate job") == offered("lightloom report ") == []
    assert offered("lightloom compare mixtral-8x7b ") == offered("lightloom nonsense ") == []


def test_open_quotations_and_options_before_the_command() -> None:
    assert offered("lightloom --debug comp") == ["compare", "completion", "compute"]
    assert offered('lightloom simulate x --set "training.recompute=sel') == [
        "training.recompute=selective"
    ]
    assert offered("lightloom simulate --set seed=2 mixtral-8x22") == ["mixtral-8x22b"]


def test_keys_are_read_by_a_specification() -> None:
    """A key that no specification knew would be offered in vain."""
    assert offered("lightloom sweep x --over training.micro_b") == [
        "training.micro_batch=", "training.micro_batches="
    ]  # fmt: skip
    assert len(keys()) > 200
    for key in keys():
        assert run(["spec", "resolve", "mixtral-8x7b", "--set", f"{key}=xyzzy", "--json"]) in (0, 2)


@pytest.mark.parametrize("key", [key for key in keys() if values(key)])
def test_values_are_what_the_specification_allows(
    key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each is accepted, or refused for another key's sake, but never as a value that is unknown."""
    for value in values(key):
        if run(["spec", "resolve", "mixtral-8x7b", "--set", f"{key}={value}", "--json"]) == 2:
            said = capsys.readouterr().err
            unread = "unknown key" in said or "missing" in said or "read only" in said
            assert unread or "no such" not in said, said


def test_scenarios_of_each_fabric_have_only_keys_that_are_offered() -> None:
    """Of whatever fabric and engine."""

    def leaves(tree: object, above: str) -> list[str]:
        if isinstance(tree, dict) and tree:
            return [leaf for key, of in tree.items() for leaf in leaves(of, f"{above}.{key}")]
        return [] if tree is None else [above[1:]]

    # Tables by rate or by item are values of one key.
    whole = ("prices.", "power.", "money.", "gating.knobs", "compute.", "failures", "fabric.links")
    for fabric in presets.names("fabrics"):
        if fabric == "planes":
            continue
        tree = Scenario.preset("mixtral-8x7b", gpus=128, fabric=fabric).to_tree()
        missing = [key for key in leaves(tree, "") if key not in keys()]
        assert [key for key in missing if not key.startswith(whole)] == [], fabric


def environment(home: Path) -> dict[str, str]:
    """Leave out the user's files; this Python's ``lightloom`` is on the PATH."""
    path = f"{PROGRAM}:/usr/bin:/bin"
    return {"PATH": path, "HOME": str(home), "TERM": "xterm", "LC_ALL": "C.UTF-8"}


def shell(*command: str, tmp_path: Path) -> str:
    done = subprocess.run(
        command, env=environment(tmp_path), cwd=tmp_path, capture_output=True, text=True,
        timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


LINES = {
    "lightloom comple": ["completion"],
    "lightloom trace sh": ["show"],
    "lightloom cost --fabrics fat-tree,mixnet-u": ["fat-tree,mixnet-unplugged"],
    "lightloom memory mixtral-8x22": ["mixtral-8x22b"],
}
SET = "lightloom simulate mixtral-8x7b --set training.recompute=s"


def test_in_bash(tmp_path: Path) -> None:
    def completed(line: str) -> list[str]:
        script = f"""
eval "$(lightloom completion bash)"
compopt() {{ :; }}  # known only while a word is completed
COMP_LINE={shlex.quote(line)} COMP_POINT={len(line)}
_lightloom lightloom
printf '%s\\n' "${{COMPREPLY[@]}}"
complete -p lightloom >&2
"""
        return shell("bash", "--norc", "-c", script, tmp_path=tmp_path).split()

    for line, expected in LINES.items():
        assert completed(line) == expected
    # What stands before "=" is a word of its own to bash.
    assert completed(SET) == ["selective"]
    assert completed("lightloom simulate x --set fabric.tier") == ["fabric.tiers="]


@pytest.mark.skipif(shutil.which("fish") is None, reason="needs fish")
def test_in_fish(tmp_path: Path) -> None:
    def completed(line: str) -> list[str]:
        script = f"lightloom completion fish | source; complete --do-complete {shlex.quote(line)}"
        out = shell("fish", "--no-config", "-c", script, tmp_path=tmp_path)
        return [found.partition("\t")[0] for found in out.splitlines()]

    for line, expected in LINES.items():
        assert completed(line) == expected
    assert completed(SET) == ["training.recompute=selective"]
    (tmp_path / "own.toml").touch()
    assert completed("lightloom simulate ow") == ["own.toml"]


@pytest.mark.skipif(shutil.which("zsh") is None, reason="needs zsh")
def test_in_zsh(tmp_path: Path) -> None:
    """At a terminal of its own, in which Tab is pressed, and then a key that says the line."""
    (tmp_path / ".zshrc").write_text(
        "autoload -Uz compinit; compinit -u -D; PS1='ready> '\n"
        'eval "$(lightloom completion zsh)"\n'
        'said() { print -r -- "<<$BUFFER>>"; BUFFER=; zle accept-line }\n'
        "zle -N said; bindkey '^X' said\n"
    )
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (50, 200))
    child = subprocess.Popen(
        ["zsh", "-d", "-i"], env=environment(tmp_path), cwd=tmp_path,
        stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)

    def until(end: str) -> str:
        said = ""
        while not re.search(end, said):
            assert select.select([ours], [], [], 120)[0], said
            said += os.read(ours, 1 << 16).decode()
        return said

    def completed(line: str) -> str:
        os.write(ours, f"{line}\t\x18".encode())
        return re.findall(r"<<(.*?)>>", until("<<.*>>"))[-1].strip()

    try:
        until("ready> ")
        for line, expected in LINES.items():
            assert completed(line).split()[-1] == expected[0]
        assert completed(SET).endswith("--set training.recompute=selective")
        assert completed("lightloom simulate x --set fabric.tier").endswith("fabric.tiers=")
        (tmp_path / "own.toml").touch()
        assert completed("lightloom simulate ow").endswith(" own.toml")
    finally:
        child.kill()
        child.wait()
        os.close(ours)


def test_the_scripts_ask_the_program_that_is_called(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("bash", "zsh", "fish"):
        assert run(["completion", name]) == 0
        out = capsys.readouterr().out
        assert f"completion {name} --line" in out and str(PROGRAM) not in out
