"""More source ranks than were recorded: those of several iterations side by side.

Each source rank has a shard of the batch, and each iteration draws new text. So the ranks of the
next iteration stand for further ranks of this one, with other text before a gate that has learned
one step more. Ignored: that step; a pattern that belongs to an iteration is spread over several.
Checked: every row of the recording appears once, in order (``tests/test_lookahead.py``).
"""

from __future__ import annotations

from lightloom.errors import InputError
from lightloom.trace.gating_trace import GatingTrace


def widen(trace: GatingTrace, sources: int) -> GatingTrace:
    """Put consecutive iterations of a trace side by side; what is left at the end is dropped.

    Parameters
    ----------
    trace
        Of at least `sources / trace.sources` iterations.
    sources
        Source ranks wanted, a multiple of the trace's.

    Raises
    ------
    InputError
        If the number is no such multiple, or the trace is too short.

    Examples
    --------
    >>> wide = widen(GatingTrace.load("e256k8"), 128)
    >>> wide.counts.shape[:3]
    (10, 8, 128)
    """
    times, rest = divmod(sources, trace.sources)
    if rest or not 1 <= times <= trace.iterations:
        raise InputError(
            f"sources = {sources}: must be a multiple of the trace's {trace.sources}, and at most "
            f"{trace.sources * trace.iterations}, for it has {trace.iterations} iterations"
        )
    kept = trace.iterations // times
    side_by_side = trace.counts[: kept * times].reshape(
        kept, times, trace.layers, trace.sources, trace.experts
    )
    counts = side_by_side.swapaxes(1, 2).reshape(kept, trace.layers, sources, trace.experts)
    meta = {**trace.meta, "widened": f"{times} iterations of {trace.sources} sources side by side"}
    return GatingTrace(counts, trace.top_k, meta)
