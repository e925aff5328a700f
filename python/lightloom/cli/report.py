"""``lightloom report``: rebuild the report of a Result from its tables."""

from __future__ import annotations

import json
from pathlib import Path

import typer

app = typer.Typer()


@app.command()
def report(
    result: Path = typer.Argument(metavar="RESULT", help="A Result directory."),
    out: Path | None = typer.Option(
        None, "--out", help="Where to write; by default the Result directory."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON: the files that were written."),
) -> None:
    """Rebuild the HTML page, the pictures and the Perfetto timeline of a Result.

    Nothing is simulated; the numbers are those of the Result.

    Example: lightloom report results/compare-mixtral-8x7b
    """
    from lightloom.errors import Interrupted
    from lightloom.report import Result, build_report, render_compare

    opened = Result.open(result)
    try:
        written = build_report(opened, out)
    except KeyboardInterrupt as error:
        kept = f"{result} is whole but for its report, which the same command draws"
        raise Interrupted(kept) from error
    if as_json:
        print(json.dumps({"title": opened.title, "files": [str(path) for path in written]}))
        return
    print(opened.title)
    render_compare(opened.runs)
    for path in written:
        print(path)
