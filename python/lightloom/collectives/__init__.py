"""Collectives by themselves, on any fabric, transport and engine: `lightloom.collective`."""

from lightloom.lazy import TYPE_CHECKING, lazy

if TYPE_CHECKING:
    from lightloom.collectives.result import CollectiveResult
    from lightloom.collectives.run import collective
    from lightloom.collectives.spec import CollectiveSpec

__all__ = ["CollectiveResult", "CollectiveSpec", "collective"]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "CollectiveResult": "lightloom.collectives.result",
        "CollectiveSpec": "lightloom.collectives.spec",
        "collective": "lightloom.collectives.run",
    },
)
