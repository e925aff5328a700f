"""A rank that exchanges bytes, checks each, and says when each exchange was over.

    lightloom testbed run -- python tests/collective_loop.py DIRECTORY

It makes the file ``begun`` there after the first exchange, and ends when somebody makes ``end``.

Used by ``tests/test_collective_faults.py``, which breaks things meanwhile.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
from lightloom.runtime import Rank
from reconfigurations import Flow, demand

MEAN_BYTES = 40_000


def main(place: Path) -> None:
    """Be a rank."""
    times, relayed, error, circuits = [], [], None, 0
    go_on = np.ones(1, np.int32)
    try:
        with Rank() as rank:
            wanted = demand(0, rank.size, rank.per_server)[rank.rank].tolist()
            circuits = rank.announce(wanted)["circuits"]
            (place / f"circuits-{rank.rank}").write_text(str(circuits))
            while go_on[0]:
                Flow(rank, len(times), MEAN_BYTES).end()
                (place / "begun").touch()
                go_on[0] = not (place / "end").exists()
                rank.all_reduce(go_on, "min")
                times.append(time.monotonic())
                relayed.append(sum(nic["relayed"] for nic in rank.statistics()))
            statistics = rank.statistics()
    except Exception as failure:
        error, statistics = f"{type(failure).__name__}: {failure}", []
    said = {
        "times": times,
        "relayed": relayed,
        "ended": time.monotonic(),
        "error": error,
        "nics": statistics,
        "circuits": circuits,
    }
    (place / f"rank-{rank.rank}.json").write_text(json.dumps(said))
    sys.exit(error is not None)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
