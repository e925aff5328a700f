"""``lightloom railx decompose``."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence


FIRST = 3  # two nodes have one ring, which shows nothing


@dataclass(frozen=True)
class _Trial:
    """One number of nodes, tried."""

    nodes: int
    outcome: str
    reason: str | None
    seconds: float


def run(
    nodes: int | None = typer.Argument(None, metavar="K", help="Nodes to join all to all."),
    verify: bool = typer.Option(
        False, "--verify", help="Try every number of nodes from 3 to --max, and check the rings."
    ),
    most: int | None = typer.Option(None, "--max", help="With --verify: the largest K [160]."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Join K nodes all to all by K - 1 rings: a ring a rail, each ordered pair on one of them.

    4 and 6 nodes have no such rings; 6 and 10 rings have each ordered pair on two of them.

    Example: lightloom railx decompose 5
    """
    from lightloom.errors import InputError

    if verify == (nodes is not None):
        raise InputError("railx decompose: must have either K, a number of nodes, or --verify")
    if nodes is not None:
        if most is not None:
            raise InputError(f"--max {most}: goes with --verify only")
        _one(nodes, as_json)
    else:
        _all(160 if most is None else most, as_json)


def _ask(nodes: int, rings: bool) -> dict[str, Any]:
    from lightloom import _core

    answer: dict[str, Any] = json.loads(
        _core.railx_decompose(json.dumps({"nodes": nodes, "rings": rings}))
    )
    return answer


def _limit() -> int:
    return int(_ask(1, rings=False)["most_nodes"])


def _one(nodes: int, as_json: bool) -> None:
    from lightloom.errors import InputError, RunError

    limit = _limit()
    if not 2 <= nodes <= limit:
        raise InputError(f"railx decompose {nodes}: must be 2 to {limit}")
    answer = _ask(nodes, rings=True)
    if answer["outcome"] != "verified":
        raise RunError(f"railx decompose {nodes}: {answer['reason']}")
    rings: list[list[int]] = answer["rings"]
    if as_json:
        print(json.dumps({"nodes": nodes, "rings": rings}))
        return
    count = f"{len(rings)} ring{'s' if len(rings) > 1 else ''}"
    times = "one" if len(rings) == nodes - 1 else "two"
    print(f"{nodes} nodes, {count}; each node is followed by every other on {times} of them")
    width, label = len(str(nodes - 1)), len(str(len(rings) - 1))
    for rail, ring in enumerate(rings):
        print(f"{rail:>{label}}: " + " ".join(f"{node:>{width}}" for node in ring))


def _all(most: int, as_json: bool) -> None:
    from lightloom.errors import InputError, RunError
    from lightloom.progress import runs

    limit = _limit()
    if not FIRST <= most <= limit:
        raise InputError(f"--max {most}: must be {FIRST} to {limit}")
    trials = []
    with runs(most - FIRST + 1) as tell:
        for nodes in range(FIRST, most + 1):
            tell(f"{nodes} nodes", 0.0)
            began = time.perf_counter()
            answer = _ask(nodes, rings=False)
            seconds = time.perf_counter() - began
            trials.append(_Trial(nodes, answer["outcome"], answer["reason"], seconds))
            tell(f"{nodes} nodes", 1.0)
    if as_json:
        print(json.dumps(_as_json(trials), indent=2))
    else:
        _print_table(trials)
    failed = [trial for trial in trials if trial.outcome in ("unknown", "wrong")]
    if failed:
        text = "; ".join(f"{trial.nodes} nodes: {trial.reason}" for trial in failed)
        raise RunError(f"railx decompose: {text}")


def _print_table(trials: Sequence[_Trial]) -> None:
    from lightloom import screen
    from lightloom.screen import Column

    table = []
    kinds = {
        "odd": [t for t in trials if t.nodes % 2],
        "even": [t for t in trials if t.nodes % 2 == 0],
        "all": list(trials),
    }
    for name, kind in kinds.items():
        if not kind:
            continue
        slowest = max(kind, key=lambda trial: trial.seconds)
        verified = sum(trial.outcome == "verified" for trial in kind)
        table.append([
            name, str(len(kind)), str(verified), f"{sum(t.seconds for t in kind):.2f}",
            str(slowest.nodes), f"{slowest.seconds:.3f}",
        ])  # fmt: skip
    first = Column(f"{trials[0].nodes} to {trials[-1].nodes} nodes", name=True)
    headings = ("tried", "verified", "seconds", "slowest", "its seconds")
    screen.print_table((first, *headings), table, screen.console())


def _as_json(trials: Sequence[_Trial]) -> dict[str, Any]:
    def of(*outcomes: str) -> list[int]:
        return [trial.nodes for trial in trials if trial.outcome in outcomes]

    slowest = max(trials, key=lambda trial: trial.seconds)
    return {
        "first": trials[0].nodes,
        "last": trials[-1].nodes,
        "verified": len(of("verified")),
        "failed": of("unknown", "wrong"),
        "seconds": sum(trial.seconds for trial in trials),
        "slowest": {"nodes": slowest.nodes, "seconds": slowest.seconds},
    }
