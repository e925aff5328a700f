"""Halve and double each constant that is in Rust, and put the table into docs/constants.md.

``git worktree add TREE``, then ``python reproduce/constants.py TREE``. In TREE every constant of
`lightloom.studies.constants.listed.SOURCE` becomes a question that is asked when the core runs, it
is built once, and the figures that a constant may reach are made with each value. Nothing of that
is left elsewhere. Without TREE: only the table, from docs/data/constants.json.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from lightloom.papers.part import markdown
from lightloom.studies.constants.figures import FIGURES
from lightloom.studies.constants.listed import SOURCE, Source
from lightloom.studies.constants.table01 import changed, effects

DOCS = Path(__file__).parents[1] / "docs"
DATA = DOCS / "data" / "constants-in-rust.json"
BEGIN, END = "<!-- in Rust: begin -->\n", "<!-- in Rust: end -->\n"


def asked(text: str, at: int, one: Source) -> str:
    """Return a file's text in which a constant is asked for when it is read."""
    before, after = one.line.split("{}")
    chosen = (
        f'match std::env::var("CONSTANT").as_deref() {{ Ok("{at} halved") => {one.halved}, '
        f'Ok("{at} doubled") => {one.doubled}, _ => {one.value} }}'
    )
    const = re.fullmatch(r"(pub )?const (\w+): (\w+) = ", before)
    if not const:
        return text.replace(f"{before}{one.value}{after}", f"{before}{chosen}{after}", 1)
    public, name, kind = const.groups()
    definition = (
        f"#[allow(non_snake_case)] {public or ''}fn {name}() -> {kind} {{ static CHOSEN: "
        f"std::sync::LazyLock<{kind}> = std::sync::LazyLock::new(|| {chosen}); *CHOSEN }}"
    )
    head, tail = text.split(f"{before}{one.value}{after}")
    uses = rf"(?<![\w`\[]){name}\b(?!\()"
    return re.sub(uses, f"{name}()", head) + definition + re.sub(uses, f"{name}()", tail)


def build(tree: Path) -> None:
    """Make the core of a checkout ask for its constants."""
    # Values in expressions first: those of constants that have a name may be spoken of there.
    for at, one in sorted(enumerate(SOURCE), key=lambda pair: "const " in pair[1].line):
        place = tree / "crates" / one.file
        place.write_text(asked(place.read_text("utf-8"), at, one), "utf-8")
    subprocess.run(["make", "build"], cwd=tree, check=True)


def figure(tree: Path, name: str, constant: str) -> float:
    """Return a figure with one constant changed."""
    script = (
        "from lightloom.studies.constants.figures import FIGURES\n"
        f"print(FIGURES[{name!r}].seconds({{}}))"
    )
    found = subprocess.run(
        [tree / ".venv/bin/python", "-c", script], cwd=tree, check=True, stdout=subprocess.PIPE,
        env={**os.environ, "CONSTANT": constant, "LIGHTLOOM_CACHE": "off"}, text=True,
    )  # fmt: skip
    return float(found.stdout)


def main(tree: Path | None) -> None:
    """Make what is asked for."""
    if tree is not None:
        build(tree)
        usual = {name: FIGURES[name].seconds({}) for one in SOURCE for name in one.figures}
        rows = []
        for at, one in enumerate(SOURCE):
            for name in one.figures:
                then = [figure(tree, name, f"{at} {how}") for how in ("halved", "doubled")]
                rows.append([f"{one.name}: {one.about}", name, usual[name], *then])
                print(*rows[-1], flush=True)
        DATA.write_text("[\n  " + ",\n  ".join(map(json.dumps, rows)) + "\n]\n", "utf-8")
    kept = {(where, figure): times for where, figure, *times in json.loads(DATA.read_text("utf-8"))}
    lines = []
    for one in SOURCE:
        found = []
        for name in one.figures:
            before, *then = kept[f"{one.name}: {one.about}", name]
            found.append((name, " / ".join(changed(before, time) for time in then)))
        lines.append((f"`{one.name}`", one.about, one.value, effects(found)))
    page = DOCS / "constants.md"
    head, _, rest = page.read_text("utf-8").partition(BEGIN)
    table = markdown(("constant", "about", "as it is", "halved / doubled, %"), lines)
    page.write_text(f"{head}{BEGIN}{table}{END}{rest.partition(END)[2]}", "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve() if sys.argv[1:] else None)
