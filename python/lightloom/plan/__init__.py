"""Plans for optical planes: when each switches, and what each node sends over which.

Examples
--------
>>> from lightloom import plan
>>> job = plan.Job.of("rabenseifner-allreduce", nodes=8, size="40 MB", planes=2, latency="0 us")
>>> outcome = plan.plan_collective(job, plan="swot")
>>> str(outcome.plan.check()), outcome.plan.gap
('1.2 ms', 0.0)
"""

from lightloom.lazy import TYPE_CHECKING, lazy

if TYPE_CHECKING:
    from lightloom.plan.alltoall import AllToAllOutcome, plan_alltoall
    from lightloom.plan.collective import Outcome, Row, best, plan_collective
    from lightloom.plan.file import Plan, read, schema
    from lightloom.plan.job import Job, Planes, algorithms

__all__ = [
    "AllToAllOutcome",
    "Job",
    "Outcome",
    "Plan",
    "Planes",
    "Row",
    "algorithms",
    "best",
    "plan_alltoall",
    "plan_collective",
    "read",
    "schema",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "AllToAllOutcome": "lightloom.plan.alltoall",
        "Job": "lightloom.plan.job",
        "Outcome": "lightloom.plan.collective",
        "Plan": "lightloom.plan.file",
        "Planes": "lightloom.plan.job",
        "Row": "lightloom.plan.collective",
        "algorithms": "lightloom.plan.job",
        "best": "lightloom.plan.collective",
        "plan_alltoall": "lightloom.plan.alltoall",
        "plan_collective": "lightloom.plan.collective",
        "read": "lightloom.plan.file",
        "schema": "lightloom.plan.file",
    },
)
