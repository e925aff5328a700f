"""What each rank of ``testbed collective`` does: ``python -m lightloom.ranks.collectives``.

It reads a plan (JSON) and demands (NumPy) that the command has written, carries every collective
out, checks every byte that came, and writes when it was under way. Times are CLOCK_BOOTTIME, which
all processes of a computer share, so the command can put ranks' times side by side.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lightloom.errors import RunError
from lightloom.ranks.hierarchy import Done, Hierarchy
from lightloom.runtime import Rank, Work

Bytes = npt.NDArray[np.uint8]
REDUCED = "float32"
# Of a NIC's statistics, what is no count.
STATES = ("nic", "circuit", "lanes", "lanes_up")
# All lanes are up in this time [s].
SETTLED_S = 30.0
# So often circuits may change by themselves after a demand, as when a server comes back.
TRIES = 5


def over(rank: int | str, why: str) -> SystemExit:
    """Say why a rank ends, and return what to raise.

    The line is written at once: others write to the same place, and a rank may be killed by the
    launcher as soon as the first of them has ended.

    Examples
    --------
    >>> import contextlib, sys
    >>> with contextlib.redirect_stderr(sys.stdout):
    ...     print("exit code", over(3, "a NIC is gone").code)
    rank 3: a NIC is gone
    exit code 1
    """
    sys.stderr.write(f"rank {rank}: {why}\n")
    return SystemExit(1)


def pattern(source: int, target: int, number: int, length: int) -> Bytes:
    """Return the bytes that one rank sends another in a collective: other bytes each time.

    Examples
    --------
    >>> one, other = pattern(0, 1, 2, 1000), pattern(1, 0, 2, 1000)
    >>> len(one), bool((one == other).all())
    (1000, False)
    """
    drawn = np.random.default_rng([source, target, number])
    return np.frombuffer(drawn.bytes(length), dtype=np.uint8)


class Made(NamedTuple):
    """An all-to-all of a rank: what it sends, room for what comes, and how much of each by rank."""

    sent: Bytes
    received: Bytes
    sends: list[int]
    receives: list[int]


def made(rank: Rank, matrix: npt.NDArray[np.uint64], number: int) -> Made:
    """Return what a rank sends of what the matrix says, and room for what comes."""
    me = rank.rank
    sends = [int(count) for count in matrix[me]]
    receives = [int(count) for count in matrix[:, me]]
    sent, received = rank.empty(sum(sends), "uint8"), rank.empty(sum(receives), "uint8")
    at = 0
    for target, length in enumerate(sends):
        sent[at : at + length] = pattern(me, target, number, length)
        at += length
    received[:] = 0
    return Made(sent, received, sends, receives)


def check(rank: Rank, one: Made, number: int) -> None:
    """Check every byte that came.

    Raises
    ------
    SystemExit
        If a byte is not what was sent.
    """
    at = 0
    for source, length in enumerate(one.receives):
        right = pattern(source, rank.rank, number, length)
        if not np.array_equal(one.received[at : at + length], right):
            raise over(rank.rank, f"bytes of rank {source} are not those that it sent")
        at += length


def all_to_all(rank: Rank, matrix: npt.NDArray[np.uint64], number: int, path: str | None) -> Work:
    """Send every rank what the matrix says, and check what comes.

    Raises
    ------
    SystemExit
        If a byte is not what was sent.
    """
    one = made(rank, matrix, number)
    rank.barrier()
    work = rank.all_to_all(one.received, one.sent, one.receives, one.sends, path=path)
    check(rank, one, number)
    return work


def reduced(
    rank: Rank, kind: str, bytes_: int, number: int, grid: Hierarchy | None = None
) -> Work | Done:
    """Carry out a collective of the same size at every rank, and check what comes.

    An all-reduce goes over rows and columns of a grid if there is one.

    Raises
    ------
    SystemExit
        If an element is not what it must be.
    """
    count, size = bytes_ // 4, rank.size
    ours = rank.empty(count, REDUCED)
    index = np.arange(count, dtype=np.float32) % 1024
    ours[:] = index * (rank.rank + 1) + number
    total = index * (size * (size + 1) // 2) + number * size
    rows = [count // size + (at < count % size) for at in range(size)]
    begin = sum(rows[: rank.rank])
    own = slice(begin, begin + rows[rank.rank])
    rank.barrier()
    work: Work | Done
    if kind == "allreduce":
        work = rank.all_reduce(ours) if grid is None else grid.all_reduce(ours)
        right = np.array_equal(ours, total)
    elif kind == "reducescatter":
        part = rank.empty(rows[rank.rank], REDUCED)
        work = rank.reduce_scatter(part, ours, rows)
        right = np.array_equal(part, total[own])
    elif kind == "allgather":
        everything = rank.empty(count, REDUCED)
        work = rank.all_gather(everything, np.ascontiguousarray(index[own]), rows)
        right = np.array_equal(everything, index)
    elif kind == "broadcast":
        work, right = rank.broadcast(ours, 0), True
        right = np.array_equal(ours, index + number)
    else:
        work, right = rank.barrier(), True
    if not right:
        raise over(rank.rank, f"{kind}: an element is not what it must be")
    return work


def settle(rank: Rank) -> None:
    """Wait until all lanes of packet NICs are up, at every server.

    Raises
    ------
    SystemExit
        If some are not up in time.
    """
    until = time.monotonic() + SETTLED_S
    while True:
        nics = [nic for nic in rank.statistics() if not nic["circuit"]]
        down = sum(nic["lanes"] - nic["lanes_up"] for nic in nics)
        if not down:
            break
        if time.monotonic() > until:
            raise over(rank.rank, f"{down} lanes are not up after {SETTLED_S:.0f} s")
        time.sleep(0.05)
    rank.barrier()


def announced(rank: Rank, sends: list[int]) -> dict[str, Any]:
    """Announce what is sent, until all servers have an answer of one plan.

    Raises
    ------
    SystemExit
        If circuits change again and again.
    """
    plans = np.zeros(rank.size, dtype=np.int64)
    for _ in range(TRIES):
        answer = rank.announce(sends)
        own = np.array([answer["plan"]], dtype=np.int64)
        rank.all_gather(plans, own, [1] * rank.size)
        if (plans == plans[0]).all():
            return answer
    raise over(rank.rank, f"circuits change {TRIES} times while nothing else happens")


def main(place: Path) -> None:
    """Carry out the plan in a directory."""
    plan: dict[str, Any] = json.loads((place / "plan.json").read_text())
    demands = np.load(place / "demands.npy") if plan["kind"] == "alltoall" else None
    rows = []
    with Rank() as rank:
        if plan["settle"]:
            settle(rank)
        grid = Hierarchy(rank, plan["columns"]) if "columns" in plan else None
        for number, step in enumerate(plan["steps"]):
            circuits = None
            if demands is not None:
                matrix = demands[step["demand"]]
                if step["announce"]:
                    circuits = announced(rank, [int(count) for count in matrix[rank.rank]])
                before = rank.statistics()
                work: Work | Done = all_to_all(rank, matrix, number, step["path"])
            else:
                before = rank.statistics()
                work = reduced(rank, plan["kind"], plan["bytes"], number, grid)
            rank.barrier()
            nics = [
                {key: now[key] - then[key] for key in now if key not in STATES}
                for now, then in zip(rank.statistics(), before, strict=True)
            ]
            rows.append(
                {"times": work.times, "nics": nics, "circuits": circuits, "landed": work.landed}
            )
            rank.barrier()
        if rank.rank % rank.per_server:
            rows = [{"times": row["times"]} for row in rows]
        (place / f"rank-{rank.rank}.json").write_text(json.dumps(rows))


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except RunError as error:
        # The runtime says why in one line: where in this program that was tells nobody more.
        raise over(os.environ.get("RANK", "?"), str(error)) from None
