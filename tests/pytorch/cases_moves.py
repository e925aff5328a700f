"""Cases of operations that move tensors: every bit is known beforehand."""

from __future__ import annotations

import torch
import torch.distributed as dist
from case import Outcome, Ranks, case

TYPES = [
    torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int8, torch.int16,
    torch.int32, torch.int64, torch.uint8, torch.bool, torch.complex64,
]  # fmt: skip
# Rows that rank r sends to rank s, of four: uneven, none, all to one.
SPLITS = {
    "uneven": [[1, 2, 0, 5], [0, 3, 1, 0], [2, 2, 7, 1], [4, 0, 0, 3]],
    "empty": [[0] * 4] * 4,
    "all to one": [[0, 0, 5, 0], [0, 0, 1, 0], [0, 0, 0, 0], [0, 0, 9, 0]],
    "one row": [[0, 0, 0, 1], [0] * 4, [0] * 4, [0] * 4],
}


def short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def exchanged(
    ranks: Ranks, splits: list[list[int]], width: tuple[int, ...], dtype: torch.dtype, seed: int
) -> tuple[torch.Tensor, torch.Tensor, list[int], list[int], torch.Tensor]:
    """An output, an input, their rows by rank, and the output that is right."""
    sends = splits[ranks.rank]
    receives = [splits[source][ranks.rank] for source in range(ranks.size)]
    parts = []
    for source in range(ranks.size):
        every = ranks.data([sum(splits[source]), *width], dtype, seed, source)
        parts.append(every.split(splits[source])[ranks.rank])
    sent = ranks.data([sum(sends), *width], dtype, seed)
    return (
        torch.zeros([sum(receives), *width], dtype=dtype),
        sent,
        receives,
        sends,
        torch.cat(parts),
    )


def single(
    ranks: Ranks, splits: list[list[int]], width: tuple[int, ...], dtype: torch.dtype, seed: int,
    *, later: bool = False, even: bool = False,
) -> Outcome:  # fmt: skip
    out, sent, receives, sends, right = exchanged(ranks, splits, width, dtype, seed)
    before = sent.clone()
    rows = ([], []) if even else (receives, sends)
    work = dist.all_to_all_single(out, sent, *(it or None for it in rows), async_op=later)
    if later:
        work.wait()
    assert torch.equal(sent, before)
    return [out], [right]


for at, dtype in enumerate(TYPES):
    for rows in (0, 1, 3):
        case("all_to_all_single", f"even, {rows} rows of {short(dtype)}")(
            lambda ranks, dtype=dtype, rows=rows, at=at: single(
                ranks, [[rows] * 4] * 4, (5,), dtype, at, even=True
            )
        )
for at, (kind, splits) in enumerate(SPLITS.items()):
    for later in (False, True):
        case("all_to_all_single", f"{kind}{', async' * later}")(
            lambda ranks, splits=splits, later=later, at=at: single(
                ranks, splits, (3, 2), torch.bfloat16, 50 + at, later=later
            )
        )


@case("all_to_all_single", "1 MiB a rank")
def _(ranks: Ranks) -> Outcome:
    return single(ranks, [[65536] * 4] * 4, (), torch.float32, 60, even=True)


@case("all_to_all_single", "in a group of three")
def _(ranks: Ranks) -> Outcome:
    group, members = ranks.groups["three"]
    if group is None:
        return [], []
    sent = ranks.data(6, torch.int64, 61)
    out = torch.zeros_like(sent)
    dist.all_to_all_single(out, sent, group=group)
    at = members.index(ranks.rank)
    rows = [ranks.data(6, torch.int64, 61, rank)[2 * at : 2 * at + 2] for rank in members]
    return [out], [torch.cat(rows)]


@case("all_to_all_single", "eight under way")
def _(ranks: Ranks) -> Outcome:
    made = [exchanged(ranks, SPLITS["uneven"], (2,), torch.int32, 70 + at) for at in range(8)]
    works = [
        dist.all_to_all_single(out, sent, receives, sends, async_op=True)
        for out, sent, receives, sends, _ in made
    ]
    for work in reversed(works):
        work.wait()
    return [it[0] for it in made], [it[4] for it in made]


@case("all_to_all", "uneven lists")
def _(ranks: Ranks) -> Outcome:
    splits = SPLITS["uneven"]
    sent = [ranks.data(rows, torch.float32, 80 + at) for at, rows in enumerate(splits[ranks.rank])]
    out = [torch.zeros(splits[source][ranks.rank]) for source in range(ranks.size)]
    right = [
        ranks.data(splits[source][ranks.rank], torch.float32, 80 + ranks.rank, source)
        for source in range(ranks.size)
    ]
    dist.all_to_all(out, sent)
    return out, right


@case("all_to_all", "transposed tensors")
def _(ranks: Ranks) -> Outcome:
    sent = [ranks.data([2, 3], torch.float64, 85 + at).T for at in range(ranks.size)]
    out = [torch.zeros(2, 3, dtype=torch.float64).T for _ in range(ranks.size)]
    dist.all_to_all(out, sent)
    right = [ranks.data([2, 3], torch.float64, 85 + ranks.rank, at).T for at in range(ranks.size)]
    return out, right


