"""Calibrate the generator `calibrated` on recordings, and judge it on those that were not used.

``python -m lightloom.trace.calibration`` prints the laws and the tables of ``docs/traces.md``.

Modelled: moments. Each variation is measured beyond what explains it already: the drift beyond
sampling and beyond sequences, sources beyond sampling. A law is a line through logarithms.
Ignored: the scatter of the measured figures themselves.
Checked: ``tests/test_trace_calibrated.py``: the constants are what this comes to; a generated
trace measures as its laws say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lightloom.trace.gating_trace import GatingTrace
from lightloom.trace.servers import server_skew
from lightloom.trace.summary import summarize
from lightloom.trace.synthetic import Shape, generate
from lightloom.trace.synthetic.calibrated import FITTED, Law, Laws

HELD_OUT = ("e16k4", "e64k4", "e128k8")
"""The shipped recordings that laws are judged on."""


class Measures(NamedTuple):
    """Coefficients of variation of one trace, as `Laws` names them, and the drift's memory."""

    popularity: float
    drift: float
    sequence: float
    memory: float


def measure(trace: GatingTrace, sequences: int) -> Measures:
    """Measure a trace each of whose sources has so many sequences in an iteration.

    Examples
    --------
    >>> found = measure(GatingTrace.load("e8k2"), sequences=8)
    >>> [round(value, 2) for value in found]
    [0.12, 0.09, 0.48, 0.9]
    """
    counts = trace.counts.astype(np.float64)
    experts, top_k, sources = trace.experts, trace.top_k, trace.sources
    tokens = counts.sum(axis=3).mean() / top_k
    loads = counts.sum(axis=2)
    loads *= experts / loads.sum(axis=2, keepdims=True)  # [iteration, layer, expert], mean 1
    mean = loads.mean(axis=0)
    floor = 1e-9

    def sampled(shares: npt.NDArray[np.float64], of: float) -> float:
        """Return the variance by sampling so many tokens, weighed by load."""
        chosen = np.clip(top_k * shares / experts, floor, 1.0)
        return float((shares * (1 - chosen) / (of * chosen)).mean())

    source = counts * (experts / counts.sum(axis=3, keepdims=True))
    all_sources = np.maximum(loads, floor)[:, :, None]
    apart = float((all_sources * (source / all_sources - 1) ** 2).mean()) * sources / (sources - 1)
    sequence = max(apart - sampled(np.broadcast_to(all_sources, source.shape), tokens), 0.0)
    sequence *= sequences

    off = (loads - mean) / np.maximum(mean, floor)
    over_time = float((off.var(axis=0, ddof=1) * mean).mean())
    at_once = sampled(mean, tokens * sources) + sequence / (sources * sequences)
    drift = max(over_time - at_once, floor)
    next_to = float(((off[:-1] * off[1:]).mean(axis=0) * mean).mean())
    popularity = float(((mean - 1) ** 2).mean())
    return Measures(popularity**0.5, drift**0.5, sequence**0.5, next_to / drift)


def fit(measured: Mapping[float, Measures]) -> Laws:
    """Fit laws to what was measured, by experts / top-k."""
    x = np.log(np.array(list(measured)))

    def law(name: str) -> Law:
        values = np.log([getattr(of, name) for of in measured.values()])
        power, at_one = np.polyfit(x, values, 1)
        return Law(float(np.exp(at_one)), float(power))

    memory = float(np.mean([of.memory for of in measured.values()]))
    return Laws(law("popularity"), law("drift"), law("sequence"), memory)


def sequences_of(trace: GatingTrace) -> int:
    """Return the sequences of a source of a recording, as its metadata say."""
    return int(trace.meta["recording.sequences"])


def fitted(names: Sequence[str] = FITTED) -> Laws:
    """Fit laws to shipped recordings."""
    traces = [GatingTrace.load(name) for name in names]
    return fit({one.experts / one.top_k: measure(one, sequences_of(one)) for one in traces})


@dataclass(frozen=True)
class Figures:
    """What a trace is judged by, averaged over layers.

    Attributes
    ----------
    busiest
        Load of the most loaded expert / mean load.
    ranks
        Loads averaged over iterations, by rank: the most loaded eighth of the experts, the second
        quarter's first, the median, the least loaded eighth's first; mean 1.
    drift, sources
        Total variation from one iteration to the next, and of a source from all of them.
    memory
        Correlation of an expert's deviation with that of the iteration before.
    pairs
        Demand of the heaviest pair of eight servers / mean of all pairs.
    """

    busiest: float
    ranks: tuple[float, ...]
    drift: float
    sources: float
    memory: float
    pairs: float


def figures(trace: GatingTrace) -> Figures:
    """Judge a trace.

    Examples
    --------
    >>> figures(GatingTrace.load("e8k2")).busiest
    1.23
    """
    summary, skew = summarize(trace), server_skew(trace, servers=8)
    assert skew is not None  # between eight servers there is something to compare
    loads = trace.loads().astype(np.float64)
    loads /= loads.mean(axis=2, keepdims=True)
    mean = loads.mean(axis=0)
    ordered = -np.sort(-mean, axis=1).mean(axis=0)
    experts = trace.experts
    places = (experts // 16, experts // 4, experts // 2, experts - 1 - experts // 16)
    off = loads - mean
    memory = (off[:-1] * off[1:]).mean() / (off**2).mean()
    return Figures(
        busiest=round(float(summary.imbalance.mean()), 2),
        ranks=tuple(round(float(ordered[place]), 2) for place in places),
        drift=round(float(summary.drift.mean()), 3),
        sources=round(float(summary.source_spread.mean()), 3),
        memory=round(float(memory), 2),
        pairs=round(float(skew.pair_skew.mean()), 2),
    )


def like(trace: GatingTrace, seed: int = 1) -> GatingTrace:
    """Generate a trace of the shape of a recording."""
    shape = Shape(
        experts=trace.experts,
        sources=trace.sources,
        top_k=trace.top_k,
        layers=trace.layers,
        iterations=trace.iterations,
        tokens=int(trace.counts[0, 0, 0].sum()) // trace.top_k,
        seed=seed,
    )
    return generate("calibrated", shape, {"sequences": float(sequences_of(trace))})


def table() -> str:
    """Write recordings and generated traces beside each other, as Markdown."""
    lines = [
        "| trace | | max/mean | loads by rank | drift | memory | source spread | servers |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in (*FITTED, *HELD_OUT):
        recording = GatingTrace.load(name)
        kind = "fitted" if name in FITTED else "held out"
        for called, trace in (("recorded", recording), ("generated", like(recording))):
            of = figures(trace)
            ranks = ", ".join(f"{rank:.2f}" for rank in of.ranks)
            label = f"`{name}` ({kind})" if called == "recorded" else ""
            lines.append(
                f"| {label} | {called} | {of.busiest:.2f} | {ranks} | {of.drift:.3f} | "
                f"{of.memory:.2f} | {of.sources:.3f} | {of.pairs:.2f} |"
            )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(fitted())
    print(table(), end="")
