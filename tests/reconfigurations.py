"""Does a byte get lost or doubled when circuits change under it? Real collectives on a testbed.

    python tests/reconfigurations.py --count 1000

Four servers of two ranks, one packet NIC and two optical ones each. Ranks send each other bytes all
the time, two all-to-alls under way, while the demand that they announce changes: so the controller
sets other circuits over TL1, again and again, under traffic. Every byte that comes is checked.
The kernel counts the frames that the optical switch loses, those with data apart from bare
acknowledgements.

With ``--without-fence`` runtimes say at once that ports are drained, and no filter stands at NICs:
this shows what the fence is for. The exit code is 0 if every byte came, and with the fence no frame
with data was lost in the dark; 1 if not; 2 for bad input; 3 if no testbed can be built here.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from lightloom import daemon, testbed
from lightloom.errors import InputError, RunError
from lightloom.ranks.collectives import pattern
from lightloom.runtime import Rank
from lightloom.testbed import record, system
from lightloom.units import Rate, Time

# What ranks say that they will send: enough for the controller to move circuits for [B].
ANNOUNCED = 1 << 30
UNDER_WAY = 2


def demand(number: int, ranks: int, per_server: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return what is announced in a round: most between servers of one pairing, which turns."""
    servers = ranks // per_server
    matrix = np.full((ranks, ranks), 1000, np.int64)
    order = [0, *np.roll(np.arange(1, servers), number % (servers - 1)).tolist()]
    for one, other in zip(order[: servers // 2], order[servers // 2 :][::-1], strict=False):
        for a, b in ((one, other), (other, one)):
            rows = slice(a * per_server, (a + 1) * per_server)
            matrix[rows, b * per_server : (b + 1) * per_server] = ANNOUNCED
    return matrix


def sizes(number: int, ranks: int, mean: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return what ranks send each other: odd, uneven, and sometimes nothing."""
    drawn = np.random.default_rng([number, 7]).integers(0, 2 * mean + 1, (ranks, ranks))
    return np.where(drawn < mean // 4, 0, drawn)


class Flow:
    """One all-to-all under way, and what must come of it."""

    def __init__(self, rank: Rank, number: int, mean: int) -> None:
        self.rank, self.number = rank, number
        matrix = sizes(number, rank.size, mean)
        self.sends = [int(size) for size in matrix[rank.rank]]
        self.receives = [int(size) for size in matrix[:, rank.rank]]
        parts = [pattern(rank.rank, to, number, size) for to, size in enumerate(self.sends)]
        self.sent = rank.empty(sum(self.sends), "uint8")
        self.sent[:] = np.concatenate(parts)
        self.received = rank.empty(sum(self.receives), "uint8")
        self.received[:] = 0
        self.work = rank.all_to_all(
            self.received, self.sent, self.receives, self.sends, path="delegate", wait=False
        )

    def end(self) -> int:
        """Wait, check every byte, and return how many came."""
        self.work.wait()
        at = 0
        for source, size in enumerate(self.receives):
            wanted = pattern(source, self.rank.rank, self.number, size)
            if not np.array_equal(self.received[at : at + size], wanted):
                raise SystemExit(f"rank {self.rank.rank}: round {self.number}: wrong bytes")
            at += size
        return at


def work(place: Path) -> None:
    """Be a rank."""
    plan = json.loads((place / "plan.json").read_text())
    came, flows = 0, []
    with Rank() as rank:
        for number in range(plan["rounds"]):
            flows.append(Flow(rank, number, plan["mean"]))
            if len(flows) > UNDER_WAY:
                came += flows.pop(0).end()
            rank.announce(demand(number, rank.size, rank.per_server)[rank.rank].tolist())
        came += sum(flow.end() for flow in flows)
        rank.barrier()
        said = {"bytes": came, "nics": rank.statistics()}
        (place / f"rank-{rank.rank}.json").write_text(json.dumps(said))


def measure(count: int, rate: str, fence: bool) -> dict[str, Any]:
    """Run it on a testbed of its own."""
    shape = testbed.Shape(
        name=f"re{os.getpid() % 1_000_000}", servers=4, ranks_per_server=2, eps_nics=1,
        ocs_nics=2, rate=Rate.parse(rate), delay=Time.parse("10 ms"),
    )  # fmt: skip
    testbed.up(shape)
    try:
        if not fence:
            pins = record.place(shape.name) / "bpf"
            for server, node in enumerate(shape.nodes):
                words = [daemon.find(), "filter", "detach", str(pins / node)]
                system.call(*system.within(shape.namespace(server), *words))
        settings = testbed.Settings(filter=fence, fence=fence)
        # An all-to-all takes longer than a change: it is under way whenever circuits change.
        mean = int(shape.rate) // 8 // 10 // (shape.servers * shape.ranks_per_server)
        before = plans(shape.name)
        begun = time.monotonic()
        with testbed.Job(shape.name, settings) as job:
            plan = {"rounds": count, "mean": mean}
            (job.directory / "plan.json").write_text(json.dumps(plan))
            job.run([sys.executable, __file__, "--rank", str(job.directory)])
            ranks = range(shape.servers * shape.ranks_per_server)
            said = [json.loads((job.directory / f"rank-{at}.json").read_text()) for at in ranks]
        seconds = time.monotonic() - begun
        words = ["ocs", "counts", "--json", str(record.place(shape.name) / "bpf" / "switch")]
        switch = [json.loads(line) for line in system.call(daemon.find(), *words).splitlines()]
        nics = [nic for row in said[:: shape.ranks_per_server] for nic in row["nics"]]
        return {
            "plans": plans(shape.name) - before,
            "seconds": round(seconds, 1),
            "bytes": sum(row["bytes"] for row in said),
            "over_circuits": sum(nic["bytes_sent"] for nic in nics if nic["circuit"]),
            "resent": sum(nic["resent"] for nic in nics),
            "doubled": sum(nic["doubled"] for nic in nics),
            "detours": sum(nic["detours"] for nic in nics),
            "dark_data": sum(row["dark"] + row["unconnected"] for row in switch),
            "dark_bare": sum(row["dark_bare"] + row["unconnected_bare"] for row in switch),
        }
    finally:
        testbed.down(shape.name)


def plans(name: str) -> int:
    """Return how many plans the controller has carried out."""
    ocs = testbed.known(name).ocs
    words = [sys.executable, "-m", "lightloom", "controller", "status", "--json"]
    words += ["--url", f"http://{record.CONTROLLER}", "--token-file", str(record.token_file(name))]
    return int(json.loads(system.call(*system.within(ocs, *words)))["generation"])


def main() -> int:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1000, help="rounds of demand")
    parser.add_argument("--rate", default="50 Mbps", help="of each NIC")
    parser.add_argument("--without-fence", action="store_true")
    parser.add_argument("--rank", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.rank is not None:
        work(given.rank)
        return 0
    if given.count < 1:
        print(f"--count: {given.count}: must be from 1", file=sys.stderr)
        return 2
    try:
        system.check()
    except InputError as error:
        print(error, file=sys.stderr)
        return 3
    try:
        found = measure(given.count, given.rate, not given.without_fence)
    except (InputError, RunError) as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps(found))
    return 0 if given.without_fence or found["dark_data"] == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
