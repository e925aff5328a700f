"""References for RailX by HiGHS: the largest job on a grid with failed nodes.

The product of rows kept and columns kept is what makes the problem hard: for a given number of
rows dropped, the fewest columns to drop is a small mixed-integer program (a vertex cover with one
side limited), and there are only as many of those as rows with faults. Used by tests and by
``lightloom railx allocate --exact``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from lightloom.errors import RunError


class Largest(NamedTuple):
    """An optimal job."""

    nodes: int
    dropped_rows: tuple[int, ...]
    dropped_columns: tuple[int, ...]


def largest(rows: int, columns: int, faults: Sequence[tuple[int, int]]) -> Largest:
    """Find rows and columns to drop so that no fault is left and rows x columns is largest.

    Parameters
    ----------
    rows, columns
        The grid.
    faults
        (row, column) of failed nodes, from 0, all different.

    Raises
    ------
    RunError
        If HiGHS fails.

    Examples
    --------
    >>> largest(8, 8, [(0, 0), (0, 1), (3, 5)])
    Largest(nodes=49, dropped_rows=(0,), dropped_columns=(5,))
    """
    import highspy

    in_rows = sorted({row for row, _ in faults})
    in_columns = sorted({column for _, column in faults})
    model: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    model.setOptionValue("output_flag", False)
    model.setOptionValue("threads", 1)
    row_of = {row: model.addBinary() for row in in_rows}
    column_of = {column: model.addBinary() for column in in_columns}
    for row, column in faults:
        model.addConstr(row_of[row] + column_of[column] >= 1)
    most = model.addConstr(sum(row_of.values(), 0.0) <= 0) if in_rows else None
    best = Largest(0, tuple(in_rows), tuple(in_columns))
    for dropped in range(len(in_rows) + 1):
        if (rows - dropped) * columns <= best.nodes:
            break  # fewer rows than this never make it up
        if most is not None:
            model.changeRowBounds(most.index, -highspy.kHighsInf, float(dropped))
            model.minimize(sum(column_of.values(), 0.0))
            status = model.getModelStatus()
            if status != highspy.HighsModelStatus.kOptimal:
                raise RunError(f"railx: HiGHS ended with {model.modelStatusToString(status)}")
        without = tuple(row for row in in_rows if model.val(row_of[row]) > 0.5)
        kept = {column for row, column in faults if row not in set(without)}
        nodes = (rows - len(without)) * (columns - len(kept))
        if nodes > best.nodes:
            best = Largest(nodes, without, tuple(sorted(kept)))
    return best
