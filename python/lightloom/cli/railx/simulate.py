"""``lightloom railx simulate``."""

from __future__ import annotations

from lightloom.errors import InputError


def run() -> None:
    """Not there yet."""
    raise InputError("railx simulate: is being built")
