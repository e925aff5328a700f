"""Carries out all cases as one rank, by a backend; writes what came of them.

python program.py BACKEND DIRECTORY
"""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path

import cases_models  # noqa: F401
import cases_moves  # noqa: F401
import cases_reductions  # noqa: F401
import torch
import torch.distributed as dist
from case import CASES, Ranks
from lightloom.errors import LightloomError
from torch.distributed._functional_collectives import AsyncCollectiveTensor


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """What a functional collective returns is waited for when it is used."""
    return tensor.wait() if isinstance(tensor, AsyncCollectiveTensor) else tensor


def main(backend: str, place: Path) -> None:
    torch.set_num_threads(1)
    if backend == "lightloom":
        import lightloom.runtime  # noqa: F401
    dist.init_process_group(backend, timeout=timedelta(seconds=60))
    ranks = Ranks(dist.get_rank(), dist.get_world_size())
    for name, members in (("three", [0, 2, 3]), ("odd", [1, 3]), ("one", [2])):
        group = dist.new_group(members)
        ranks.groups[name] = (group if ranks.rank in members else None, members)
    outcomes: dict[str, object] = {}
    for case in CASES:
        try:
            got, right = case.run(ranks)
            outcomes[case.name] = [plain(it) for it in got], [plain(it) for it in right]
        except (RuntimeError, ValueError, LightloomError) as error:
            outcomes[case.name] = f"{type(error).__name__}: {error}"
    torch.save(outcomes, place / f"{backend}-{ranks.rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
