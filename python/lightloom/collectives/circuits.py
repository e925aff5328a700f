"""Circuits that are given, as a CSV of server,server[,circuits]; a header may stand above them."""

from __future__ import annotations

import csv
from os import PathLike
from pathlib import Path

from lightloom.errors import InputError


def read_circuits(path: str | PathLike[str]) -> list[tuple[int, int, int]]:
    r"""Read circuits: server, server, how many.

    Raises
    ------
    InputError
        Naming file, row and column.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "circuits.csv"
    >>> _ = file.write_text("server,server,circuits\n0,1,2\n1,2\n")
    >>> read_circuits(file)
    [(0, 1, 2), (1, 2, 1)]
    """
    try:
        with Path(path).open(newline="", encoding="utf-8-sig") as file:
            rows = [(number, row) for number, row in enumerate(csv.reader(file), 1) if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
    if rows and rows[0][1][0].strip().lower() == "server":
        rows = rows[1:]
    if not rows:
        raise InputError(f"{path}: is empty; allowed: rows of server,server[,circuits]")
    found = []
    for number, row in rows:
        if len(row) not in (2, 3):
            raise InputError(f"{path}: row {number}: must be server,server[,circuits]")
        for column, cell in enumerate(row, 1):
            if not (cell.strip().isascii() and cell.strip().isdecimal() and len(cell) < 10):
                raise InputError(
                    f"{path}: row {number}, column {column}: {cell[:40]!r}: must be a whole number"
                )
        a, b, *count = (int(cell) for cell in row)
        found.append((a, b, count[0] if count else 1))
    return found
