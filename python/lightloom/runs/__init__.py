"""Sets of runs: cached, resumed, beside each other, and their figures as one table.

A `Run` is data; `perform` performs a set of them and keeps each outcome in a `Cache` under what it
was: its resolved specification, gating trace and the version of the engine. `table` gathers a set's
figures, with every key of the specifications beside them.

Examples
--------
>>> from lightloom import Scenario
>>> job = Scenario.preset("mixtral-8x7b", gpus=128, training={"micro_batches": 1})
>>> runs = [ScenarioRun.of(job.with_(fabric={"preset": name})) for name in ("fat-tree", "mixnet")]
>>> done = perform(runs, tables=False)
>>> table(done).select(["fabric.kind", "iteration_s"]).num_rows
2
"""

from lightloom.lazy import TYPE_CHECKING, lazy

if TYPE_CHECKING:
    from lightloom.runs.cache import Cache, users
    from lightloom.runs.executor import Executor, Threads
    from lightloom.runs.local import Processes
    from lightloom.runs.outcome import Failure, Outcome, Spent
    from lightloom.runs.run import KINDS, Memo, Run
    from lightloom.runs.scenario import ScenarioRun
    from lightloom.runs.sets import Done, perform
    from lightloom.runs.tables import table, times

__all__ = [
    "KINDS",
    "Cache",
    "Done",
    "Executor",
    "Failure",
    "Memo",
    "Outcome",
    "Processes",
    "Run",
    "ScenarioRun",
    "Spent",
    "Threads",
    "perform",
    "table",
    "times",
    "users",
]

_HOMES = {
    "cache": ("Cache", "users"),
    "executor": ("Executor", "Threads"),
    "local": ("Processes",),
    "outcome": ("Failure", "Outcome", "Spent"),
    "run": ("KINDS", "Memo", "Run"),
    "scenario": ("ScenarioRun",),
    "sets": ("Done", "perform"),
    "tables": ("table", "times"),
}

__getattr__, __dir__ = lazy(
    __name__,
    {name: f"{__name__}.{home}" for home, names in _HOMES.items() for name in names},
)
