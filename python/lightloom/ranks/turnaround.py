"""What each rank of ``testbed turnaround`` does: ``python -m lightloom.ranks.turnaround``."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from lightloom.ranks.collectives import over
from lightloom.runtime import Rank
from lightloom.runtime.work import now_ns

# What servers of a pair say that they will send each other, and what the others say where each has
# one port: else a pair would be as well off without a circuit. What they send [B].
PAIR_BYTES, OTHER_BYTES = 2 << 30, 1 << 30
FEW_BYTES = 1000
# Circuits that are not there after so long will not be [s].
PATIENCE_S = 60


def pairing(servers: int, round_: int) -> list[tuple[int, int]]:
    """Return which servers are joined in a round: other ones in the next.

    Examples
    --------
    >>> [pairing(4, at) for at in range(3)]
    [[(0, 1), (2, 3)], [(0, 2), (1, 3)], [(0, 3), (1, 2)]]
    >>> [pairing(3, at) for at in range(2)]
    [[(0, 1)], [(0, 2)]]
    """
    if servers == 3:
        return [(0, 1 + round_ % 2)]
    other = 1 + round_ % 3
    left = [server for server in (1, 2, 3) if server != other]
    return [(0, other), (left[0], left[1])]


def optical_bytes(rank: Rank) -> int:
    """Return what has come over circuits [B]."""
    return sum(nic["bytes_received"] for nic in rank.statistics() if nic["circuit"])


def main(place: Path) -> None:
    """Be a rank."""
    rounds = int((place / "rounds").read_text())
    rows: list[list[float]] = []
    with Rank() as rank:
        sent, received = (rank.empty(FEW_BYTES, "uint8") for _ in range(2))
        all_have = rank.empty(1, "uint8")
        # The first round is not counted: connections are new.
        for round_ in range(rounds + 1):
            peer = dict(
                both
                for one, other in pairing(rank.size, round_)
                for both in ((one, other), (other, one))
            ).get(rank.rank)
            other = OTHER_BYTES if rank.size == 3 else 0
            demand = [PAIR_BYTES if to == peer else other for to in range(rank.size)]
            rank.barrier()
            announced = now_ns()
            answer = rank.announce(demand)
            rows_of = [FEW_BYTES if to == peer else 0 for to in range(rank.size)]
            count = FEW_BYTES if peer is not None else 0
            until = time.monotonic() + PATIENCE_S
            all_have[0] = 0
            # Until NICs are active, bytes take packet switches: those do not count.
            while not all_have[0]:
                if time.monotonic() > until:
                    raise over(rank.rank, f"no bytes over circuits in {PATIENCE_S} s")
                connected, before = now_ns(), optical_bytes(rank)
                rank.all_to_all(received[:count], sent[:count], rows_of, rows_of, path="delegate")
                delivered = now_ns()
                all_have[0] = optical_bytes(rank) - before >= count
                rank.all_reduce(all_have, "min")
            row: list[float] = [announced, answer["decided_ns"], connected, delivered]
            rows.append(row if peer is not None else [float("nan")] * 4)
    (place / f"rank-{rank.rank}.json").write_text(json.dumps(rows[1:]))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
