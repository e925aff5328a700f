"""What each rank of ``lightloom testbed replay`` does: ``python -m lightloom.testbed.replay_rank``.

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
import numpy.typing as npt

from lightloom.errors import RunError
from lightloom.runtime import Rank
from lightloom.testbed.program import pattern

# What lies ahead of circuits that stay.
STAYS = {"uses": 1_000_000, "hidden_ps": 0, "later": 0, "changes": 0}
Bytes = npt.NDArray[np.uint8]


def buffers(
    rank: Rank, demands: npt.NDArray[np.uint64]
) -> list[tuple[Bytes, Bytes, list[int], list[int]]]:
    """Return by step what is sent, room for what comes, and how much of each by rank [B]."""
    found = []
    for number, matrix in enumerate(demands):
        sends = [int(count) for count in matrix[rank.rank]]
        receives = [int(count) for count in matrix[:, rank.rank]]
        sent, received = rank.empty(sum(sends), "uint8"), rank.empty(sum(receives), "uint8")
        at = 0
        for target, length in enumerate(sends):
            sent[at : at + length] = pattern(rank.rank, target, number, length)
            at += length
        found.append((sent, received, sends, receives))
    return found


def check(
    rank: Rank, demands: npt.NDArray[np.uint64], made: list[tuple[Bytes, Bytes, Any, Any]]
) -> None:
    """Check every byte that came, and forget it.

    Raises
    ------
    SystemExit
        If a byte is not what was sent.
    """
    for number, (_, received, _, receives) in enumerate(made):
        at = 0
        for source, length in enumerate(receives):
            if not np.array_equal(
                received[at : at + length], pattern(source, rank.rank, number, length)
            ):
                raise SystemExit(f"rank {rank.rank}: bytes of rank {source} are not what it sent")
            at += length
        received[:] = 0


def main(place: Path) -> None:
    """Carry out the plan in a directory."""
    plan: dict[str, Any] = json.loads((place / "plan.json").read_text())
    demands = np.load(place / "demands.npy")
    said = []
    with Rank() as rank, ThreadPoolExecutor(1) as asks:
        made = buffers(rank, demands)
        standing: dict[str, Any] = {"ports": []}
        if plan["circuits"]:
            # Set for as long as there is: whatever a change costs.
            standing = rank.announce(plan["even"][rank.rank], STAYS)
            if not standing["decided"]:
                raise SystemExit(f"rank {rank.rank}: the controller has set no circuits at first")
        for _ in range(plan["iterations"]):
            rank.barrier()
            said.append(_one(rank, asks, plan, made, standing))
            check(rank, demands, made)
    (place / f"rank-{rank.rank}.json").write_text(json.dumps(said))


def _one(
    rank: Rank, asks: ThreadPoolExecutor, plan: dict[str, Any], made: list[Any],
    standing: dict[str, Any],
) -> dict[str, Any]:  # fmt: skip
    rows, begun = [], time.perf_counter()
    for step, (sent, received, sends, receives) in zip(plan["steps"], made, strict=True):
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
        raise SystemExit(f"rank {os.environ.get('RANK', '?')}: {error}") from None
