"""``lightloom railx map``."""

from __future__ import annotations

from lightloom.errors import InputError


def run() -> None:
    """Not there yet."""
    raise InputError("railx map: is being built")