for at, dtype in enumerate(TYPES):
    for count in (0, 1, 7):

        def gathered(ranks: Ranks, dtype=dtype, count=count, at=at) -> Outcome:
            out = [torch.zeros(count, dtype=dtype) for _ in range(ranks.size)]
            dist.all_gather(out, ranks.data(count, dtype, 100 + at))
            return out, ranks.all(count, dtype, 100 + at)

        case("all_gather", f"{count} of {short(dtype)}")(gathered)


@case("all_gather", "async, with a future")
def _(ranks: Ranks) -> Outcome:
    out = [torch.zeros(3) for _ in range(ranks.size)]
    work = dist.all_gather(out, ranks.data(3, torch.float32, 120), async_op=True)
    work.get_future().wait()
    return out, ranks.all(3, torch.float32, 120)


@case("all_gather_into_tensor", "2 x 3, async")
def _(ranks: Ranks) -> Outcome:
    out = torch.zeros(2 * ranks.size, 3)
    work = dist.all_gather_into_tensor(out, ranks.data([2, 3], torch.float32, 121), async_op=True)
    work.wait()
    return [out], [torch.cat(ranks.all([2, 3], torch.float32, 121))]


@case("all_gather_into_tensor", "in place")
def _(ranks: Ranks) -> Outcome:
    out = torch.zeros(ranks.size, 5)
    out[ranks.rank] = ranks.data(5, torch.float32, 122)
    dist.all_gather_into_tensor(out.view(-1), out[ranks.rank])
    return [out], [torch.stack(ranks.all(5, torch.float32, 122))]


@case("all_gather_object", "words")
def _(ranks: Ranks) -> Outcome:
    said: list[object] = [None] * ranks.size
    dist.all_gather_object(said, {"rank": ranks.rank, "text": "x" * ranks.rank})
    got = [torch.tensor([it["rank"], len(it["text"])]) for it in said]
    return got, [torch.tensor([rank, rank]) for rank in range(ranks.size)]


for root in (0, 3):
    for shape in ([], [0], [1], [4, 3]):

        def broadcast(ranks: Ranks, root=root, shape=shape) -> Outcome:
            tensor = ranks.data(shape, torch.bfloat16, 130)
            dist.broadcast(tensor, root)
            return [tensor], [ranks.data(shape, torch.bfloat16, 130, root)]

        case("broadcast", f"{shape} from {root}")(broadcast)


@case("broadcast", "a transposed tensor, in a group")
def _(ranks: Ranks) -> Outcome:
    group, members = ranks.groups["odd"]
    if group is None:
        return [], []
    tensor = ranks.data([3, 4], torch.float32, 131).T
    dist.broadcast(tensor, members[1], group=group)
    return [tensor], [ranks.data([3, 4], torch.float32, 131, members[1]).T]


@case("gather", "to 2")
def _(ranks: Ranks) -> Outcome:
    out = [torch.zeros(3) for _ in range(ranks.size)] if ranks.rank == 2 else None
    dist.gather(ranks.data(3, torch.float32, 140), out, dst=2)
    return out or [], ranks.all(3, torch.float32, 140) if out else []


@case("scatter", "from 1")
def _(ranks: Ranks) -> Outcome:
    parts = [ranks.data(4, torch.int32, 150 + at, 1) for at in range(ranks.size)]
    out = torch.zeros(4, dtype=torch.int32)
    dist.scatter(out, parts if ranks.rank == 1 else None, src=1)
    return [out], [parts[ranks.rank]]


@case("barrier", "all, and a group")
def _(ranks: Ranks) -> Outcome:
    dist.barrier()
    if ranks.groups["odd"][0] is not None:
        dist.barrier(group=ranks.groups["odd"][0])
    return [], []


@case("send, recv", "round a ring")
def _(ranks: Ranks) -> Outcome:
    left, right = (ranks.rank - 1) % ranks.size, (ranks.rank + 1) % ranks.size
    out = torch.zeros(5, dtype=torch.float64)
    mine = ranks.data(5, torch.float64, 160)
    if ranks.rank % 2:
        dist.recv(out, left)
        dist.send(mine, right)
    else:
        dist.send(mine, right)
        dist.recv(out, left)
    return [out], [ranks.data(5, torch.float64, 160, left)]


@case("send, recv", "nothing, then a scalar, in a group")
def _(ranks: Ranks) -> Outcome:
    group, members = ranks.groups["odd"]
    if group is None:
        return [], []
    out = [torch.zeros(0), torch.zeros(())]
    for tensor in out:
        if ranks.rank == members[0]:
            dist.send(torch.full_like(tensor, 7), members[1], group=group)
        else:
            dist.recv(tensor, members[0], group=group)
    return (out, [torch.zeros(0), torch.tensor(7.0)]) if ranks.rank == members[1] else ([], [])


@case("batch_isend_irecv", "all to all")
def _(ranks: Ranks) -> Outcome:
    out = [torch.zeros(rank + 1) for rank in range(ranks.size)]
    others = [rank for rank in range(ranks.size) if rank != ranks.rank]
    operations = [dist.P2POp(dist.irecv, out[rank], rank) for rank in others]
    mine = ranks.data(ranks.rank + 1, torch.float32, 170)
    operations += [dist.P2POp(dist.isend, mine, rank) for rank in others]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    right = [ranks.data(rank + 1, torch.float32, 170, rank) for rank in range(ranks.size)]
    right[ranks.rank] = torch.zeros(ranks.rank + 1)
    return out, right
