"""``lightloom sql``: a question to the tables of Results, answered by DuckDB."""

from __future__ import annotations

import atexit
import csv
import gc
import json
import sys
from pathlib import Path
from typing import Any

import typer

from lightloom.cli import words

app = typer.Typer()


@app.command()
def sql(
    question: str = typer.Argument(..., metavar="SELECT", help="A query, as DuckDB reads it."),
    results: Path = typer.Option(Path("results"), "--in", help="Directory of the Results."),
    as_json: bool = words.JSON,
    as_csv: bool = typer.Option(False, "--csv", help="Print CSV."),
) -> None:
    """Ask the tables of all Results below a directory.

    Each Parquet file that Results have is a table: runs, points, links and so on, with the columns
    of all of them and the Result's directory as the column result. A path in quotes is one as well.

    Example: lightloom sql "select result, min(iteration_s) from runs group by result"
    """
    from lightloom import extras
    from lightloom.errors import InputError

    if as_json and as_csv:
        raise InputError("--json and --csv: two forms; allowed: one")
    try:
        import duckdb
    except ImportError:
        reason = f"sql: DuckDB is not installed: {extras.install('sql')}"
        raise InputError(reason) from None
    atexit.unregister(gc.freeze)  # what DuckDB holds must go at the end, or it complains
    with duckdb.connect() as base:
        for name in sorted({path.stem for path in results.glob("*/*.parquet")}):
            files = sorted(str(path) for path in results.glob(f"*/{name}.parquet"))
            found = base.read_parquet(files, union_by_name=True, filename=True)
            result = "regexp_replace(filename, '/[^/]*$', '') as result"
            found.project(f"{result}, * exclude (filename)").create_view(name)
        try:
            answer = base.sql(question)
            names = [] if answer is None else answer.columns
            rows = [] if answer is None else answer.fetchall()
        except duckdb.Error as error:
            raise InputError(f"sql: {' '.join(str(error).split())}") from None
    if as_json:
        told = [dict(zip(names, row, strict=True)) for row in rows]
        print(json.dumps(told, indent=2, default=str))
    elif as_csv:
        csv.writer(sys.stdout, lineterminator="\n").writerows([names, *rows])
    elif rows:
        _print(names, rows)


def _print(names: list[str], rows: list[tuple[Any, ...]]) -> None:
    from lightloom import screen
    from lightloom.sweeps.result import cell

    texts = [isinstance(value, str) for value in rows[0]]
    columns = [
        screen.Column(name, name=text, rank=at)
        for at, (name, text) in enumerate(zip(names, texts, strict=True))
    ]
    screen.print_table(columns, [list(map(cell, row)) for row in rows], screen.console())
