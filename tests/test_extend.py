"""What `docs/extend.md` adds is what it shows, and each example does what the page says.

Its Rust is compiled and run by `crates/sim/tests/extend`, its steps are followed in a copy of the
tree by `tests/soak/test_extend.py`. ``python tests/test_extend.py`` writes the cases anew that the
decision in Python and the one in Rust must agree on.
"""

from __future__ import annotations

import ast
import json
import random
import re
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "crates" / "sim" / "tests" / "extend"
CASES = EXAMPLES / "heaviest_first.json"


@dataclass(frozen=True)
class Block:
    """A block of code, its language, the file that the line before it names, and its section."""

    section: str
    language: str
    path: str
    text: str

    @property
    def example(self) -> Path:
        """Where the tests have the file: `crates/X/src/rule/y.rs` is `rule/y.rs`."""
        return EXAMPLES.joinpath(*Path(self.path).parts[3:])

    def added(self) -> list[str]:
        """Lines that a difference adds."""
        return [line[1:] for line in self.text.splitlines() if line.startswith("+")]

    def applied(self, before: str) -> str:
        """The file with the difference."""
        lines = self.text.splitlines(keepends=True)
        assert all(line[0] in " +" for line in lines)
        old = "".join(line[1:] for line in lines if line[0] == " ")
        assert before.count(old) == 1, f"{self.path} has not exactly one\n{old}"
        return before.replace(old, "".join(line[1:] for line in lines))


def blocks() -> list[Block]:
    text = (ROOT / "docs" / "extend.md").read_text(encoding="utf-8")
    found = []
    for section in text.split("\n## ")[1:]:
        title = section.splitlines()[0]
        for match in re.finditer(r"([^\n]*)\n\n```(\w+)\n(.*?)^```$", section, re.M | re.S):
            path = re.search(r"`([\w/.-]+\.\w+)`", match[1])
            language = match[2]
            named = path[1] if path and language in ("rust", "diff", "toml") else ""
            found.append(Block(title, language, named, match[3]))
    return found


BLOCKS = blocks()
FILES = [block for block in BLOCKS if block.language == "rust"]
LINES = [block for block in BLOCKS if block.language == "diff"]
PRESETS = [block for block in BLOCKS if block.language == "toml"]


def test_a_kind_is_a_file_a_line_and_at_most_a_preset() -> None:
    sections = {block.section for block in FILES}
    assert len(sections) == 4
    for section in sections:
        steps = [block for block in BLOCKS if block.section == section and block.path]
        kinds = [block.language for block in steps]
        assert sorted(kinds) in (["diff", "rust"], ["diff", "rust", "toml"])
        assert all(len(step.added()) == 1 for step in steps if step.language == "diff")


@pytest.mark.parametrize("block", FILES, ids=lambda block: block.path)
def test_a_file_is_the_one_that_is_tested(block: Block) -> None:
    text = block.example.read_text(encoding="utf-8")
    assert block.text.strip() == text.split("\n#[cfg(test)]\nmod tests")[0].strip()
    assert not (ROOT / block.path).exists()
    module = block.example.stem
    assert re.search(rf"mod {module};", (EXAMPLES / "main.rs").read_text(encoding="utf-8"))


@pytest.mark.parametrize("block", LINES, ids=lambda block: block.path)
def test_a_line_fits_its_list(block: Block) -> None:
    before = (ROOT / block.path).read_text(encoding="utf-8")
    assert block.applied(before).count("\n") == before.count("\n") + 1


@pytest.mark.parametrize("block", PRESETS, ids=lambda block: block.path)
def test_a_preset_has_the_keys_of_its_kind(block: Block) -> None:
    assert not (ROOT / block.path).exists() and (ROOT / block.path).parent.is_dir()
    table: Any = tomllib.loads(block.text)
    assert table.pop("source")
    while len(table) == 1:
        (table,) = table.values()
    (file,) = (other for other in FILES if other.section == block.section)
    listed = re.search(r"keys: &\[(.*?)\],\n    cap", file.text, re.S)
    assert listed is not None
    keys = re.findall(r'Key::new\(\s*"(\w+)"', listed[1]) + re.findall(r"\b[A-Z_]{4,}\b", listed[1])
    assert set(table) == {"kind", *(key.lower() for key in keys)}
    assert f'name: "{table["kind"]}"' in file.text


def cell(what: str) -> tuple[dict[str, Any], Any]:
    """Run a cell of the page as a notebook does; return its names, and what its last line is."""
    (block,) = (block for block in BLOCKS if block.section == f"A {what}, in a notebook")
    assert block.language == "python"
    code = ast.parse(block.text)
    last = code.body.pop()
    assert isinstance(last, ast.Expr)
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(code, "a cell", "exec"), names)
    return names, eval(compile(ast.Expression(last.value), "a cell", "eval"), names)


@pytest.mark.parametrize(
    ("what", "function"), [("decision", "heaviest_first"), ("load balancer", "shortest")]
)
def test_a_cell_shows_its_result(
    what: str, function: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names, result = cell(what)
    assert "<table" in result._repr_html_()
    assert function in " ".join(result.info["notes"])
    assert not list(tmp_path.iterdir())
    if what == "decision":
        for case in json.loads(CASES.read_text(encoding="utf-8")):
            assert answer(names[function], case) == case["circuits"]


def answer(decision: Any, case: dict[str, Any]) -> list[list[int]]:
    demand, ports = (np.array(case[key], dtype=np.int64) for key in ("demand", "ports"))
    return decision(demand, np.zeros_like(demand), ports, None).tolist()


def written() -> list[dict[str, Any]]:
    """Cases with many equal pairs, and the first by hand."""
    # 0 and 1 send most, then 1 and 2; what 0 and 1 have for a second circuit is less.
    cases: list[dict[str, Any]] = [
        {"demand": [[0, 9, 0], [7, 0, 5], [0, 4, 0]], "ports": [2, 2, 2]},
    ]
    draw = random.Random(1)
    for _ in range(30):
        n = draw.randint(1, 6)
        most = draw.choice([3, 30, 10**12])
        demand = [[0 if a == b else draw.randint(0, most) for b in range(n)] for a in range(n)]
        cases.append({"demand": demand, "ports": [draw.randint(0, 4) for _ in range(n)]})
    decision = cell("decision")[0]["heaviest_first"]
    return [case | {"circuits": answer(decision, case)} for case in cases]


def test_the_first_case_is_by_hand() -> None:
    first = json.loads(CASES.read_text(encoding="utf-8"))[0]
    # 16 bytes, then 9, then 8: each pair gets one, and the ports of server 1 are used.
    assert first["circuits"] == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]


if __name__ == "__main__":
    rows = ",\n".join(json.dumps(case) for case in written())
    CASES.write_text(f"[\n{rows}\n]\n", encoding="utf-8")
    sys.exit(0)
