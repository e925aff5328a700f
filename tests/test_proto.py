"""The gRPC code that is checked in is that of the protocol beside it."""

from __future__ import annotations

import re
from pathlib import Path

DAEMON = Path(__file__).parents[1] / "crates" / "daemon"


def fields(text: str, pattern: str) -> set[tuple[str, str]]:
    """Names of fields and their tags."""
    return {(name.removeprefix("r#"), tag) for name, tag in re.findall(pattern, text)}


def test_the_generated_code_has_every_field() -> None:
    """`make proto` was not forgotten: fields, messages, values and calls are the same."""
    proto = (DAEMON / "proto" / "control.proto").read_text(encoding="utf-8")
    proto = re.sub(r"//.*", "", proto)
    code = (DAEMON / "src" / "proto" / "generated.rs").read_text(encoding="utf-8")
    wanted = fields(proto, r"[\w.]+ (\w+) = (\d+);")
    parts = {(name.lower(), tag) for tag, name in re.findall(r'tag = "(\d+)"\)\]\s+(\w+)\(', code)}
    plain = {(name, tag) for tag, name in re.findall(r'tag = "(\d+)"[^)]*\)\]\s+pub (\w+):', code)}
    assert wanted == plain | parts
    for message in re.findall(r"message (\w+) \{", proto):
        assert f"pub struct {message} {{" in code
    for value, number in re.findall(r"(STAGE_\w+) = (\d+)", proto):
        assert re.search(rf"{value.removeprefix('STAGE_').title()} = {number}", code)
    for call in re.findall(r"rpc (\w+)\(", proto):
        assert f"/lightloom.control.v1.Control/{call}" in code
