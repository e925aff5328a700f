"""The gRPC code that is checked in is that of the protocol beside it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DAEMON = Path(__file__).parents[1] / "crates" / "daemon"


def fields(text: str, pattern: str) -> set[tuple[str, str]]:
    """Names of fields and their tags."""
    return {(name.removeprefix("r#"), tag) for name, tag in re.findall(pattern, text)}


@pytest.mark.parametrize(
    ("name", "file", "service", "enum"),
    [
        ("control", "generated.rs", "Control", "STAGE_"),
        ("execution", "execution.rs", "Execution", "RUN_STAGE_"),
    ],
)
def test_the_generated_code_has_every_field(name: str, file: str, service: str, enum: str) -> None:
    """`make proto` was not forgotten: fields, messages, values and calls are the same."""
    proto = (DAEMON / "proto" / f"{name}.proto").read_text(encoding="utf-8")
    proto = re.sub(r"//.*", "", proto)
    code = (DAEMON / "src" / "proto" / file).read_text(encoding="utf-8")
    wanted = fields(proto, r"[\w.]+ (\w+) = (\d+);")
    parts = {(name.lower(), tag) for tag, name in re.findall(r'tag = "(\d+)"\)\]\s+(\w+)\(', code)}
    plain = {(name, tag) for tag, name in re.findall(r'tag = "(\d+)"[^)]*\)\]\s+pub (\w+):', code)}
    assert wanted == plain | parts
    for message in re.findall(r"message (\w+) \{", proto):
        assert f"pub struct {message} {{" in code
    for value, number in re.findall(rf"({enum}\w+) = (\d+)", proto):
        variant = value.removeprefix(enum).title().replace("_", "")
        assert re.search(rf"{variant} = {number}", code)
    for call in re.findall(r"rpc (\w+)\(", proto):
        assert f"/lightloom.{name}.v1.{service}/{call}" in code
