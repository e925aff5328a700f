"""``lightloom jobs``: several jobs on one fabric."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from lightloom.cli import words

if TYPE_CHECKING:
    from lightloom.jobs import JobsResult

app = typer.Typer()


@app.command()
def jobs(
    file: Path = typer.Argument(
        ..., metavar="FILE", help="TOML: cluster, fabric, engine, and a table [[jobs]] each."
    ),
    settings: list[str] = words.SETTINGS,
    seed: int | None = words.SEED,
    engine: str | None = words.ENGINE,
    transport: str | None = words.TRANSPORT,
    balancer: str | None = words.BALANCER,
    out: Path | None = typer.Option(None, "--out", help="Directory of the Result (none)."),
    allow_oversize: bool = words.ALLOW_OVERSIZE,
    force: bool = words.FORCE,
    as_json: bool = words.JSON,
) -> None:
    """Run several jobs on one fabric: each alone, all together, all moved apart.

    Example: lightloom jobs examples/jobs.toml --set fabric.oversubscription=2.0 --json
    """
    from lightloom import progress
    from lightloom.cli import options
    from lightloom.jobs import JobsSpec, run_jobs

    given = options.settings(
        settings, seed=seed, engine=engine, transport=transport, balancer=balancer,
        allow_oversize=allow_oversize,
    )  # fmt: skip
    spec = JobsSpec.load(file, given, override_label="command line")
    with progress.runs(len(spec.jobs) + 2) as on_progress:
        result = run_jobs(
            spec,
            out=out,
            force=force,
            command=shlex.join(["lightloom", *sys.argv[1:]]),
            on_progress=on_progress,
        )
    if as_json:
        print(json.dumps({"rows": result.rows, "info": result.info}, indent=2))
        return
    _show(result)


def _show(result: JobsResult) -> None:
    from lightloom.cli import options
    from lightloom.jobs.result import HEADINGS, cells
    from lightloom.screen import Column

    ranks = {"on shared links GB": 2, "sent GB": 3, "start s": 4, "MFU %": 5, "a2a alone s": 1}
    ranks |= {"a2a together s": 1}
    names = ("job", "servers")
    columns = [
        Column(heading, name=heading in names, rank=ranks.get(heading, 0)) for heading in HEADINGS
    ]
    options.show_rows(result, columns, [cells(row) for row in result.rows])
