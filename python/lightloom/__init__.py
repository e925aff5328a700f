"""Lightloom: design, simulate and run the reconfigurable networks of GPU clusters.

Examples
--------
>>> import lightloom
>>> job = lightloom.Scenario.preset("mixtral-8x7b", gpus=1024, fabric="mixnet")
>>> job.dp
8
"""

from lightloom._core import __version__
from lightloom.compare import compare
from lightloom.errors import InputError, LightloomError, RunError
from lightloom.report import Result
from lightloom.scenario import Scenario
from lightloom.simulate import simulate
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
