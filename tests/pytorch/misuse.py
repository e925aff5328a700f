"""What goes wrong, as one rank sees it: python misuse.py WHAT. Prints the error of every rank."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from datetime import timedelta

import lightloom.runtime.pytorch  # noqa: F401
import torch
import torch.distributed as dist
from lightloom.errors import LightloomError


def lost() -> None:
    """A rank ends while others wait: for a work, for a future."""
    if dist.get_rank() == 3:
        os._exit(7)
    works = [dist.all_reduce(torch.ones(1000), async_op=True) for _ in range(2)]
    tried(works[0].wait)
    tried(works[1].get_future().wait)


def late() -> None:
    """A rank does not come."""
    group = dist.new_group(timeout=timedelta(seconds=2))
    dist.barrier()
    if dist.get_rank() == 3:
        time.sleep(5)
        print("RunError: all_reduce: not over after 2 s")
    else:
        tried(lambda: dist.all_reduce(torch.ones(3), group=group))
        time.sleep(5)


def refused() -> None:
    """What cannot be: each before anything is sent."""
    tried(lambda: dist.send(torch.ones(1), (dist.get_rank() + 1) % 4, tag=5))
    tried(lambda: dist.all_reduce(torch.ones(1, dtype=torch.uint16)))
    tried(lambda: dist.all_to_all_single(torch.ones(4), torch.ones(4), [4, 0, 0, 0], [1, 1, 1, 2]))
    tried(lambda: dist.reduce_scatter_tensor(torch.ones(1), torch.ones(4), dist.ReduceOp.BOR))
    tried(lambda: dist.broadcast(torch.ones(4).to_sparse(), 0))


def tried(call: Callable[[], object]) -> None:
    try:
        call()
    except (LightloomError, RuntimeError) as error:
        print(f"{type(error).__name__}: {error}")
    else:
        raise SystemExit("that makes no sense")


def main(what: str) -> None:
    dist.init_process_group("lightloom", timeout=timedelta(seconds=60))
    globals()[what]()
    if what != "lost":
        dist.destroy_process_group()
    if what == "refused":
        alone = {"store": dist.HashStore(), "rank": 0, "world_size": 1}
        tried(lambda: dist.init_process_group("lightloom", **alone))


if __name__ == "__main__":
    main(sys.argv[1])
