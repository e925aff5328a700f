"""``lightloom railx cost``."""

from __future__ import annotations

from lightloom.errors import InputError


def run() -> None:
    """Not there yet."""
    raise InputError("railx cost: is being built")
