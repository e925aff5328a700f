"""``lightloom predict``: how well the next gate is predicted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from lightloom.predict import Evaluation, Score

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Predict what the next gate will decide, for circuits that are set before it has.\n\n"
    "Example: lightloom predict evaluate e8k2",
)


@app.callback()
def predict() -> None:
    """Predict what the next gate will decide, for circuits that are set before it has.

    Example: lightloom predict evaluate e8k2
    """


@app.command("evaluate")
def evaluate_command(
    trace: str = typer.Argument(
        ...,
        metavar="TRACE",
        help="A shipped trace (e8k2), a Parquet, NPZ or CSV file, or synthetic:KIND (drift, or a "
        "kind of `lightloom trace generate`).",
    ),
    window: int = typer.Option(16, "--window", help="Iterations that predictors look back."),
    decay: float = typer.Option(
        0.9, "--decay", help="Weight of an iteration beside the next one, above 0, at most 1."
    ),
    top: str = typer.Option("1,2,4", "--top", help="The k of top-k accuracy, with commas."),
    model: str | None = typer.Option(
        None,
        "--model",
        help="Preset whose EP and TP degrees place the ranks [one with as many experts].",
    ),
    tp: int | None = typer.Option(None, "--tp", help="Another TP degree [the preset's]."),
    rows: str = typer.Option(
        "own",
        "--rows",
        help="What circuits are chosen from: own (a prediction of every rank's row) or alike (the "
        "predicted loads, for all ranks).",
    ),
    decision: str = typer.Option(
        "timed",
        "--decision",
        help="How circuits are chosen: timed (by the time of the whole all-to-all) or algorithm-1.",
    ),
    layers: bool = typer.Option(False, "--layers", help="Show each layer, too."),
    as_json: bool = typer.Option(
        False, "--json", help="Print JSON, without times of this machine: it repeats exactly."
    ),
) -> None:
    """Score predictors of expert loads on a trace, and time what their errors cost.

    Top-k accuracy and errors of the loads; the all-to-all with circuits chosen from the prediction
    over that with circuits chosen from the truth.

    Example: lightloom predict evaluate e8k2 --decision algorithm-1
    """
    from lightloom import progress
    from lightloom.errors import InputError
    from lightloom.predict import evaluate

    try:
        tops = tuple(dict.fromkeys(int(k) for k in top.split(",")))
    except ValueError:
        raise InputError(f'--top "{top}": must be whole numbers with commas') from None
    with progress.runs(1) as on_progress:
        found = evaluate(
            trace, window=window, decay=decay, tops=tops, model=model, tensor_parallel=tp,
            rows=rows, decision=decision, progress=lambda share: on_progress(trace, share),
        )  # fmt: skip
    if as_json:
        print(json.dumps(found.as_dict(), indent=2))
        return
    _render(found, layers)


def _render(found: Evaluation, layers: bool) -> None:
    from rich.text import Text

    from lightloom import screen
    from lightloom.screen import Column

    console = screen.console()
    iterations, deep, sources, experts = found.shape
    region = found.region
    ranks = f"{region.ranks} EP ranks x {region.tensor_parallel} GPUs on {region.servers} servers"
    console.print(
        Text(
            f"{found.trace}: {iterations} iterations x {deep} layers x {sources} sources x "
            f"{experts} experts; {ranks}{f' ({region.model})' if region.model else ''}"
        ),
        soft_wrap=True,
    )
    columns = [
        Column("predictor", name=True),
        *(Column(f"top-{k}", rank=2 if at else 0) for at, k in enumerate(found.scores[0].accuracy)),
        Column("load\nerror"), Column("matrix\nerror"),
        Column("all-to-all\nover known", "all-to-\nall over\nknown"),
        Column("ports\nchanged", rank=3), Column("ms a load", rank=4),
        Column("ms a matrix", rank=5),
    ]  # fmt: skip
    table: list[list[str] | None] = []
    if layers:
        columns.insert(0, Column("layer"))
        for at, scores in enumerate(found.layers):
            table += [*([str(at), *_cells(score)] for score in scores), None]
    table += [[*(["mean"] if layers else []), *_cells(score)] for score in found.scores]
    console.print()
    screen.print_table(columns, table, console)
    console.print()
    trusted = found.score("auto").by
    shares = sorted(trusted.items(), key=lambda item: -item[1])
    console.print("auto went by " + ", ".join(f"{who} {share:.0%}" for who, share in shares))
    if found.known_s:
        console.print(f"all-to-all with circuits from the truth: {1e3 * found.known_s:.4g} ms")
    console.print("means are over all layers but the first, from the second iteration on")
    for note in found.notes:
        console.print(f"note: {note}", style="dim")


def _cells(score: Score) -> list[str]:
    ratio = "-" if score.time_ratio is None else f"{score.time_ratio:.3f}"
    return [
        score.predictor,
        *(f"{share:.3f}" for share in score.accuracy.values()),
        f"{score.load_error:.3f}",
        f"{score.matrix_error:.3f}",
        ratio,
        f"{score.changed_ports:.1f}",
        f"{score.fit_ms:.2f}",
        f"{score.rows_ms:.2f}",
    ]
