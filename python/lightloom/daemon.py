"""Finds ``lightloomd`` and becomes it: daemons are not run from within Python."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from lightloom.errors import InputError

NAME = "lightloomd"


def find() -> str:
    """Return the path of ``lightloomd``: beside this Python, else on the PATH.

    Raises
    ------
    InputError
        If there is none.
    """
    beside = Path(sys.executable).with_name(NAME)
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which(NAME)
    if found is None:
        raise InputError(
            f"no {NAME} beside {sys.executable} or on the PATH: a wheel has it, and `make daemon` "
            "builds it"
        )
    return found


def become(arguments: Sequence[str]) -> NoReturn:
    """Replace this process by ``lightloomd`` with these arguments.

    Signals, the terminal and the exit code are its own from then on.
    """
    path = find()
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(path, [path, *arguments])


def logs(kind: str | None, level: str | None) -> list[str]:
    """Return the arguments that say how and what to log, which come before all others."""
    given = (("--log", kind), ("--log-level", level))
    return [word for flag, value in given if value is not None for word in (flag, value)]
