"""What goes wrong, as one rank sees it: python misuse.py WHAT. Prints the error of every rank."""

from __future__ import annotations

import os
import sys
import time
from datetime import timedelta

import lightloom.runtime.pytorch  # noqa: F401
import torch
import torch.distributed as dist
from lightloom.errors import LightloomError


def lost() -> None:
    work = dist.all_reduce(torch.ones(1000), async_op=True) if dist.get_rank() != 3 else None
    if work is None:
        os._exit(7)
    work.wait()


def lost_future() -> None:
    if dist.get_rank() == 3:
        os._exit(7)
    dist.all_reduce(torch.ones(1000), async_op=True).get_future().wait()


def late() -> None:
    if dist.get_rank() == 3:
        time.sleep(4)
    dist.all_reduce(torch.ones(3))


def tag() -> None:
    dist.send(torch.ones(1), (dist.get_rank() + 1) % 4, tag=5)


def half_complex() -> None:
    dist.all_reduce(torch.ones(1, dtype=torch.complex32))


def splits() -> None:
    dist.all_to_all_single(torch.ones(4), torch.ones(4), [4, 0, 0, 0], [1, 1, 1, 2])


def meta() -> None:
    dist.broadcast(torch.ones(4, device="meta"), 0)


def main(what: str) -> None:
    seconds = 2 if what == "late" else 60
    code = 0
    try:
        dist.init_process_group("lightloom", timeout=timedelta(seconds=seconds))
        globals()[what]()
    except (LightloomError, RuntimeError) as error:
        print(f"{type(error).__name__}: {error}")
    else:
        code = 0 if what == "late" and dist.get_rank() == 3 else 1
    if not what.startswith("lost"):
        if what == "late":
            time.sleep(5)
        dist.destroy_process_group()
    sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1])
