"""Write docs/columns.md: every column of every Parquet table that a command writes.

Small runs write the tables, so that names and types are theirs; meanings are in
`data/columns.toml`, and one that is missing or left over is an error. ``python docs/columns.py``
prints the page, ``--write`` puts it in place. Checked: ``tests/test_reference.py``.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from lightloom.cli import run

HERE = Path(__file__).resolve().parent
PAGE = HERE / "columns.md"
MEANINGS = HERE / "data" / "columns.toml"
JOB = ("mixtral-8x7b", "--gpus", "128")
ONE = ("--set", "training.micro_batches=1")
# The commands that write tables, as small as they go.
COMMANDS: dict[str, tuple[tuple[str, ...], ...]] = {
    "compare": (
        (
            "compare",
            *JOB,
            "--bandwidth",
            "400",
            "--fabrics",
            "fat-tree,mixnet",
            *ONE,
            "--seeds",
            "2",
        ),
    ),
    "choose": (
        ("choose", *JOB, "--fabrics", "fat-tree", "--bandwidth", "400", *ONE, "--budget", "10M"),
    ),
    "sweep": (("sweep", "mixtral-8x7b", "--over", "seed=1,2", *ONE, "--set", "cluster.gpus=128"),),
    "jobs": (("jobs", str(HERE.parent / "examples" / "jobs.toml")),),
    "collective": (
        ("collective", "all-to-all", "--ranks", "16", "--size", "64KiB"),
        ("collective", "all-to-all", "--ranks", "16", "--size", "64KiB", "--engine", "packet"),
    ),
    "rails": (("rails", "--domains", "2", "--schemes", "rails,ecmp"),),
    "trace": (
        (
            "trace",
            "generate",
            "uniform",
            "--experts",
            "8",
            "--sources",
            "8",
            "--top-k",
            "2",
            "--iterations",
            "2",
        ),
    ),
}


def written(place: Path) -> dict[str, dict[str, pa.Schema]]:
    """Run the commands; return the columns of each table, by command."""
    found: dict[str, dict[str, pa.Schema]] = {}
    for name, lines in COMMANDS.items():
        found[name] = {}
        for at, line in enumerate(lines):
            out = place / f"{name}{at}{'.parquet' if name == 'trace' else ''}"
            said = io.StringIO()
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                code = run([*line, "--out", str(out)])
            if code:
                raise SystemExit(f"{' '.join(line)}: {said.getvalue()}")
            for path in [out] if out.is_file() else sorted(out.glob("*.parquet")):
                table = "trace" if out.is_file() else path.stem
                fields = {f.name: f for f in pq.read_schema(path).remove_metadata()}
                before = {f.name: f for f in found[name].get(table, ())}
                found[name][table] = pa.schema(list((before | fields).values()))
    return found


def page() -> str:
    """Return the whole page."""
    known = tomllib.loads(MEANINGS.read_text(encoding="utf-8"))
    unused = {("columns", name) for name in known["columns"]}
    unused |= {(table, name) for table in known["tables"] for name in own(known, table)}
    with tempfile.TemporaryDirectory() as place:
        found = written(Path(place))
    lines = [
        "# Columns of tables",
        "",
        "<!-- Written by docs/columns.py. -->",
        "",
        "A Result's directory holds a Parquet file a table; pandas, polars and DuckDB read them,",
        "and `lightloom sql` asks them. Names end with the unit: `_ps`, `_s`, `_bytes`, `_usd`.",
        "Equal specifications and seeds give equal bytes.",
    ]
    for command, tables in found.items():
        lines += ["", f"## lightloom {command}"]
        for table, schema in tables.items():
            # A table that means something else by one command stands under both names.
            of = f"{command}-{table}" if f"{command}-{table}" in known["tables"] else table
            lines += ["", f"### {command}: {table}", "", known["tables"][of]["about"], ""]
            lines += [
                "| column | type | meaning |",
                "|---|---|---|",
                *rows(known, of, schema, unused),
            ]
    if unused:
        raise SystemExit(f"{MEANINGS.name}: no such columns: {sorted(unused)}")
    return "\n".join(lines) + "\n"


def own(known: Mapping[str, Any], table: str) -> Iterator[str]:
    """Name the columns whose meaning is a table's own."""
    return (name for name in known["tables"][table] if name not in ("about", "more"))


def rows(
    known: Mapping[str, Any], table: str, schema: pa.Schema, unused: set[tuple[str, str]]
) -> Iterator[str]:
    """Give the lines of a table, and strike what is used from `unused`."""
    more = known["tables"][table].get("more", {})
    if any("." in field.name for field in schema):
        key = "Every key of the [specification](specification.md), by its path."
        yield f"| `KEY` | of the value | {key} |"
    for field in schema:
        if "." in field.name or (table == "sweep-runs" and field.name == "failures"):
            continue  # a key
        pattern = next((one for one in more if fnmatch(field.name, one)), "")
        if pattern:
            meaning = more[pattern]
        elif field.name in own(known, table):
            meaning = known["tables"][table][field.name]
            unused.discard((table, field.name))
        elif field.name in known["columns"]:
            meaning = known["columns"][field.name]
            unused.discard(("columns", field.name))
        else:
            raise SystemExit(f"{MEANINGS.name}: nothing says what {table}.{field.name} means")
        yield f"| `{field.name}` | {kind(field.type)} | {meaning} |"


def kind(of: pa.DataType) -> str:
    """Return the name of a type, as a reader of the table sees it."""
    if pa.types.is_dictionary(of):
        return "string"
    if pa.types.is_list(of):
        return f"list of {kind(of.value_type)}"
    return str(of)


if __name__ == "__main__":
    os.environ["LIGHTLOOM_CACHE"] = "off"
    text = page()
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(text, encoding="utf-8")
    else:
        print(text, end="")
