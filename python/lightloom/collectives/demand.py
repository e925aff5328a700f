"""What ranks have for each other, as a file or an array: of an all-to-all that is not even."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from lightloom.collectives.spec import MOST_RANKS
from lightloom.errors import InputError
from lightloom.plan import demand
from lightloom.plan.demand import Matrix


def read_matrix(source: str | PathLike[str], ranks: int | None = None) -> Matrix:
    """Read bytes from each rank (row) to each other (column); see `lightloom.plan.demand`.

    Raises
    ------
    InputError
        Naming the file, the entry, and what is allowed; also if there are other than `ranks`.
    """
    return _of_ranks(demand.read(Path(source), most=MOST_RANKS), str(source), ranks)


def given_matrix(entries: Any, ranks: int | None = None) -> Matrix:
    """Check an array, as `read_matrix` checks a file.

    Examples
    --------
    >>> given_matrix([[0, 5], [7, 0]]).tolist()
    [[0, 5], [7, 0]]
    >>> given_matrix([[0, float("nan")], [7, 0]])
    Traceback (most recent call last):
    ...
    lightloom.errors.InputError: matrix: [0][1] = nan: must be a whole number of bytes, 0 or more
    """
    try:
        found = np.asarray(entries)
    except ValueError:
        raise InputError("matrix: rows of different lengths: must be square") from None
    return _of_ranks(demand.matrix(found, "matrix", MOST_RANKS), "matrix", ranks)


def _of_ranks(matrix: Matrix, name: str, ranks: int | None) -> Matrix:
    if ranks is not None and len(matrix) != ranks:
        raise InputError(f"{name}: {len(matrix)} ranks: must be cluster.gpus = {ranks}")
    return matrix
