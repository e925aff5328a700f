"""``lightloom parallelism``: how a job may lie on its GPUs, and which layouts are fastest."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from lightloom.cli import words

if TYPE_CHECKING:
    from lightloom.layouts import Chosen, Rated
    from lightloom.scenario import Scenario

app = typer.Typer()

# Rows of the table behind those that the engine ran.
_MORE = 5


@app.command()
def parallelism(
    job: str = typer.Argument(
        ..., metavar="MODEL", help="A model preset, a specification (TOML) or a config.json."
    ),
    gpus: int | None = words.GPUS,
    gpu: str | None = typer.Option(None, "--gpu", help="A GPU preset (h100 unless the job says)."),
    best: int = typer.Option(10, "--best", min=0, max=100, help="Layouts that the engine runs."),
    settings: list[str] = words.SETTINGS,
    as_json: bool = words.JSON,
) -> None:
    """List how a job may lie on its GPUs, with memory and time, the fastest layout first.

    Every legal layout that fits is sorted by a closed form; the flow engine runs the best of them.

    Example: lightloom parallelism mixtral-8x7b --gpus 128 --gpu h100
    """
    from lightloom import layouts
    from lightloom.cli import options
    from lightloom.resolve import load_job

    overrides = options.settings(settings, gpus=gpus)
    if gpu is not None:
        overrides["compute.gpu"] = gpu

    def make(values: Mapping[str, Any]) -> Scenario:
        both = {**overrides, **values}
        return load_job(job, both, override_label="command line").scenario

    chosen = layouts.choose(make, best=best)
    if as_json:
        print(json.dumps(_as_json(chosen), indent=2))
        return
    _print(chosen)


def _as_json(chosen: Chosen) -> dict[str, Any]:
    return {
        "legal": chosen.legal,
        "fitting": chosen.fitting,
        "capacity_bytes": chosen.capacity,
        "reason": chosen.reason,
        "layouts": [
            {
                **one.layout.degrees,
                "fits": one.fits,
                "memory_bytes": one.memory,
                "recompute": one.recompute,
                "tokens": one.tokens,
                "estimate_s": one.estimate_s,
                "iteration_s": one.iteration_s,
                "tokens_per_s_per_gpu": one.pace / chosen.gpus,
                "mfu": chosen.mfu(one),
            }
            for one in chosen.rated
        ],
    }


def _print(chosen: Chosen) -> None:
    from lightloom import screen
    from lightloom.memory import GIB
    from lightloom.screen import Column

    console = screen.console()
    ran = [one for one in chosen.rated if one.iteration_s is not None]
    shown = chosen.rated[: len(ran) + _MORE]
    names = ("tp", "cp", "ep", "etp", "pp")
    columns = [
        *(Column(name) for name in names),
        Column("GiB a GPU"),
        Column("fits"),
        Column("recompute", rank=2),
        Column("estimate [s]", rank=3),
        Column("iteration [s]", rank=1),
        Column("tokens/s a GPU"),
        Column("MFU [%]", rank=2),
    ]
    rows = [_row(one, names, chosen, GIB) for one in shown]
    screen.print_table(columns, rows, console)
    left = len(chosen.rated) - len(shown)
    if left:
        console.print(f"{left} more by the closed form alone (--json lists all)")
    console.print(chosen.reason)


def _row(one: Rated, names: tuple[str, ...], chosen: Chosen, gib: int) -> list[str]:
    degrees = one.layout.degrees
    return [
        *(str(degrees.get(name, "-")) for name in names),
        f"{one.memory / gib:.1f}",
        "yes" if one.fits else "no",
        one.recompute,
        f"{one.estimate_s:.3f}",
        "-" if one.iteration_s is None else f"{one.iteration_s:.3f}",
        f"{one.pace / chosen.gpus:.0f}",
        f"{100 * chosen.mfu(one):.1f}",
    ]
