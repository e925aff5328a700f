"""Cases of reductions: against sums in 64 bits."""

from __future__ import annotations

import torch
import torch.distributed as dist
from case import Outcome, Ranks, case
from cases_moves import TYPES, short
from torch.distributed import ReduceOp

FOLDS = {
    "SUM": torch.sum, "PRODUCT": torch.prod, "MIN": torch.amin, "MAX": torch.amax,
}  # fmt: skip


def folded(tensors: list[torch.Tensor], name: str) -> torch.Tensor:
    """What is right, computed in the widest type and converted once."""
    dtype = tensors[0].dtype
    wide = torch.complex128 if dtype.is_complex else torch.float64
    wide = wide if dtype.is_floating_point or dtype.is_complex else torch.int64
    every = torch.stack(tensors).to(wide)
    if name == "AVG":
        return (every.sum(0) / len(tensors)).to(dtype)
    return FOLDS[name](every, dim=0).to(dtype)


for at, dtype in enumerate(TYPES):
    for name in ("SUM", "PRODUCT", "MIN", "MAX", "AVG"):
        if dtype.is_complex and name not in ("SUM", "AVG"):
            continue
        if name == "AVG" and not (dtype.is_floating_point or dtype.is_complex):
            continue

        def reduced(ranks: Ranks, dtype=dtype, name=name, at=at) -> Outcome:
            got, right = [], []
            for count in (0, 1, 33):
                tensor = ranks.data(count, dtype, 200 + at)
                dist.all_reduce(tensor, getattr(ReduceOp, name))
                got.append(tensor)
                right.append(folded(ranks.all(count, dtype, 200 + at), name))
            return got, right

        whole = not (dtype.is_floating_point or dtype.is_complex) or name in ("MIN", "MAX")
        case("all_reduce", f"{name} of {short(dtype)}", whole)(reduced)

for name, fold in (
    ("BAND", torch.bitwise_and), ("BOR", torch.bitwise_or), ("BXOR", torch.bitwise_xor)
):  # fmt: skip

    def bitwise(ranks: Ranks, name=name, fold=fold) -> Outcome:
        tensor = ranks.data(9, torch.int32, 230)
        dist.all_reduce(tensor, getattr(ReduceOp, name))
        one, two, three, four = ranks.all(9, torch.int32, 230)
        return [tensor], [fold(fold(one, two), fold(three, four))]

    case("all_reduce", f"{name} of int32")(bitwise)


@case("all_reduce", "a pair's sum, async, with a future")
def _(ranks: Ranks) -> Outcome:
    group, members = ranks.groups["odd"]
    if group is None:
        return [], []
    tensor = ranks.data(1000, torch.float32, 240)
    future = dist.all_reduce(tensor, group=group, async_op=True).get_future()
    halved = future.then(lambda it: it.value()[0] / 2).wait()
    one, other = (ranks.data(1000, torch.float32, 240, rank) for rank in members)
    return [tensor, halved], [one + other, (one + other) / 2]


@case("all_reduce", "a transposed tensor, a scalar")
def _(ranks: Ranks) -> Outcome:
    tensors = [ranks.data([3, 4], torch.int64, 241).T, ranks.data([], torch.int64, 242)]
    for tensor in tensors:
        dist.all_reduce(tensor)
    right = [folded(ranks.all([3, 4], torch.int64, 241), "SUM").T]
    return tensors, [*right, folded(ranks.all([], torch.int64, 242), "SUM")]


@case("all_reduce_coalesced", "two", exact=False)
def _(ranks: Ranks) -> Outcome:
    tensors = [ranks.data(3, torch.float32, 244), ranks.data([2, 2], torch.float32, 245)]
    dist.all_reduce_coalesced(tensors)
    seeds = (([3], 244), ([2, 2], 245))
    return tensors, [folded(ranks.all(shape, torch.float32, it), "SUM") for shape, it in seeds]


@case("reduce", "to 1", exact=False)
def _(ranks: Ranks) -> Outcome:
    tensor = ranks.data(5, torch.float64, 250)
    dist.reduce(tensor, 1)
    every = ranks.all(5, torch.float64, 250)
    # What others have afterwards is not defined by PyTorch.
    return ([tensor], [folded(every, "SUM")]) if ranks.rank == 1 else ([], [])


for at, dtype in enumerate([torch.float32, torch.bfloat16, torch.float16, torch.int64]):
    for count in (0, 1, 6):

        def scattered(ranks: Ranks, dtype=dtype, count=count, at=at) -> Outcome:
            sent = ranks.data(count * ranks.size, dtype, 260 + at)
            before, out = sent.clone(), torch.zeros(count, dtype=dtype)
            dist.reduce_scatter_tensor(out, sent)
            assert torch.equal(sent, before)
            whole = folded(ranks.all(count * ranks.size, dtype, 260 + at), "SUM")
            return [out], [whole[count * ranks.rank : count * (ranks.rank + 1)]]

        whole = not dtype.is_floating_point
        case("reduce_scatter_tensor", f"{count} of {short(dtype)}", whole)(scattered)


@case("reduce_scatter_tensor", "an average, async", exact=False)
def _(ranks: Ranks) -> Outcome:
    sent, out = ranks.data([2 * ranks.size, 3], torch.float32, 270), torch.zeros(2, 3)
    dist.reduce_scatter_tensor(out, sent, ReduceOp.AVG, async_op=True).wait()
    whole = folded(ranks.all([2 * ranks.size, 3], torch.float32, 270), "AVG")
    return [out], [whole[2 * ranks.rank : 2 * ranks.rank + 2]]


@case("reduce_scatter", "a list, MAX")
def _(ranks: Ranks) -> Outcome:
    parts = [ranks.data(4, torch.float32, 280 + at) for at in range(ranks.size)]
    out = torch.zeros(4)
    dist.reduce_scatter(out, parts, ReduceOp.MAX)
    return [out], [folded(ranks.all(4, torch.float32, 280 + ranks.rank), "MAX")]
