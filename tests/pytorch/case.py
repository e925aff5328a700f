"""What a case of the suite is: operations that every rank carries out, and what comes of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
import torch.distributed as dist


@dataclass
class Ranks:
    """Who this rank is, and groups that all ranks have made."""

    rank: int
    size: int
    groups: dict[str, tuple[dist.ProcessGroup | None, list[int]]] = field(default_factory=dict)

    def data(
        self, shape: Sequence[int] | int, dtype: torch.dtype, seed: int, rank: int | None = None
    ) -> torch.Tensor:
        """What a rank has: different for every rank and seed, and known to all."""
        drawn = torch.Generator().manual_seed(seed * 1009 + (self.rank if rank is None else rank))
        sizes = [shape] if isinstance(shape, int) else list(shape)
        if dtype.is_floating_point or dtype.is_complex:
            return torch.randn(sizes, generator=drawn, dtype=torch.float32).to(dtype)
        most = 2 if dtype == torch.bool else 100
        return torch.randint(0, most, sizes, generator=drawn).to(dtype)

    def all(self, shape: Sequence[int] | int, dtype: torch.dtype, seed: int) -> list[torch.Tensor]:
        """What all ranks have."""
        return [self.data(shape, dtype, seed, rank) for rank in range(self.size)]


# What a rank has got, and what is right, computed without a backend.
Outcome = tuple[list[torch.Tensor], list[torch.Tensor]]


@dataclass(frozen=True)
class Case:
    """Operations under a name.

    Attributes
    ----------
    operation
        As the table of the documentation calls it.
    label
        Which sizes, types or ways.
    run
        Carries it out.
    exact
        Whether every bit is known: nothing is rounded, or in one order only.
    """

    operation: str
    label: str
    run: Callable[[Ranks], Outcome]
    exact: bool = True

    @property
    def name(self) -> str:
        return f"{self.operation}: {self.label}"


CASES: list[Case] = []


def case(
    operation: str, label: str, exact: bool = True
) -> Callable[[Callable[[Ranks], Outcome]], None]:
    """Add a function to the suite."""

    def add(run: Callable[[Ranks], Outcome]) -> None:
        CASES.append(Case(operation, label, run, exact))

    return add
