"""Gating traces: recorded, imported, made up, shown."""

from lightloom.trace.gating_trace import GatingTrace, builtin_names, find_builtin

__all__ = ["GatingTrace", "builtin_names", "find_builtin"]
