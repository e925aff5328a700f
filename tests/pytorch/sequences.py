"""Random sequences of operations under way at once, on several groups; every value is checked.

python sequences.py COUNT SEED
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from datetime import timedelta

import lightloom.runtime.pytorch as backend
import torch
import torch.distributed as dist
from case import Ranks

KINDS = ("exchange", "sum", "gather", "broadcast", "scatter", "pass", "barrier", "least")
TYPES = (torch.int64, torch.int32, torch.uint8)
Check = Callable[[], bool]


def under_way(
    ranks: Ranks, drawn: random.Random, group: dist.ProcessGroup, members: list[int], seed: int
) -> tuple[list[dist.Work], Check] | None:
    """Begin one operation; every rank draws the same. None if this one has no part."""
    kind, dtype = drawn.choice(KINDS), drawn.choice(TYPES)
    count = drawn.choice((0, 1, 2, 5, 64, 1000, 20_000))
    rows = [[drawn.choice((0, 0, 1, 3, count)) for _ in members] for _ in members]
    root = drawn.choice(members)
    target = drawn.choice([rank for rank in members if rank != root])
    arena, peers = drawn.random() < 0.5, (root, target)
    if ranks.rank not in members:
        return None
    at = members.index(ranks.rank)

    def room(length: int, source: torch.Tensor | None = None) -> torch.Tensor:
        made = backend.empty(length, dtype) if arena else torch.empty(length, dtype=dtype)
        return made.zero_() if source is None else made.copy_(source)

    def mine(length: int) -> torch.Tensor:
        return room(length, ranks.data(length, dtype, seed))

    def theirs(rank: int, length: int) -> torch.Tensor:
        return ranks.data(length, dtype, seed, rank)

    if kind == "exchange":
        sends, receives = rows[at], [row[at] for row in rows]
        sent, out = mine(sum(sends)), room(sum(receives))
        work = dist.all_to_all_single(out, sent, receives, sends, group, async_op=True)
        parts = [
            theirs(rank, sum(row)).split(row)[at] for rank, row in zip(members, rows, strict=True)
        ]
        return [work], lambda: torch.equal(out, torch.cat(parts)) and sent is not None
    if kind in ("sum", "least"):
        op = dist.ReduceOp.SUM if kind == "sum" else dist.ReduceOp.MIN
        out = mine(count)
        work = dist.all_reduce(out, op, group, async_op=True)
        every = torch.stack([theirs(rank, count) for rank in members])
        right = every.sum(0, dtype=dtype) if kind == "sum" else every.amin(0)
        return [work], lambda: torch.equal(out, right)
    if kind == "gather":
        out, sent = room(count * len(members)), mine(count)
        work = dist.all_gather_into_tensor(out, sent, group, async_op=True)
        right = torch.cat([theirs(rank, count) for rank in members])
        return [work], lambda: torch.equal(out, right)
    if kind == "scatter":
        sent, out = mine(count * len(members)), room(count)
        work = dist.reduce_scatter_tensor(out, sent, group=group, async_op=True)
        every = torch.stack([theirs(rank, count * len(members)) for rank in members])
        right = every.sum(0, dtype=dtype)[count * at : count * (at + 1)]
        return [work], lambda: torch.equal(out, right) and torch.equal(sent, every[at])
    if kind == "broadcast":
        out = mine(count)
        work = dist.broadcast(out, root, group, async_op=True)
        return [work], lambda: torch.equal(out, theirs(root, count))
    if kind == "barrier":
        return [dist.barrier(group, async_op=True)], lambda: True
    if ranks.rank not in peers:
        return None
    out = mine(count) if ranks.rank == root else room(count)
    work = dist.isend(out, target, group) if ranks.rank == root else dist.irecv(out, root, group)
    return [work], lambda: torch.equal(out, theirs(root, count))


def main(sequences: int, seed: int) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("lightloom", timeout=timedelta(seconds=120))
    ranks = Ranks(dist.get_rank(), dist.get_world_size())
    groups = []
    for members in ([0, 1, 2, 3], [0, 2, 3], [1, 3], [0, 1], [1, 2, 3]):
        groups.append((dist.new_group(members), members))
    own = random.Random(ranks.rank)
    for sequence in range(seed, seed + sequences):
        drawn = random.Random(sequence)
        begun = []
        for step in range(drawn.randint(1, 12)):
            group, members = drawn.choice(groups)
            made = under_way(ranks, drawn, group, members, sequence * 16 + step)
            if made is not None:
                begun.append((step, *made))
        own.shuffle(begun)  # what was begun in one order is waited for in another
        for step, works, right in begun:
            for work in works:
                if own.random() < 0.3:
                    work.get_future().wait()
                else:
                    work.wait()
            if not right():
                raise SystemExit(f"rank {ranks.rank}: sequence {sequence}, step {step}: is wrong")
    dist.barrier()
    dist.destroy_process_group()
    if ranks.rank == 0:
        print(f"{sequences} sequences are right")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
