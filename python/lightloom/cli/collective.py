"""``lightloom collective``: one collective by itself, on any fabric, transport and engine."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from lightloom.cli import words

if TYPE_CHECKING:
    from lightloom.collectives import CollectiveResult

app = typer.Typer()


@app.command()
def collective(
    primitive: str = typer.Argument(
        ...,
        metavar="PRIMITIVE",
        help="all-to-all, all-reduce, reduce-scatter, all-gather or broadcast.",
    ),
    ranks: int | None = typer.Option(
        None, "--ranks", help="GPUs that take part (64, or as many as the matrix has)."
    ),
    size: str | None = typer.Option(
        None,
        "--size",
        metavar="SIZES",
        help="Of a rank's buffer, as nccl-tests count it: 64MiB, 1MiB,1GiB or 1MiB..1GiB (16MiB).",
    ),
    fabric: str | None = typer.Option(None, "--fabric", help="A fabric's preset (fat-tree)."),
    bandwidth: str | None = typer.Option(
        None, "--bandwidth", help="Link rate, in Gbps where no unit is given."
    ),
    algorithm: str | None = typer.Option(
        None,
        "--algorithm",
        help="One of docs/collectives.md (the quickest by closed form; direct).",
    ),
    matrix: Path | None = typer.Option(
        None,
        "--matrix",
        help="Bytes from each rank to each other: CSV, .npy, .npz, Parquet, or a trace (e64k4).",
    ),
    program: Path | None = typer.Option(
        None, "--program", help="An MSCCL program (XML), or a plan of lightloom plan."
    ),
    circuits: Path | None = typer.Option(
        None, "--circuits", help="Circuits that stand: a CSV of server,server[,circuits]."
    ),
    spec: Path | None = typer.Option(
        None, "--spec", help="A specification (TOML) of cluster, fabric, engine, collective."
    ),
    settings: list[str] = words.SETTINGS,
    seed: int | None = words.SEED,
    engine: str | None = words.ENGINE,
    transport: str | None = words.TRANSPORT,
    balancer: str | None = words.BALANCER,
    jobs: int | None = typer.Option(None, "--jobs", min=1, help="Sizes run beside each other."),
    threads: int = words.THREADS,
    out: Path | None = typer.Option(None, "--out", help="Directory of the Result (none)."),
    force: bool = words.FORCE,
    as_json: bool = words.JSON,
) -> None:
    """Run one collective by itself: time, bandwidths, the bound, the link that binds.

    Example: lightloom collective all-reduce --ranks 64 --fabric mixnet --size 1MiB..1GiB

    Example, to send what a gate decided: lightloom collective all-to-all --fabric mixnet
    --matrix e64k4 --ranks 64
    """  # fmt: skip
    from lightloom import collectives, progress
    from lightloom.cli import options
    from lightloom.collectives.run import sizes

    rates = options.bandwidths(bandwidth) if bandwidth is not None else [None]
    if len(rates) != 1:
        from lightloom.errors import InputError

        raise InputError(f'--bandwidth "{bandwidth}": must be one rate')
    given = options.settings(
        settings, seed=seed, ranks=ranks, size=size, fabric=fabric, bandwidth=rates[0],
        engine=engine, transport=transport, balancer=balancer, algorithm=algorithm,
        matrix=_text(matrix), program=_text(program), circuits=_text(circuits),
    )  # fmt: skip
    size = given.pop("collective.size", None)
    count = len(sizes(size)) if size is not None else 1
    with progress.runs(count) as on_progress:
        result = collectives.collective(
            primitive, size=size, spec=spec, settings=given, out=out, force=force, jobs=jobs,
            threads=threads, command=shlex.join(["lightloom", *sys.argv[1:]]),
            on_progress=on_progress,
        )  # fmt: skip
    if as_json:
        print(json.dumps({"rows": result.rows, "info": result.info}, indent=2))
        return
    _show(result)


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _show(result: CollectiveResult) -> None:
    from lightloom.cli import options
    from lightloom.collectives.result import HEADINGS, cells
    from lightloom.screen import Column

    ranks = {"bound us": 3, "of bound": 1, "link": 2, "used": 4}
    columns = [
        Column(heading, left=heading == "link", name=heading == "link", rank=ranks.get(heading, 0))
        for heading in HEADINGS
    ]
    options.show_rows(result, columns, [cells(row) for row in result.rows])
