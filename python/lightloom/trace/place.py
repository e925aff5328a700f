"""Whether a trace can be written somewhere, before the work and not after it."""

from __future__ import annotations

import os
from pathlib import Path

from lightloom.errors import InputError


def check_place(flag: str, path: Path) -> None:
    """Refuse a file that cannot be written.

    Raises
    ------
    InputError
        If it is a directory, or there is none to write it in; with the flag that named it.

    Examples
    --------
    >>> check_place("--out", Path("nowhere/trace.parquet"))
    Traceback (most recent call last):
    ...
    lightloom.errors.InputError: --out nowhere/trace.parquet: there is no directory nowhere
    """
    if path.is_dir():
        raise InputError(f"{flag} {path}: is a directory; must be a file")
    if not path.parent.is_dir():
        raise InputError(f"{flag} {path}: there is no directory {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise InputError(f"{flag} {path}: {path.parent} cannot be written to")
