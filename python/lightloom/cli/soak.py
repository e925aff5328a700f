"""``lightloom soak``: let everything go wrong, again and again, and see that nothing breaks."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import typer

app = typer.Typer(
    no_args_is_help=True,
    help="Inject faults, and check what must hold all the same.\n\n"
    "Example: lightloom soak control --seeds 1000",
)


@app.callback()
def soak() -> None:
    """Read by Typer: without it, the only subcommand would have no name."""


@app.command()
def control(
    seeds: int = typer.Option(1000, "--seeds", help="How many scenarios.", min=1),
    first: int = typer.Option(0, "--first", help="The seed of the first.", min=0),
    seed: int | None = typer.Option(None, "--seed", help="Run this scenario alone.", min=0),
    trace: bool = typer.Option(False, "--trace", help="With --seed: print what happens."),
    threads: int = typer.Option(
        0, "--threads", help="CPU threads; 0 for one a core.", min=0, max=1024
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Drive controller, agents and switch through scenarios full of faults.

    Every scenario follows from its seed: messages are lost, streams break, processes crash, the
    switch is slow, silent or lies. After every step the invariants of docs/soak.md are checked.
    Exit code 1 if one is broken.

    Example: lightloom soak control --seeds 1000
    """
    from lightloom import _core
    from lightloom.errors import InputError, RunError

    if trace and seed is None:
        raise InputError("--trace: name the scenario with --seed")
    if first + seeds >= 2**64 or (seed or 0) >= 2**64:
        raise InputError("seeds are below 2^64")
    began = time.monotonic()
    if seed is not None and trace:
        lines, result = _core.soak_control_trace(seed)
        if not as_json:
            print("\n".join(lines))
        else:
            result["trace"] = lines
    else:
        start, count = (first, seeds) if seed is None else (seed, 1)
        cores = threads or len(os.sched_getaffinity(0))
        result = _core.soak_control(start, count, cores, _Progress(count))
    elapsed = time.monotonic() - began
    if as_json:
        print(json.dumps({**result, "elapsed_s": round(elapsed, 3)}, indent=2))
    elif result["broken"] is None:
        _print_summary(result, elapsed)
    broken = result["broken"]
    if broken is not None:
        again = f"lightloom soak control --seed {broken['seed']} --trace"
        words = f"{broken['invariant']}: {broken['what']}"
        raise RunError(f"seed {broken['seed']} breaks an invariant: {words}; see it again: {again}")


class _Progress:
    """Tell on stderr how many scenarios are done: in place on a terminal, else now and then."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.began = self.last = time.monotonic()

    def __call__(self, done: int) -> None:
        now = time.monotonic()
        if sys.stderr.isatty():
            if now - self.began > 1:
                end = "\r" if done < self.total else "\n"
                print(self._text(done, now), end=end, file=sys.stderr, flush=True)
        elif now - self.last > max(5, (now - self.began) / 20):
            self.last = now
            print(self._text(done, now), file=sys.stderr, flush=True)

    def _text(self, done: int, now: float) -> str:
        return f"{done} of {self.total} scenarios, {done / (now - self.began):.0f} a second"


def _print_summary(result: dict[str, Any], elapsed: float) -> None:
    from lightloom import screen
    from lightloom.screen import Column

    scenarios, steps = result["scenarios"], result["steps"]
    print(
        f"{scenarios} scenarios, {steps} steps, {result['simulated_s']:.0f} s of their time "
        f"in {elapsed:.1f} s: no invariant is broken"
    )
    happened = sorted(result["happened"].items(), key=lambda item: (-item[1][0], item[0]))
    rows = [(what, str(in_scenarios), str(times)) for what, (in_scenarios, times) in happened]
    print()
    columns = (Column("what happened", name=True), "scenarios", "times")
    screen.print_table(columns, rows, screen.console())
