"""``lightloom trace``: record, import, generate, widen and show gating traces."""

from __future__ import annotations

import inspect
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from lightloom.trace.place import check_place
from lightloom.trace.synthetic import GENERATORS, KINDS, Shape, generate

if TYPE_CHECKING:
    from lightloom.trace import GatingTrace, ServerSkew

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Record, import, generate, widen and show gating traces.\n\n"
    "Example: lightloom trace show e8k2 --out pictures",
)

OUT = typer.Option(..., "--out", metavar="FILE", help="The trace to write (Parquet).")
JSON = typer.Option(False, "--json", help="Print the summary as JSON.")


@app.command("record")
def record_command(
    experts: int = typer.Option(8, help="Experts of each layer."),
    top_k: int = typer.Option(2, help="Experts that a token chooses."),
    sources: int = typer.Option(8, help="Source ranks, each with its own shard of the text."),
    layers: int = typer.Option(8, help="MoE layers."),
    iterations: int = typer.Option(200, help="Training steps to record."),
    warmup: int = typer.Option(100, help="Training steps before the first recorded one."),
    seed: int = typer.Option(1, help="Of the weights and of the order of the text."),
    sequences: int = typer.Option(8, help="Sequences of one source in one step."),
    context: int = typer.Option(128, help="Tokens of a sequence."),
    hidden: int = typer.Option(64, help="Width of the model."),
    heads: int = typer.Option(2, help="Attention heads."),
    intermediate: int = typer.Option(64, help="Width of an expert."),
    vocabulary: int = typer.Option(1024, help="Token ids; 256 of them are single bytes."),
    learning_rate: float = typer.Option(2e-3, help="Adam's step."),
    balance: float = typer.Option(0.01, help="Weight of the load-balancing loss; 0: none."),
    threads: int = typer.Option(1, help="CPU threads; part of what makes it repeatable."),
    device: str = typer.Option("cpu", help="cpu, cuda or cuda:N."),
    text: Path | None = typer.Option(
        None, help="File or directory to train on [the Python standard library's sources]."
    ),
    out: Path = OUT,
    as_json: bool = JSON,
) -> None:
    """Train a small MoE language model and record where its gates send tokens.

    Needs PyTorch (pip install 'torch>=2.4'); a CPU is enough. Ctrl-C saves what has been
    recorded so far.

    Example: lightloom trace record --experts 8 --top-k 2 --sources 8 --layers 8 --iterations 200
    --seed 1 --out mine.parquet
    """
    from lightloom.errors import RunError
    from lightloom.trace.record import Recording, record

    recording = Recording(
        experts=experts,
        top_k=top_k,
        sources=sources,
        layers=layers,
        iterations=iterations,
        warmup=warmup,
        seed=seed,
        sequences=sequences,
        context=context,
        hidden=hidden,
        heads=heads,
        intermediate=intermediate,
        vocabulary=vocabulary,
        learning_rate=learning_rate,
        balance=balance,
        threads=threads,
        device=device,
    )
    check_place("--out", out)
    progress = Progress(warmup, iterations)
    trace = record(recording, text, progress)
    progress.end()
    _finish(trace, out, as_json)
    if trace.iterations < iterations:
        raise RunError(f"interrupted: {out} holds {trace.iterations} of {iterations} iterations")


@app.command("import")
def import_command(
    file: Path = typer.Argument(..., help="CSV, NPZ, Parquet, JSONL, or a directory of ids."),
    format: str = typer.Option("auto", help="auto (by the ending), csv, npz, parquet or jsonl."),
    stage: str | None = typer.Option(
        None, help="Stage of CSV expert loads [the only one there is, or decoder]."
    ),
    sources: int | None = typer.Option(
        None, help="Source ranks to spread loads over that come without [one an expert]."
    ),
    top_k: int | None = typer.Option(None, help="Experts a token chooses, if the file is silent."),
    experts: int | None = typer.Option(
        None, help="Experts of a layer: with ids of tokens, if the file is silent."
    ),
    tokens: int | None = typer.Option(
        None, help="Tokens of a source in an iteration: with ids in order only [all in one]."
    ),
    out: Path = OUT,
    as_json: bool = JSON,
) -> None:
    """Read expert loads (CSV, NPZ), source x expert counts (CSV, NPZ, Parquet) or ids of tokens.

    Loads without sources are spread evenly over them, ids without sources are dealt out, and the
    trace says so (docs/traces.md).

    Example: lightloom trace import loads.csv --stage decoder --sources 8 --out loads.parquet

    Example, to read what a router logged: lightloom trace import topk.jsonl --experts 64
    --top-k 4 --sources 8 --out own.parquet
    """
    from lightloom.trace.imported import Options
    from lightloom.trace.importer import import_trace

    options = Options(stage, sources, top_k, experts, tokens)
    check_place("--out", out)
    trace = import_trace(file, format, options)
    _finish(trace, out, as_json)


