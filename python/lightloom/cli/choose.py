"""``lightloom choose``: which fabric to buy for a job, within a budget, and why."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from lightloom.cli import words

if TYPE_CHECKING:
    from lightloom.choice import Choice
    from lightloom.scenario import Scenario

app = typer.Typer()

# Rows of the table of smaller budgets.
_LESS = 6


@app.command()
def choose(
    job: str = typer.Argument(
        ..., metavar="MODEL", help="A model preset, a specification (TOML) or a config.json."
    ),
    budget: str = typer.Option(..., "--budget", help="US dollars for the network: 15M, 500k."),
    gpus: int | None = words.GPUS,
    goal: str = typer.Option(
        "tokens-per-dollar",
        "--goal",
        help="tokens-per-dollar (of the cluster), time, or cost: the cheapest network that is "
        "nearly as fast.",
    ),
    within: float = typer.Option(
        0.05, "--within", help="Of --goal cost: how much slower still is nearly as fast, a share."
    ),
    fabrics: str | None = words.FABRICS,
    bandwidth: str | None = words.BANDWIDTH,
    parallelism: str = typer.Option(
        "any", "--parallelism", help="any: the fastest layout on each fabric; own: the job's."
    ),
    finalists: int = typer.Option(5, "--finalists", help="Candidates that the flow engine runs."),
    confirm: str | None = typer.Option(
        None, "--confirm", help="packet: run pick and runner-up by packets, one micro-batch."
    ),
    settings: list[str] = words.SETTINGS,
    out: Path | None = typer.Option(
        None, "--out", help="Directory of the answer (results/choose-MODEL-GPUS-DIGEST)."
    ),
    force: bool = words.FORCE,
    as_json: bool = words.JSON,
) -> None:
    """Choose a fabric for a job, within a budget, and say why.

    Every fabric, rate and parameter that presets name is priced; those within the budget are rated
    by a closed form; the flow engine runs the best few with all micro-batches.

    Example: lightloom choose mixtral-8x7b --gpus 128 --budget 500k

    Example, to find the cheapest network that is nearly as fast: lightloom choose mixtral-8x7b
    --gpus 128 --budget 500k --goal cost --within 0.1
    """
    from lightloom import progress, store
    from lightloom.choice.confirm import by_packets
    from lightloom.choice.search import BANDWIDTHS, fitting, usd
    from lightloom.choice.search import choose as search
    from lightloom.cli import options
    from lightloom.errors import InputError
    from lightloom.resolve import load_job

    if confirm not in (None, "packet"):
        raise InputError(f'--confirm "{confirm}": must be packet')
    dollars = usd(budget, "--budget")
    overrides = options.settings(settings, gpus=gpus)

    def make(more: Mapping[str, Any]) -> Scenario:
        return load_job(job, {**overrides, **more}, override_label="command line").scenario

    base = fitting(make) if parallelism == "any" else make({})
    rates = options.bandwidths(bandwidth) if bandwidth else list(BANDWIDTHS)
    named = options.fabrics(fabrics)
    what = (budget, goal, str(within), parallelism, str(finalists), *rates, *(named or ()))
    name = f"choose-{base.model.name}-{base.cluster.gpus}"
    place = out or store.default_place(name, base.to_toml(), *what)
    store.check_place(place, force=force or out is None)
    with progress.runs(finalists) as on_progress:
        found = search(
            base,
            budget=dollars,
            goal=goal,  # type: ignore[arg-type]
            within=within,
            fabrics=named,
            bandwidths=rates,
            parallelism=parallelism,
            finalists=finalists,
            command=shlex.join(["lightloom", *sys.argv[1:]]),
            on_progress=on_progress,
        )
        if confirm:
            found = by_packets(found, on_progress)
    found = found.save(place, force=force or out is None)
    if as_json:
        print(json.dumps(found.to_json(), indent=2))
        return
    _show(found)


def _show(found: Choice) -> None:
    from lightloom import screen
    from lightloom.choice.page import HEADINGS, cells
    from lightloom.screen import Column

    console = screen.console()
    console.print(f"{found.title}\n")
    for line in found.reason:
        console.print(line)
    console.print()
    ranks = {"closed form [s]": 2, "iteration [s]": 1}
    columns = [
        Column(heading, name=heading == "candidate", rank=ranks.get(heading, 0))
        for heading in HEADINGS
    ]
    screen.print_table(columns, [cells(one) for one in found.finalists], console)
    for line in found.confirmed:
        console.print(line)
    if found.reversals:
        console.print("\nWhat would reverse it:")
        for reversal in found.reversals:
            console.print(f"  {reversal}")
    less = found.frontier()[1 : 1 + _LESS]
    if less:
        console.print("\nFor less, by the closed form:")
        for one in less:
            assert one.network_usd is not None
            console.print(
                f"  {one.network_usd / 1e6:.2f} M$: {one.candidate}, "
                f"{one.tokens_per_s / 1e3:,.0f} k tokens/s"
            )
    console.print()
    for line in found.searched:
        console.print(line)
    console.print(f"\nresult in {found.directory}\nopen {found.directory}/report.html")
