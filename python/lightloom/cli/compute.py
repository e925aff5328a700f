"""``lightloom compute``: what a device needs for a job's matrix products."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from lightloom.cli import words

if TYPE_CHECKING:
    from lightloom.kernel_times import Kernel

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Measure what a device needs for a job's matrix products.\n\n"
    "Example: lightloom compute measure mixtral-8x7b --out times.toml",
)


@app.callback()
def compute() -> None:
    """Measure what a device needs for a job's matrix products.

    Example: lightloom compute measure mixtral-8x7b --out times.toml
    """


@app.command("measure")
def measure_command(
    jobs: list[str] = typer.Argument(
        ..., metavar="JOB...", help="Model presets, specifications (TOML) or config.json files."
    ),
    out: Path = typer.Option(..., "--out", help="The table (TOML), for compute.table."),
    settings: list[str] = words.SETTINGS,
    device: str = typer.Option("cuda", "--device", help="cpu, cuda or cuda:N."),
    tokens: int | None = typer.Option(
        None, "--tokens", help="At most so many tokens of a micro-batch on a GPU [the job's]."
    ),
    loads: str = typer.Option(
        "0.5,1,2", "--loads", help="Loads of experts, as multiples of an even one, with commas."
    ),
    repeats: int = typer.Option(20, "--repeats", help="Of each shape, at most; the median counts."),
    force: bool = typer.Option(False, "--force", help="Replace the table in --out."),
    as_json: bool = words.JSON,
) -> None:
    """Measure the matrix products and attention of jobs' layers, with PyTorch, each shape once.

    Shapes follow from the model, its split and the micro-batch; fewer --tokens make it short. An
    interrupted call goes on when it is called again.

    Example: lightloom compute measure deepseek-v3 --device cuda --out times.toml
    """
    from lightloom.cli import options
    from lightloom.errors import InputError
    from lightloom.kernel_times import fewer_tokens, measure

    given = options.settings(settings)
    scenarios = [options.job(job, given, None)[0] for job in jobs]
    if tokens is not None:
        most = _at_least(tokens, "--tokens")
        scenarios = [fewer_tokens(scenario, most) for scenario in scenarios]
    _at_least(repeats, "--repeats")
    try:
        each = [float(part) for part in loads.split(",")]
    except ValueError:
        each = []
    if not each or not all(0 < load <= 1024 for load in each):
        raise InputError(
            f'--loads = "{loads}": must be numbers above 0 and at most 1024, with commas'
        )

    def tell(done: int, of: int, kernel: Kernel, said: str) -> None:
        print(f"{done}/{of} {kernel.text}: {said}", file=sys.stderr, flush=True)

    found = measure(
        *scenarios, out=out, device=device, loads=each, repeats=repeats, force=force,
        command=shlex.join(["lightloom", *sys.argv[1:]]), on_kernel=tell,
    )  # fmt: skip
    if as_json:
        rows = [
            {"kind": kernel.kind, **kernel.sizes, "seconds": seconds,
             "flops_per_s": kernel.flops / seconds}
            for kernel, seconds in found
        ]  # fmt: skip
        print(json.dumps({"table": str(out), "kernels": rows}, indent=2))
        return
    flops, seconds = (sum(part) for part in zip(*((k.flops, s) for k, s in found), strict=True))
    print(f"{len(found)} shapes: {flops / seconds / 1e12:.4g} Tflop/s over all of them")
    print(f"{out}: lightloom simulate {jobs[0]} --set compute.table={out}")


def _at_least(value: int, option: str) -> int:
    from lightloom.errors import InputError

    if value < 1:
        raise InputError(f"{option} = {value}: must be at least 1")
    return value
