"""All-reduce over rows and columns of a grid of nodes (RailX, Section 4.2).

Half of the data goes along rows first, half along columns first, at the same time: reduced and
scattered over the line, reduced over the lines across, gathered over the line. How bytes go within
a line (a ring, or all at once) is the runtime's algorithm. Of a server with several ranks, all are
in the line first, and equal ones across. Checked: ``tests/test_testbed_railx.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from lightloom.runtime import Rank
from lightloom.runtime.work import now_ns

Array = npt.NDArray[Any]
# A group's number, and its ranks.
Group = tuple[int, Sequence[int]]


@dataclass(frozen=True)
class Done:
    """An all-reduce that is over; ``times`` and ``landed`` as `lightloom.runtime.Work` has them."""

    times: dict[str, tuple[int, int]]
    landed: None = None


def shares(count: int, members: int) -> list[int]:
    """Return how many elements each member has after a reduce-scatter.

    Examples
    --------
    >>> shares(7, 3), shares(0, 2)
    ([3, 2, 2], [0, 0])
    """
    return [count // members + (at < count % members) for at in range(members)]


def lines(columns: int, ranks: int, per_server: int) -> dict[str, list[list[int]]]:
    """Return the ranks of all lines, and across them.

    Returns
    -------
    dict
        ``rows`` and ``columns``: all ranks of their servers; ``along`` and ``down``: one rank a
        server, of a row and of a column, equal ones.

    Examples
    --------
    >>> found = lines(2, 8, 2)
    >>> found["rows"], found["down"]
    ([[0, 1, 2, 3], [4, 5, 6, 7]], [[0, 4], [1, 5], [2, 6], [3, 7]])
    """
    servers = ranks // per_server
    rows = [range(at, at + columns) for at in range(0, servers, columns)]
    down = [range(at, servers, columns) for at in range(columns)]

    def every(line: range) -> list[int]:
        return [server * per_server + local for server in line for local in range(per_server)]

    def equal(all_lines: list[range]) -> list[list[int]]:
        return [
            [server * per_server + local for server in line]
            for line in all_lines
            for local in range(per_server)
        ]

    return {
        "rows": [*map(every, rows)], "columns": [*map(every, down)],
        "along": equal(rows), "down": equal(down),
    }  # fmt: skip


class Hierarchy:
    """The groups of rows and columns that a rank is in; all ranks of the job make one.

    Parameters
    ----------
    rank
        The rank.
    columns
        Servers in a row; ranks are numbered row by row.
    """

    def __init__(self, rank: Rank, columns: int) -> None:
        self._rank = rank
        made: dict[tuple[int, ...], int] = {}
        ours: dict[str, Group] = {}
        for name, groups in lines(columns, rank.size, rank.per_server).items():
            for ranks in groups:
                key = tuple(ranks)
                if key not in made:
                    made[key] = rank.group(ranks)
                if rank.rank in ranks:
                    ours[name] = (made[key], ranks)
        self._orders = [(ours["rows"], ours["down"]), (ours["columns"], ours["along"])]

    def all_reduce(self, array: Array) -> Done:
        """Sum the arrays of all ranks, element by element, in place; the array is in the arena."""
        rank, begun, half = self._rank, now_ns(), len(array) // 2
        parts = []
        for (line, across), data in zip(self._orders, (array[:half], array[half:]), strict=True):
            rows = shares(len(data), len(line[1]))
            own = rank.empty(rows[line[1].index(rank.rank)], data.dtype)
            parts.append((line[0], across[0], data, rows, own))
        for work in [
            rank.reduce_scatter(own, data, rows, group=line, wait=False)
            for line, _, data, rows, own in parts
        ]:
            work.wait()
        for work in [
            rank.all_reduce(own, group=across, wait=False) for _, across, *_, own in parts
        ]:
            work.wait()
        for work in [
            rank.all_gather(data, own, rows, group=line, wait=False)
            for line, _, data, rows, own in parts
        ]:
            work.wait()
        ended = now_ns()
        none = (ended, ended)
        return Done(
            {"gather": (begun, begun), "exchange": (begun, ended), "local": none, "scatter": none}
        )
