"""What the groups of a process share: its rank, and the numbers of groups."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch

from lightloom.errors import InputError, RunError
from lightloom.runtime.rank import NUMBERED, Rank

# Groups that have the same first member are told apart by so many bits, and so are members.
BITS = 15
_rank: Rank | None = None
_over = False
_counts = itertools.count()


def rank() -> Rank:
    """Return this process's rank, once ``init_process_group`` has made it.

    Raises
    ------
    RunError
        Before it, and after ``destroy_process_group``.
    """
    if _rank is None:
        raise RunError('there is no rank: call dist.init_process_group("lightloom") first')
    return _rank


def empty(shape: int | Sequence[int], dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return a tensor that the runtime uses without a copy; its content is not defined.

    Parameters
    ----------
    shape
        Of the tensor, which is on the CPU.
    dtype
        Of its elements.

    Raises
    ------
    RunError
        Before ``init_process_group``, or if there is no room.
    """
    sizes = [shape] if isinstance(shape, int) else list(shape)
    count = 1
    for size in sizes:
        count *= size
    bytes_ = rank().empty(count * dtype.itemsize, "uint8")
    return torch.from_numpy(bytes_).view(dtype).view(sizes)


def begin(number: int, size: int) -> Rank:
    """Connect to the runtime, for the group of all ranks.

    Raises
    ------
    InputError
        If there is no runtime, the group is not of all ranks of its job, or the rank has left it.
    """
    global _rank
    if _over:
        raise InputError("this rank has left its job (destroy_process_group), and comes once")
    if _rank is None:
        _rank = Rank(rank=number, size=size)
    return _rank


def end() -> None:
    """Say goodbye to the runtime."""
    global _rank, _over
    if _rank is not None:
        going, _rank, _over = _rank, None, True
        going.leave()


def group(store: Any, ranks: Sequence[int]) -> int:
    """Make a group of ranks, each of which calls this; return its number.

    The first member chooses a number that no other group has, and tells the others.

    Raises
    ------
    InputError
        If the ranks do not rise.
    """
    ours = rank()
    if any(one >= other for one, other in itertools.pairwise(ranks)):
        raise InputError(f"ranks: {list(ranks)}: must rise")
    if ours.rank == ranks[0]:
        count = next(_counts)
        if max(count, ours.rank) >> BITS:
            raise RunError(f"ranks up to {(1 << BITS) - 1} make as many groups each, and no more")
        store.set("number", str(NUMBERED | ours.rank << BITS | count))
    return ours.group(ranks, int(store.get("number")))
