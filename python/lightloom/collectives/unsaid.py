"""What a collective is run by where nobody says: its algorithm, and how exact rates are.

Checked: against every algorithm of the house, and exact rates, in ``tests/test_collective.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lightloom import _core
from lightloom.plan.demand import Matrix

if TYPE_CHECKING:
    from lightloom.collectives.spec import CollectiveSpec

MOST_EXACT = 1 << 16
"""Flows of different sizes or paths whose rates are exact unless anyone says: 5 CPU s."""
TOLERANCE = 0.01
"""Beyond them."""
# Links from a server to another one, about.
_HOPS = 4
# Exact rates of so many flows of different sizes took so long [CPU s]; so the time grows.
_MEASURED_FLOWS, _MEASURED_S, _POWER = 256 * 255, 4.7, 1.95


def algorithm(spec: CollectiveSpec) -> str:
    """Return the algorithm that takes least by closed form; all at once, if it is an all-to-all.

    Examples
    --------
    >>> from lightloom.collectives import CollectiveSpec
    >>> for size in ("16 KiB", "256 MiB"):
    ...     given = {"cluster.gpus": 64, "collective.size": size}
    ...     CollectiveSpec.of("broadcast", given).collective.algorithm
    'binomial-broadcast'
    'scatter-allgather-broadcast'
    """
    asked, cluster = spec.collective, spec.cluster
    if asked.program is not None:
        return "program"
    if asked.primitive == "all-to-all":
        return "direct"
    core = spec.to_core()["fabric"]
    table = core.get("eps", core.get("ocs", core))
    links = core.get("links", [table])
    rate = min(link.get("link_bps", link.get("bps")) for link in links)
    delay = min(link.get("link_delay_ps", link.get("delay_ps")) for link in links) / 1e12
    nics = cluster.nics_per_server - core.get("optical_nics", 0)
    change = 0.0
    if spec.fabric.kind == "planes":  # a message takes all planes, when they are switched to it
        rate, nics, change = rate * nics, 1, table["delay"]["ps"] / 1e12
    if spec.fabric.kind == "topoopt":  # and all circuits of the panel on its way
        rate, nics = rate * nics, 1
    inside, host = (cluster.scale_up_bandwidth, int(cluster.scale_up_delay)), cluster.host
    if host is not None and host.nvlink_gpus < cluster.gpus_per_server:
        inside = (host.pcie_bandwidth, 2 * int(host.pcie_delay))
    return _core.quickest_collective(
        asked.primitive, spec.ranks, int(asked.size), (cluster.gpus_per_server, max(1, nics)),
        (int(inside[0]) * 8.0, inside[1] / 1e12),
        (rate, _HOPS * delay), change,
    )  # fmt: skip


def flows(spec: CollectiveSpec, demand: Matrix | None) -> int:
    """Return how many flows are alike no other: few sizes are few classes of flows.

    Where circuits join servers directly, each pair has paths of its own.

    Examples
    --------
    >>> from lightloom.collectives import CollectiveSpec
    >>> ranks = {"cluster.gpus": 16, "collective.size": "1 MiB"}
    >>> fat_tree = CollectiveSpec.of("all-to-all", ranks)
    >>> flows(fat_tree, np.arange(256, dtype=np.uint64).reshape(16, 16))
    240
    >>> flows(fat_tree, np.ones((16, 16), dtype=np.uint64))
    0
    >>> flows(CollectiveSpec.of("all-to-all", {**ranks, "fabric.preset": "topoopt"}), None)
    240
    """
    if demand is None:
        even = spec.fabric.kind == "topoopt" and spec.collective.primitive == "all-to-all"
        return spec.ranks * (spec.ranks - 1) if even else 0
    if spec.fabric.kind != "topoopt" and 16 * len(np.unique(demand)) < demand.size:
        return 0
    return int(np.count_nonzero(demand) - np.count_nonzero(np.diagonal(demand)))


def exact_seconds(count: int) -> float:
    """Return about how long exact rates of so many flows of different sizes take [CPU s]."""
    return float(_MEASURED_S * (count / _MEASURED_FLOWS) ** _POWER)
