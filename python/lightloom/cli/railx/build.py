"""``lightloom railx build``."""

from __future__ import annotations

from lightloom.errors import InputError


def run() -> None:
    """Not there yet."""
    raise InputError("railx build: is being built")
