"""Every chunk takes the NIC that the simulator's decisions give it: a capture says so, on each NIC.

One side is what the simulator computes (`lightloom.testbed.nics.parts`), the other what was read
from TCP between the servers of a testbed: nothing that the runtime says of itself.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest
from lightloom import daemon
from lightloom.errors import InputError
from lightloom.testbed import nics
from lightloom.testbed.collective import Outcome, collective
from lightloom.testbed.nics import Join, Matrix, Part
from lightloom.testbed.request import Request
from lightloom.testbed.shape import Shape
from lightloom.units import Rate, Time
from nic_capture import Sent, capture, chunks
from testbed_beds import standing

try:
    daemon.find()
except InputError:
    pytest.skip("no lightloomd: make daemon", allow_module_level=True)

NAME = f"n{os.getpid() % 1_000_000}"
CHUNK = 10_000
RAILS = ("rails", "stripe", "hash", "pxn", "source")
SHAPE = Shape(
    name=NAME, servers=3, ranks_per_server=2, eps_nics=3, ocs_nics=1,
    rate=Rate.parse("200 Mbps"), delay=Time.parse("1 ms"),
)  # fmt: skip
# Ranks of two and of three NICs each, or a NIC each.
OPTICAL = [
    replace(SHAPE, name=f"{NAME}-{ranks}", ranks_per_server=ranks, eps_nics=1, ocs_nics=2)
    for ranks in (2, 3)
]
# From a server to another: from where, how long, by which NIC, to which.
Row = tuple[int, int, int, int, int, int]


def recorded(ranks: int) -> Matrix:
    """Return what some of sixteen ranks sent in recorded iterations, made more uneven: odd numbers
    of bytes, from less than a chunk to several."""
    sixteen = Shape(servers=4, ranks_per_server=4)
    drawn = Request(workload="e16k4", size_bytes=160_001, count=3, seed=7).demands(sixteen)
    skew = np.arange(16, dtype=np.uint64) % np.uint64(6) + np.uint64(1)
    uneven = drawn * skew[None, :, None] * skew[None, None, ::-1] // np.uint64(9)
    return np.ascontiguousarray(uneven[:, :ranks, :ranks] | np.uint64(1))


def special(ranks: int) -> Matrix:
    """Return one demand: a rank that sends nothing, one that is sent nothing, whole chunks, last
    chunks that are not full, a byte, and pairs without any."""
    sizes = [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 7 * CHUNK // 2, 12_345]
    demand = np.array(sizes * ranks * ranks, dtype=np.uint64)[: ranks * ranks]
    demand = demand.reshape(ranks, ranks)
    demand[1, :], demand[:, ranks - 1] = 0, 0
    return demand


def hot(ranks: int, servers: tuple[int, int]) -> Matrix:
    """Return one demand in which two servers of three send each other most by far: all circuits go
    there, and the third has packet switches."""
    demand: Matrix = recorded(ranks)[0]
    one, two = (slice(ranks // 3 * server, ranks // 3 * (server + 1)) for server in servers)
    demand[one, two] *= np.uint64(20)
    demand[two, one] *= np.uint64(20)
    return demand


def demands(ranks: int) -> Matrix:
    return np.concatenate(
        [recorded(ranks), special(ranks)[None], [hot(ranks, (0, 1)), hot(ranks, (1, 2))]]
    )


def test_demands_are_skewed_and_odd() -> None:
    made = demands(6)
    assert made.shape == (6, 6, 6) and (made[:3] % 2 == 1).all()
    assert (made[:3].max(axis=(1, 2)) > 10 * made[:3].min(axis=(1, 2))).all()
    assert not made[3, 1].any() and not made[3, :, 5].any() and made[3].any()


def simulated(shape: Shape, path: str, matrix: Matrix, joins: Sequence[Join] = ()) -> list[Row]:
    """Return the simulator's list, as server to server: blocks by sending and receiving rank.

    Rails' parts are chunks. What circuits carry has no chunks in the simulator: bytes that follow
    each other over the same NICs are cut into chunks from their beginning.
    """
    begins: dict[tuple[int, int], int] = {}
    reached: dict[tuple[int, int], int] = defaultdict(int)
    ranks = shape.ranks_per_server
    for source, row in enumerate(matrix):
        for destination, bytes_ in enumerate(row):
            ends = (source // ranks, destination // ranks)
            begins[source, destination] = reached[ends]
            reached[ends] += int(bytes_)

    def placed(part: Part) -> Row:
        ends = (part.source // ranks, part.destination // ranks)
        offset = begins[part.source, part.destination] + part.offset
        return (*ends, offset, part.bytes, part.nic, part.peer_nic)

    rows = sorted(map(placed, nics.parts(shape, path, matrix, CHUNK, joins)))
    if path != "delegate":
        return rows
    cut: list[Row] = []
    for (server, peer, nic, peer_nic), same in groupby(rows, lambda row: (*row[:2], *row[4:])):
        runs = list(same)
        at, end = runs[0][2], runs[-1][2] + runs[-1][3]
        while at < end:
            length = min(CHUNK, end - at)
            cut.append((server, peer, at, length, nic, peer_nic))
            at += length
    return cut


def captured(found: list[Sent], count: int) -> list[list[Row]]:
    """Return the lists of the all-to-alls in a capture: what else ranks do sends some bytes."""
    operations = [
        [(it.server, it.peer, it.offset, it.length, it.nic, it.peer_nic) for it in same]
        for _, same in groupby(found, lambda it: (it.group, it.number))
    ]
    large = [rows for rows in operations if sum(row[3] for row in rows) > 1000]
    assert len(large) == count
    return [sorted(rows) for rows in large]


@pytest.fixture(scope="module", params=[SHAPE, *OPTICAL], ids=["rails", "optical-2", "optical-3"])
def bed(request: pytest.FixtureRequest) -> Iterator[Shape]:
    shape: Shape = request.param
    with standing(shape):
        yield shape


def run(
    bed: Shape, paths: tuple[str, ...], matrices: Matrix, place: Path
) -> tuple[list[Outcome], list[list[Row]]]:
    """Run all-to-alls under a capture. On a busy machine a lane may come up late, and a chunk is
    sent another way or again, which the runtime counts; then all is run anew."""
    request = Request(paths=paths, count=len(matrices), chunk_bytes=CHUNK)
    for _ in range(5):
        with capture(bed, place) as files:
            outcomes = collective(bed.name, request, demands=matrices)
        if not any(outcome.detours or outcome.resent for outcome in outcomes):
            return outcomes, captured(chunks(bed, files), len(outcomes))
    raise AssertionError("chunks took other ways than planned, five times")


def test_every_chunk_takes_the_nic_that_the_simulator_says(bed: Shape, tmp_path: Path) -> None:
    matrices = demands(bed.servers * bed.ranks_per_server)
    paths = RAILS if bed.eps_nics > 1 else ("delegate",)
    outcomes, lists = run(bed, paths, matrices, tmp_path)
    used, stood = set(), set()
    for outcome, rows in zip(outcomes, lists, strict=True):
        joins = outcome.joins or ()
        expected = simulated(bed, outcome.path, matrices[outcome.demand], joins)
        assert rows == expected, (outcome.path, outcome.demand)
        used |= {row[4] for row in rows}
        stood.add(tuple(joins))
        # What came through the optical switch had a circuit from this port to that.
        ends = {pair for join in joins for pair in (join, join[::-1])}
        first = bed.eps_nics
        optical = [row for row in rows if row[4] >= first]
        assert {((row[0], row[4] - first), (row[1], row[5] - first)) for row in optical} <= ends
    assert len(stood) > 1 or paths == RAILS
    assert used == set(range(3))  # NICs at both switches
