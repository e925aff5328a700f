"""What a gating trace looks like in a few numbers: imbalance, entropy, drift, spread of sources.

Modelled: shares of assignments, per layer, averaged over iterations. Ignored: which experts are
hot. Checked: closed forms for even, one-hot and rotating loads (``tests/test_trace_summary.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lightloom.trace.gating_trace import GatingTrace

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Summary:
    """Measures of a trace, each of shape [layer], without unit.

    Attributes
    ----------
    imbalance
        Load of the most loaded expert over the mean load; mean over iterations. 1 when even, the
        number of experts when one takes all.
    worst_imbalance
        The same, largest over iterations.
    entropy
        Entropy of the experts' shares over log(experts); mean over iterations. 1 when even, 0 when
        one takes all (and 1 for a single expert).
    drift
        Total variation distance between the shares of an iteration and the next; mean. 0 when
        nothing changes, 1 when no expert keeps any load.
    source_spread
        Total variation distance between one source's shares of the experts and all sources' shares;
        mean over sources and iterations. 0 when all rows of the matrix are alike.
    pair_imbalance
        Largest count of a matrix over its mean count; mean over iterations.
    """

    trace: GatingTrace
    imbalance: Floats
    worst_imbalance: Floats
    entropy: Floats
    drift: Floats
    source_spread: Floats
    pair_imbalance: Floats

    def as_dict(self) -> dict[str, Any]:
        """Return what ``lightloom trace show --json`` prints: shape, metadata, means, layers."""
        measures = {name: getattr(self, name) for name in MEASURES}
        trace = self.trace
        return {
            "iterations": trace.iterations,
            "layers": trace.layers,
            "sources": trace.sources,
            "experts": trace.experts,
            "top_k": trace.top_k,
            "assignments": int(trace.counts.sum(dtype=np.uint64)),
            **{name: round(float(values.mean()), 6) for name, values in measures.items()},
            "per_layer": {
                name: [round(float(value), 6) for value in values]
                for name, values in measures.items()
            },
            "meta": dict(trace.meta),
        }


MEASURES = (
    "imbalance",
    "worst_imbalance",
    "entropy",
    "drift",
    "source_spread",
    "pair_imbalance",
)


def summarize(trace: GatingTrace) -> Summary:
    """Measure a trace.

    Examples
    --------
    >>> summary = summarize(GatingTrace(np.full((3, 2, 4, 8), 16), top_k=2))
    >>> summary.imbalance.tolist(), summary.drift.tolist()
    ([1.0, 1.0], [0.0, 0.0])
    """
    experts = trace.experts
    loads = trace.loads().astype(np.float64)
    shares = loads / loads.sum(axis=2, keepdims=True)
    imbalance = shares.max(axis=2) * experts
    logs = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
    bits = -(shares * logs).sum(axis=2)
    entropy = bits / np.log(experts) if experts > 1 else np.ones_like(bits)
    steps = np.abs(np.diff(shares, axis=0)).sum(axis=2) / 2
    drift = steps.mean(axis=0) if len(steps) else np.zeros(trace.layers)
    spread = np.empty((trace.iterations, trace.layers))
    pairs = np.empty((trace.iterations, trace.layers))
    # One iteration at a time: the counts as floats could be twice as large as the trace itself.
    for iteration, counts in enumerate(trace.counts):
        rows = counts.sum(axis=2, keepdims=True, dtype=np.float64)
        own = np.divide(counts, rows, out=np.zeros(counts.shape), where=rows > 0)
        distance = np.abs(own - shares[iteration, :, None, :]).sum(axis=2) / 2
        sending = rows[:, :, 0] > 0
        spread[iteration] = (distance * sending).sum(axis=1) / sending.sum(axis=1)
        pairs[iteration] = counts.max(axis=(1, 2)) / counts.mean(axis=(1, 2))
    return Summary(
        trace,
        imbalance=imbalance.mean(axis=0),
        worst_imbalance=imbalance.max(axis=0),
        entropy=entropy.mean(axis=0),
        drift=drift,
        source_spread=spread.mean(axis=0),
        pair_imbalance=pairs.mean(axis=0),
    )
