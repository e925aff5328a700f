"""SWOT: reconfiguration inside a collective, Figures 7 to 11.

Nothing is fitted to the paper but Figure 8's sizes and latency, which it does not give; each
departure is explained in docs/swot.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lightloom.errors import InputError
from lightloom.papers.frame import Paper
from lightloom.plan.job import EFFORTS, quantity
from lightloom.presets import unknown
from lightloom.units import Size


def _settings(figures: Sequence[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the effort, and sizes of a node's buffer [B], also given as text, in order."""
    settings = dict(given)
    effort = settings.get("effort", "normal")
    if effort not in EFFORTS:
        raise InputError(f'effort "{effort}": no such effort{unknown(effort, EFFORTS)}')
    sizes = settings.get("sizes")
    if sizes is None:
        return settings
    if isinstance(sizes, str):
        sizes = [int(quantity("sizes", part.strip(), Size)) for part in sizes.split(",")]
    if set(figures) == {"figure 8"}:
        raise InputError("sizes: Figure 8 is over nodes and has its own; allowed: 7, 9, 10, 11")
    for size in sizes:
        # Below, some block would be empty; above, 256 nodes' steps may outlast the clock.
        if not 10**4 <= size <= 10**12:
            raise InputError(f"sizes: {size} B: must be 10 KB to 1000 GB")
    if not sizes:
        raise InputError("sizes: none given")
    return settings | {"sizes": tuple(sorted(set(sizes)))}


PAPER = Paper(
    name="swot",
    title="SWOT",
    remark=lambda _settings: (
        "800 Gbps a node, 200 us to switch and 5 us of latency where nothing else is said;"
    ),
    options=("sizes", "effort"),
    settings=_settings,
    csv="all",
)
