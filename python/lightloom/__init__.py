"""Lightloom: design, simulate and run the reconfigurable networks of GPU clusters.

`Scenario` is a job on a network; `simulate` runs it, `compare` runs it on several networks, and
both return a `Result`. The rooms `trace`, `plan`, `rails`, `railx`, `predict`, `runs` and `cost`
hold the rest; nothing is loaded before it is used.

Examples
--------
>>> import lightloom
>>> job = lightloom.Scenario.preset("mixtral-8x7b", gpus=1024, fabric="mixnet")
>>> job.dp
8
>>> lightloom.plan.algorithms("all-to-all")[0]
'pairwise-alltoall'
"""

from __future__ import annotations

from lightloom.lazy import TYPE_CHECKING, lazy

if TYPE_CHECKING:
    from lightloom import cost, plan, predict, rails, railx, runs, trace
    from lightloom._core import __version__
    from lightloom.choice import Choice, choose
    from lightloom.collectives import CollectiveResult, collective
    from lightloom.comparison import compare
    from lightloom.errors import InputError, LightloomError, RunError
    from lightloom.jobs import JobsResult, run_jobs
    from lightloom.report import Result
    from lightloom.scenario import Scenario
    from lightloom.simulation import simulate
    from lightloom.sweeps.job import sweep
    from lightloom.trace import GatingTrace

__all__ = [
    "Choice",
    "CollectiveResult",
    "GatingTrace",
    "InputError",
    "JobsResult",
    "LightloomError",
    "Result",
    "RunError",
    "Scenario",
    "__version__",
    "choose",
    "collective",
    "compare",
    "cost",
    "plan",
    "predict",
    "rails",
    "railx",
    "run_jobs",
    "runs",
    "simulate",
    "sweep",
    "trace",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "Choice": "lightloom.choice",
        "CollectiveResult": "lightloom.collectives",
        "GatingTrace": "lightloom.trace",
        "InputError": "lightloom.errors",
        "JobsResult": "lightloom.jobs",
        "LightloomError": "lightloom.errors",
        "Result": "lightloom.report",
        "RunError": "lightloom.errors",
        "Scenario": "lightloom.scenario",
        "__version__": "lightloom._core",
        "choose": "lightloom.choice",
        "collective": "lightloom.collectives",
        "compare": "lightloom.comparison",
        "cost": "lightloom.cost",
        "plan": "lightloom.plan",
        "predict": "lightloom.predict",
        "rails": "lightloom.rails",
        "railx": "lightloom.railx",
        "run_jobs": "lightloom.jobs",
        "runs": "lightloom.runs",
        "simulate": "lightloom.simulation",
        "sweep": "lightloom.sweeps.job",
        "trace": "lightloom.trace",
    },
)
