"""What the chips of a network send each other while it is measured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightloom.errors import InputError
from lightloom.presets import unknown

if TYPE_CHECKING:
    from lightloom.railx.networks import Network

PATTERNS = (
    "uniform", "uniform-self", "all-to-all", "complement", "transpose", "shift", "permutation",
    "hot-spot", "ring",
)  # fmt: skip
"""Patterns by name; a gating trace gives a matrix."""


def request(
    name: str, hot: tuple[int, float], trace: Path | None, network: Network
) -> dict[str, Any]:
    """Return what the core is asked for: a pattern by its name, or the matrix of a trace."""
    if trace is not None:
        return {"kind": "matrix", "weights": _matrix(trace, network)}
    match name:
        case "uniform" | "uniform-self":
            return {"kind": "uniform", "to_self": name == "uniform-self"}
        case "hot-spot":
            return {"kind": name, "terminals": hot[0], "share": hot[1]}
        case _ if name in PATTERNS:
            return {"kind": name}
    raise InputError(f'traffic "{name}": is not known{unknown(name, PATTERNS)}')


def _matrix(trace: Path, network: Network) -> list[float]:
    """Spread a trace's mean demand over the chips: sources and experts are dealt in turn."""
    import numpy as np

    from lightloom.trace import GatingTrace

    counts = GatingTrace.load(trace).counts.astype(float)
    demand = counts.mean(axis=(0, 1))
    chips = network.built().terminals
    sources = np.arange(chips) % demand.shape[0]
    experts = np.arange(chips) % demand.shape[1]
    weights: list[float] = demand[np.ix_(sources, experts)].ravel().tolist()
    return weights
