"""``lightloom memory``: what a job's GPUs hold, by component and stage, and whether it fits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer

from lightloom.cli import words

if TYPE_CHECKING:
    from lightloom.memory import Held, Stage

app = typer.Typer()


@app.command()
def memory(
    job: str = typer.Argument(
        ..., metavar="JOB", help="A model preset, a specification (TOML) or a config.json."
    ),
    gpus: int | None = words.GPUS,
    settings: list[str] = words.SETTINGS,
    as_json: bool = words.JSON,
) -> None:
    """Show what a job's GPUs hold, by component and stage, and whether it fits.

    Of each stage it is the fullest moment of an iteration. A job that does not fit is shown, too.

    Example: lightloom memory mixtral-8x7b --gpus 128 --set training.recompute=full

    Example, to see whether a model fits: lightloom memory deepseek-v3 --gpus 2048
    """
    from lightloom import memory as held
    from lightloom.cli import options
    from lightloom.errors import InputError
    from lightloom.resolve import load_job

    overrides = options.settings(settings, gpus=gpus)
    shown = {**overrides, "memory.oversize": "allow"}
    scenario = load_job(job, shown, override_label="command line").scenario
    try:
        found = held.held(scenario)
    except ValueError as error:
        raise InputError(f"{job}: {error}") from None
    if as_json:
        print(json.dumps(_as_json(found), indent=2))
        return
    _print(found, scenario.title.partition(" on ")[0], scenario.training.recompute)


def _as_json(found: Held) -> dict[str, object]:
    return {
        "recompute": found.recompute,
        "fits": found.fits,
        "capacity_bytes": found.capacity,
        "fullest": found.fullest.stage,
        "stages": [
            {
                "stage": stage.stage,
                "in_flight": stage.in_flight,
                "total_bytes": stage.total,
                "bytes": {name: size for name, size in stage.parts.items() if size},
            }
            for stage in found.stages
        ],
    }


def _print(found: Held, title: str, asked: str) -> None:
    from lightloom import screen
    from lightloom.memory import GIB, NAMES
    from lightloom.screen import Column

    console = screen.console()
    open_ = " (untimed: the least that fits)" if asked == "untimed" else ""
    console.print(f'{title}: GiB a GPU by stage, training.recompute = "{found.recompute}"{open_}')
    groups = list(_alike(found))
    at = next(i for i, (_, stage) in enumerate(groups) if stage is found.fullest)
    # Where there is no room, the stages next to the fullest one go first, and its own never.
    ends = (0, len(groups) - 1)
    columns = [
        Column("", name=True),
        *(
            Column(name, rank=0 if i == at else 1 if i in ends else 2 + len(groups) - abs(i - at))
            for i, (name, _) in enumerate(groups)
        ),
    ]
    stages = [stage for _, stage in groups]
    rows = [
        [NAMES[part], *(f"{s.parts[part] / GIB:.2f}" if s.parts[part] else "-" for s in stages)]
        for part in NAMES
        if any(stage.parts[part] for stage in stages)
    ]
    rows.append(["all", *(f"{stage.total / GIB:.2f}" for stage in stages)])
    rows.append(["chunks in flight", *(str(stage.in_flight) for stage in stages)])
    screen.print_table(columns, rows, console)
    if found.capacity is None:
        console.print("the GPU's memory is not known: compute.memory")
        return
    room = found.capacity - found.fullest.total
    verdict = f"fits, {room / GIB:.1f} GiB free" if found.fits else "does not fit"
    console.print(
        f"stage {found.fullest.stage} holds most: {found.fullest.total / GIB:.1f} of "
        f"{found.capacity / GIB:.1f} GiB, {verdict}"
    )


def _alike(found: Held) -> Iterator[tuple[str, Stage]]:
    """Yield stages in a row that hold the same as one, with what to call them."""
    at = 0
    while at < len(found.stages):
        first, end = found.stages[at], at + 1
        while end < len(found.stages) and (
            (found.stages[end].parts, found.stages[end].in_flight) == (first.parts, first.in_flight)
        ):
            end += 1
        shown = found.fullest if found.fullest.stage in range(at, end) else first
        yield (str(at) if end == at + 1 else f"{at}-{end - 1}", shown)
        at = end
