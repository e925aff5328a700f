"""Several jobs on one fabric: `lightloom.run_jobs`."""

from lightloom.lazy import TYPE_CHECKING, lazy

if TYPE_CHECKING:
    from lightloom.jobs.result import JobsResult
    from lightloom.jobs.run import run_jobs
    from lightloom.jobs.spec import JobsSpec

__all__ = ["JobsResult", "JobsSpec", "run_jobs"]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "JobsResult": "lightloom.jobs.result",
        "JobsSpec": "lightloom.jobs.spec",
        "run_jobs": "lightloom.jobs.run",
    },
)
