"""What each rank of ``testbed replay`` does: ``python -m lightloom.ranks.replay``.

It sleeps where the job computes, says what it will send where circuits may change, and carries
all-to-alls out. Every byte is checked after the iteration, in which nothing else is done.
"""

from __future__ import annotations

import json
import os
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from lightloom.errors import RunError
from lightloom.ranks.collectives import Made, check, made, over
from lightloom.runtime import Rank

# What lies ahead of circuits that stay.
STAYS = {"uses": 1_000_000, "hidden_ps": 0, "later": 0, "changes": 0}


def main(place: Path) -> None:
    """Carry out the plan in a directory."""
    plan: dict[str, Any] = json.loads((place / "plan.json").read_text())
    demands = np.load(place / "demands.npy")
    said = []
    with Rank() as rank, ThreadPoolExecutor(1) as asks:
        steps = [made(rank, matrix, number) for number, matrix in enumerate(demands)]
        standing: dict[str, Any] = {"ports": []}
        if plan["circuits"]:
            # Set for as long as there is: whatever a change costs.
            standing = rank.announce(plan["even"][rank.rank], STAYS)
            if not standing["decided"]:
                raise over(rank.rank, "the controller has set no circuits at first")
        for _ in range(plan["iterations"]):
            rank.barrier()
            said.append(_one(rank, asks, plan, steps, standing))
            for number, one in enumerate(steps):
                check(rank, one, number)
                one.received[:] = 0
    (place / f"rank-{rank.rank}.json").write_text(json.dumps(said))


def _one(
    rank: Rank, asks: ThreadPoolExecutor, plan: dict[str, Any], steps: list[Made],
    standing: dict[str, Any],
) -> dict[str, Any]:  # fmt: skip
    rows, begun = [], time.perf_counter()
    for step, (sent, received, sends, receives) in zip(plan["steps"], steps, strict=True):
        then = time.perf_counter()
        answer: Future[dict[str, Any]] | None = None
        if step["when"] == "hide":
            answer = asks.submit(rank.announce, sends, step["ahead"])
        time.sleep(step["compute_s"])
        ready = time.perf_counter()
        if step["when"] == "block":
            answer = asks.submit(rank.announce, sends, step["ahead"])
        changed, decided = False, True
        if answer is not None:
            now = answer.result()
            changed, decided = now["ports"] != standing["ports"], now["decided"]
            standing.update(now)
        sends_at = time.perf_counter()
        rank.all_to_all(received, sent, receives, sends, path=plan["path"])
        ended = time.perf_counter()
        rows.append(
            {
                "compute_s": ready - then, "waited_s": sends_at - ready,
                "exchange_s": ended - sends_at, "changed": changed, "late": not decided,
                "ports": standing["ports"],
            }
        )  # fmt: skip
    time.sleep(plan["after_s"])
    rank.barrier()
    return {"iteration_s": time.perf_counter() - begun, "steps": rows}


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except RunError as error:
        raise over(os.environ.get("RANK", "?"), str(error)) from None
