"""The help of every command: 80 columns, examples that are understood, colours only if wanted."""

from __future__ import annotations

import re

import pytest
from fixtures.commands import commands, examples, words
from lightloom.cli import COMMANDS, run
from lightloom.cli.application import load

TREE = commands()


def shown(path: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert run([*path.split(), "--help"]) == 0
    return capsys.readouterr().out


def test_the_tree_is_whole() -> None:
    assert set(COMMANDS) <= set(TREE) and len(TREE) > 80


@pytest.mark.parametrize("path", TREE)
def test_it_fits_80_columns_and_has_examples(
    path: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = shown(path, capsys)
    assert max(map(len, text.splitlines())) <= 80 and "…" not in text
    inner = getattr(TREE[path], "commands", {})
    of = {path, *(f"{path} {name}" for name in inner)}
    found = examples(TREE[path].help)
    assert found and all(
        any(f"{one} ".startswith(f"lightloom {name} ") for name in of) for one in found
    )
    for example in found:  # in the terminal as it can be pasted
        told = " ".join(text.replace("\\", " ").split())
        assert example in told, told
    for name in inner:
        assert f"│ {name} " in text


# Each would need a file that a user has, or a switch that is there: to understand it is enough.
@pytest.mark.parametrize(
    "example", sorted({one for path in TREE for one in examples(TREE[path].help)})
)
def test_an_example_is_understood(example: str) -> None:
    name, *rest = words(example)
    command = load(name)
    while rest and rest[0] in getattr(command, "commands", {}):
        name, command = rest[0], command.commands[rest[0]]
        rest = rest[1:]
    if getattr(command, "commands", {}) and not rest:
        return
    command.make_context(name, list(rest)).close()


@pytest.mark.parametrize("path", TREE)
def test_no_colour_if_none_is_wanted(
    path: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weight may stay (no-color.org speaks of colours): 30 to 49 and 90 to 107 may not."""
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr("typer.rich_utils.FORCE_TERMINAL", True)
    codes = re.findall(r"\033\[([0-9;]*)m", shown(path, capsys))
    assert codes, "as on a terminal"
    coloured = [
        n for code in codes for n in code.split(";") if re.fullmatch(r"[34]\d|9\d|10[0-7]", n)
    ]
    assert coloured == []


def test_a_mistyped_name_of_anything_says_what_is_meant(capsys: pytest.CaptureFixture[str]) -> None:
    for line, meant in {
        "simulat": "Did you mean 'simulate'?",
        "trace sho": "Did you mean 'show'?",
        "testbed fault cabl": "Did you mean 'cable'?",
        "compare mixtral-8x7b --gpu 8": "--gpus",
        "compare mixtral8x7b": 'did you mean "mixtral-8x7b"?',
        "compare mixtral-8x7b --fabrics mixnt": 'did you mean "mixnet"?',
        "simulate mixtral-8x7b --set fabric.tier=2": 'did you mean "tiers"?',
        "cost --set fabric.preset=mixnet --set fabric.ocs.device=polaris": "polatis",
        "simulate mixtral-8x7b --set gating.trace=zipf-reciever": 'did you mean "zipf-receiver"?',
        "simulate mixtral-8x7b --set compute.table=paper_profile": 'did you mean "paper-profile"?',
        "trace show e8k2x": 'did you mean "e8k2"?',
        "predict evaluate e6k4": "e64k4",
        "trace generate zipf-reciever --experts 8 --out t": 'did you mean "zipf-receiver"?',
        "study reconfiguraton": 'did you mean "reconfiguration"?',
        "reproduce mixnett": 'did you mean "mixnet"?',
        "completion bsh": 'did you mean "bash"?',
        "plan collective --algorithm ring-alreduce --nodes 8 --size 1MB": "ring-allreduce",
        "rails --schemes rail": 'did you mean "rails"?',
    }.items():
        assert run(words(f"lightloom {line}")) == 2, line
        said = capsys.readouterr()
        assert meant in said.err and said.out == "" and said.err.count("\n") == 1, said.err
