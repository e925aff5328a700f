"""Lightloom: design, simulate and run the reconfigurable networks of GPU clusters.

Examples
--------
>>> import lightloom
>>> job = lightloom.Scenario.preset("mixtral-8x7b", gpus=1024, fabric="mixnet")
>>> job.dp
8
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lightloom._core import __version__
from lightloom.errors import InputError, LightloomError, RunError

if TYPE_CHECKING:
    from lightloom.comparison import compare
    from lightloom.report import Result
    from lightloom.scenario import Scenario
    from lightloom.simulation import simulate
    from lightloom.trace import GatingTrace

__all__ = [
    "GatingTrace",
    "InputError",
    "LightloomError",
    "Result",
    "RunError",
    "Scenario",
    "__version__",
    "compare",
    "simulate",
]

# Where the rest lives: loaded when it is asked for, so that a command starts at once.
_HOMES = {
    "GatingTrace": "lightloom.trace",
    "Result": "lightloom.report",
    "Scenario": "lightloom.scenario",
    "compare": "lightloom.comparison",
    "simulate": "lightloom.simulation",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'lightloom' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
