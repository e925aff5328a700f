"""A rank whose job goes on from a file after a restart, and that fails when it is told to.

    lightloom testbed run --spares 1 -- python tests/spare_rank.py DIRECTORY STEPS [FAILURE ...]

A FAILURE is ``ATTEMPT:RANK:STEP:HOW``, where HOW is an exit code or ``kill``. At each step all
ranks add up what they know to be right, and write how far they are; an attempt goes on from there.
Each says at its end, or when it hears that another one is gone, what it has seen.

Used by ``tests/test_testbed_spares.py``.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from lightloom.errors import RunError
from lightloom.ranks.collectives import over
from lightloom.runtime import Rank

# Between steps [s].
PAUSE_S = 0.02
# A server that was lost has its circuits for so long: a lease, and what the controller adds [s].
LEASE_S = 1.2


def total(step: int, size: int) -> int:
    """Return what all ranks together have in a step."""
    return sum((rank + 1) * (step + 1) for rank in range(size))


def work(rank: Rank, place: Path, steps: int, failures: dict[int, str]) -> dict[str, Any]:
    """Do the steps that are left; return what was seen."""
    mine = place / f"steps-{rank.rank}"
    rank.barrier()  # all have read before one writes
    # What the one has done that has done least: all have.
    done = min(
        int((place / f"steps-{at}").read_text()) if (place / f"steps-{at}").exists() else 0
        for at in range(rank.size)
    )
    rank.barrier()
    if os.environ["TORCHELASTIC_RESTART_COUNT"] != "0":
        time.sleep(LEASE_S)
    others = [0 if at == rank.rank else 200_000 for at in range(rank.size)]
    answer = rank.announce(others)
    sums = []
    for step in range(done, steps):
        if step in failures:
            if failures[step] == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            sys.exit(int(failures[step]))
        array = np.full(50_000, (rank.rank + 1) * (step + 1), np.int64)
        rank.all_reduce(array)
        assert (array == total(step, rank.size)).all()
        sums.append(int(array[0]))
        mine.with_suffix(".new").write_text(str(step + 1))
        mine.with_suffix(".new").replace(mine)
        (place / "begun").touch()
        time.sleep(PAUSE_S)
    return {
        "from": done, "sums": sums, "server": rank.server, "circuits": answer["circuits"],
        "ports": answer["ports"], "decided": answer["decided"],
        "restarts": os.environ["TORCHELASTIC_RESTART_COUNT"],
        "most": os.environ["TORCHELASTIC_MAX_RESTARTS"],
        "bytes": sum(nic["bytes_sent"] for nic in rank.statistics() if nic["circuit"]),
    }  # fmt: skip


def main(place: Path, steps: int, failures: list[str]) -> None:
    """Be a rank."""
    attempt, number = os.environ["TORCHELASTIC_RESTART_COUNT"], os.environ["RANK"]
    own = [failure.split(":") for failure in failures]
    mine = {int(step): how for at, rank, step, how in own if (at, rank) == (attempt, number)}
    try:
        with Rank() as rank:
            said = work(rank, place, steps, mine)
    except RunError as error:
        raise over(number, str(error)) from None
    (place / f"rank-{number}.json").write_text(json.dumps(said))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