def generate_command(
    kind: str = typer.Argument(..., help=f"{', '.join(KINDS[:-1])} or {KINDS[-1]}."),
    experts: int = typer.Option(8, help="Experts of each layer."),
    sources: int = typer.Option(8, help="Source ranks."),
    top_k: int = typer.Option(2, help="Experts that a token chooses."),
    layers: int = typer.Option(8, help="MoE layers."),
    iterations: int = typer.Option(20, help="Iterations."),
    tokens: int = typer.Option(4096, help="Tokens of one source in one iteration."),
    seed: int = typer.Option(1, help="Decides which ranks or experts are hot."),
    out: Path = OUT,
    as_json: bool = JSON,
    **knobs: float | None,
) -> None:
    """Make a trace from a formula (docs/traces.md lists them).

    Example: lightloom trace generate zipf-receiver --experts 64 --sources 64 --top-k 4 --layers 8
    --iterations 20 --tokens 4096 --exponent 1.2 --seed 1 --out zipf.parquet
    """
    shape = Shape(experts, sources, top_k, layers, iterations, tokens, seed)
    given = {name: value for name, value in knobs.items() if value is not None}
    check_place("--out", out)
    _finish(generate(kind, shape, given), out, as_json)


def _with_knobs(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command an option for each knob of any generator, after those of the shape."""
    signature = inspect.signature(command)
    own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    options: dict[str, inspect.Parameter] = {}
    meanings: dict[str, dict[str, list[str]]] = {}
    for generator in GENERATORS.values():
        for knob in generator.knobs:
            said = meanings.setdefault(knob.name, {})
            said.setdefault(f"{knob.text} [{knob.default}]", []).append(generator.name)
            text = "; ".join(f"{', '.join(kinds)}: {what}" for what, kinds in said.items())
            options[knob.name] = inspect.Parameter(
                knob.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=typer.Option(None, help=f"{text}."),
                annotation=type(knob.default) | None,
            )
    ends = [p for p in own if p.name in ("out", "as_json")]
    shape = [p for p in own if p not in ends]
    named = [p.replace(kind=p.KEYWORD_ONLY) for p in (*shape, *options.values(), *ends)]
    command.__signature__ = signature.replace(parameters=named)  # type: ignore[attr-defined]
    return command


app.command("generate")(_with_knobs(generate_command))


@app.command("widen")
def widen_command(
    trace: str = typer.Argument(..., metavar="FILE", help="A trace, or a shipped one: e8k2."),
    sources: int = typer.Option(..., help="Source ranks wanted, a multiple of the trace's."),
    out: Path = OUT,
    as_json: bool = JSON,
) -> None:
    """Serve a larger EP degree: put several iterations' sources side by side.

    Example: lightloom trace widen e256k8 --sources 128 --out wide.parquet
    """
    from lightloom.errors import InputError
    from lightloom.trace import GatingTrace, widen

    check_place("--out", out)
    loaded = GatingTrace.load(trace)
    try:
        wide = widen(loaded, sources)
    except InputError as error:
        raise InputError(f"{trace}: {error}") from None
    _finish(wide, out, as_json)


@app.command("show")
def show_command(
    trace: str = typer.Argument(..., metavar="FILE", help="A trace, or a shipped one: e8k2."),
    layer: int | None = typer.Option(None, help="Layer of the pictures, from 0 [0]."),
    iteration: int | None = typer.Option(None, help="Iteration of the matrix, from 0 [0]."),
    servers: int | None = typer.Option(
        None, help="Servers that the skew is measured between [up to 8, as many as share it]."
    ),
    out: Path | None = typer.Option(
        None, "--out", metavar="DIR", help="Draw load.png and matrix.png there."
    ),
    as_json: bool = JSON,
) -> None:
    """Summarise a trace, and draw its loads over time and the matrix of one iteration.

    Example: lightloom trace show e8k2 --layer 3 --iteration 120 --out pictures

    Example, to see how even the loads are: lightloom trace show e256k8 --servers 32 --json
    """
    from lightloom.errors import InputError
    from lightloom.trace import GatingTrace, server_skew

    for flag, value in (("layer", layer), ("iteration", iteration)):
        if value is not None and out is None:
            raise InputError(f"--{flag} {value}: read only with --out, which draws the pictures")
    loaded = GatingTrace.load(trace)
    skew = server_skew(loaded, servers)
    if out is not None:
        from lightloom.style.figures import write_png
        from lightloom.trace.figures import load_figure, matrix_figure

        figures = {
            "load.png": load_figure(loaded, layer or 0),
            "matrix.png": matrix_figure(loaded, layer or 0, iteration or 0),
        }
        try:
            out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"--out {out}: cannot be made: {error.strerror}") from error
        for name, figure in figures.items():
            write_png(figure, out / name)
            print(f"wrote {out / name}", file=sys.stderr)
    _print(loaded, trace, as_json, skew)


class Progress:
    """Says on stderr how far a training is: in place on a terminal, else now and then."""

    def __init__(self, warmup: int, iterations: int) -> None:
        self._warmup, self._steps = warmup, warmup + iterations
        self._start: float | None = None
        self._said = time.monotonic()
        self._terminal = sys.stderr.isatty()

    def __call__(self, step: int, loss: float) -> None:
        """Report `step` steps done and the loss of the last, in nats per token."""
        now = time.monotonic()
        if self._start is None:  # the first step also warms up the allocator: it predicts nothing
            self._start, self._first = now, step
        if now - self._said < (0.2 if self._terminal else 10.0) and step < self._steps:
            return
        self._said = now
        pace = (now - self._start) / max(1, step - self._first)
        left = pace * (self._steps - step)
        doing = "warm-up" if step <= self._warmup else "recording"
        line = f"{doing}: step {step} of {self._steps}, {loss:.3f} nats a token, {left:.0f} s left"
        print(
            f"\r\x1b[K{line}" if self._terminal else line,
            end=self._end(),
            file=sys.stderr,
            flush=True,
        )

    def end(self) -> None:
        """Leave the line."""
        if self._terminal:
            print(file=sys.stderr)

    def _end(self) -> str:
        return "" if self._terminal else "\n"


def _finish(trace: GatingTrace, out: Path, as_json: bool) -> None:
    from lightloom.trace import server_skew

    trace.save(out)
    print(f"wrote {out}", file=sys.stderr)
    _print(trace, str(out), as_json, server_skew(trace))


def _print(trace: GatingTrace, name: str, as_json: bool, skew: ServerSkew | None) -> None:
    from lightloom.trace.summary import MEASURES, summarize

    said = summarize(trace).as_dict() | {"between_servers": skew and skew.as_dict()}
    if as_json:
        print(json.dumps(said, indent=2))
        return
    from rich.text import Text

    from lightloom import screen
    from lightloom.screen import Column

    console = screen.console()
    console.print(
        Text(
            f"{name}: {trace.iterations} iterations x {trace.layers} layers x {trace.sources} "
            f"sources x {trace.experts} experts, top-{trace.top_k}"
        ),
        soft_wrap=True,
    )
    said_of = (
        "origin",
        "note",
        "sources",
        "widened",
        "stage",
        "stages_left_out",
        "text",
        "command",
    )
    for key in said_of:
        if key in trace.meta:
            console.print(Text(f"  {key.replace('_', ' ')}: {trace.meta[key]}"), soft_wrap=True)
    titles = ("layer", "max/mean", "worst", "entropy", "drift", "source spread")
    columns: list[Column | str] = [*titles, Column("pair max/mean", rank=1)]
    keys, means, layers = list(MEASURES), said, said["per_layer"]
    if skew is not None:
        columns += [Column("servers\nmax/mean"), Column("servers\ntop share")]
        more = said["between_servers"]
        keys += ["pair_skew", "top_share"]
        means, layers = means | more, layers | more["per_layer"]
    rows = [
        [str(layer), *_cells(layers[key][layer] for key in keys)] for layer in range(trace.layers)
    ]
    mean = ["mean", *_cells(means[key] for key in keys)]
    console.print()
    screen.print_table(columns, [*rows, None, mean], console)
    if skew is None:
        console.print("\nno two servers share its sources and experts evenly")
    else:
        console.print(f"\nthe last two are between {skew.servers} servers, which share it evenly")


def _cells(values: Any) -> list[str]:
    return [f"{value:.3f}" for value in values]
