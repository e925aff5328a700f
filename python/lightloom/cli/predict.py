"""``lightloom predict``: how well the next gate is predicted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from lightloom.predict import Evaluation, LeftOut, Score

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
    traces: list[str] = typer.Argument(
        ...,
        metavar="TRACE...",
        help="A shipped trace (e8k2), a Parquet, NPZ or CSV file, or synthetic:KIND (drift, or a "
        "kind of `lightloom trace generate`). With several, or shipped for all that are: auto on "
        "each of them left out in turn.",
    ),
    window: int = typer.Option(16, "--window", help="Iterations that predictors look back."),
    decay: float = typer.Option(
        0.9, "--decay", help="Weight of an iteration beside the next one, above 0, at most 1."
    ),
    top: str | None = typer.Option(
        None, "--top", help="The k of top-k accuracy, with commas [1,2,4]."
    ),
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
    over that with circuits chosen from the truth. With several traces, auto's regret on each beside
    its bound.

    Example: lightloom predict evaluate e8k2 --decision algorithm-1
    """
    from lightloom import progress
    from lightloom.errors import InputError
    from lightloom.predict import evaluate, leave_out
    from lightloom.predict.left_out import shipped

    options: dict[str, Any] = {
        "window": window, "decay": decay, "model": model, "tensor_parallel": tp, "rows": rows,
        "decision": decision,
    }  # fmt: skip
    names = shipped(traces)
    if len(names) > 1:
        for flag, given in (("--top", top is not None), ("--layers", layers)):
            if given:
                raise InputError(f"{flag}: read only with one trace")
        with progress.runs(len(names)) as on_progress:
            left = leave_out(names, lambda at, share: on_progress(names[at], share), **options)
        if as_json:
            print(json.dumps([one.as_dict() for one in left], indent=2))
        else:
            _render_left_out(left)
        return
    try:
        tops = tuple(dict.fromkeys(int(k) for k in (top or "1,2,4").split(",")))
    except ValueError:
        raise InputError(f'--top "{top}": must be whole numbers with commas') from None
    with progress.runs(1) as on_progress:
        found = evaluate(
            names[0], tops=tops, progress=lambda share: on_progress(names[0], share), **options
        )
    if as_json:
        print(json.dumps(found.as_dict(), indent=2))
        return
    _render(found, layers)


def _render_left_out(left: list[LeftOut]) -> None:
    from lightloom import screen
    from lightloom.screen import Column

    def ratio(one: LeftOut, name: str) -> str:
        value = one.time_ratios[name]
        return "-" if value is None else f"{value:.3f}"

    rows = [
        [
            one.trace, one.best, f"{one.errors[one.best]:.4f}", one.named,
            f"{one.errors[one.named]:.4f}", f"{one.errors['auto']:.4f}", f"{one.regret:.5f}",
            f"{one.bound:.5f}", f"{one.worst:.4f}", ratio(one, one.best), ratio(one, "auto"),
        ]
        for one in left
    ]  # fmt: skip
    columns = [
        Column("trace left out", name=True), Column("best\non it", name=True),
        Column("\nerror", rank=4), Column("named by\nthe others", name=True, rank=2),
        Column("\nerror", rank=5), Column("auto's\nerror"), Column("auto's\nregret"),
        Column("bound as\nit went", "bound"), Column("bound of\nany trace", rank=3),
        Column("best over\nknown", rank=6), Column("auto over\nknown", rank=1),
    ]  # fmt: skip
    console = screen.console()
    screen.print_table(columns, rows, console)
    console.print()
    console.print("errors of the matrix that circuits see, means over all layers and iterations")


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
    console.print("auto is " + ", ".join(f"{who} {share:.1%}" for who, share in shares))
    regret = found.regret
    console.print(
        f"auto's mean error is {regret.errors['auto']:.4f}, {regret.best}'s, the least, "
        f"{regret.errors[regret.best]:.4f}: a regret of {regret.regret:.5f}, at most "
        f"{regret.bound:.5f} as it went, {regret.worst:.4f} on any such trace",
        soft_wrap=True,
    )
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
