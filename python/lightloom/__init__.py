"""Lightloom: design, simulate and run the reconfigurable networks of GPU clusters."""

from lightloom._core import __version__

__all__ = ["__version__"]
