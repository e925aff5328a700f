"""``lightloom railx allocate``."""

from __future__ import annotations

from lightloom.errors import InputError


def run() -> None:
    """Not there yet."""
    raise InputError("railx allocate: is being built")
