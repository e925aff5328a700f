"""`auto` on traces that had no say: each is left out in turn.

Modelled: on the trace that is left out, `auto` starts anew, with nothing of any trace in it. It
stands beside the candidate that a person would have named from the other traces, and beside the one
that was best on the trace itself, which nobody knows before. Errors are of the matrix that circuits
see.
Checked: ``tests/test_predict.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from lightloom.errors import InputError
from lightloom.predict.evaluation import Evaluation, evaluate
from lightloom.trace import builtin_names

SHIPPED = "shipped"


@dataclass(frozen=True)
class LeftOut:
    """`auto` on one trace, beside its candidates.

    Attributes
    ----------
    trace
        The one that was left out.
    best
        The candidate with the least error on it.
    named
        The candidate with the least error on all the others, each relative to its best; ties go to
        the first.
    errors
        Mean error of every candidate and, last, of `auto`.
    regret, bound, worst
        As in `Regret`.
    time_ratios
        Time of the all-to-alls over that with circuits from the truth, for every candidate and
        `auto`; ``None`` where there are no circuits to choose.
    """

    trace: str
    best: str
    named: str
    errors: dict[str, float]
    regret: float
    bound: float
    worst: float
    time_ratios: dict[str, float | None]

    def as_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


def shipped(traces: Sequence[str]) -> list[str]:
    """Return the names of traces, `SHIPPED` replaced by all that are shipped.

    >>> shipped(["shipped"])[:2]
    ['e8k2', 'e16k4']
    """
    each = [builtin_names() if trace == SHIPPED else [trace] for trace in traces]
    return [name for names in each for name in names]


def leave_out(
    traces: Sequence[str], progress: Callable[[int, float], object] | None = None, **options: Any
) -> list[LeftOut]:
    """Evaluate `auto` on each of some traces as if only the others had been seen.

    Parameters
    ----------
    traces
        At least two, as for `evaluate`.
    progress
        Told which trace passes by, and the share of it that is done.
    options
        As for `evaluate`.

    Raises
    ------
    InputError
        As from `evaluate`; also if a trace is there twice, or only one.
    """
    twice = [trace for trace in traces if traces.count(trace) > 1]
    if twice:
        raise InputError(f"{twice[0]}: is there twice; each trace is left out once")
    if len(traces) < 2:
        raise InputError(f"{', '.join(traces)}: must be at least two traces to leave one out")
    found = []
    for at, trace in enumerate(traces):
        told = None if progress is None else lambda share, at=at: progress(at, share)
        found.append(evaluate(trace, progress=told, **options))
    return [_left_out(one, [other for other in found if other is not one]) for one in found]


def _left_out(one: Evaluation, others: Sequence[Evaluation]) -> LeftOut:
    regret = one.regret
    candidates = [name for name in regret.errors if name != "auto"]

    def elsewhere(name: str) -> float:
        errors = (other.regret.errors for other in others)
        pairs = ((each[name], min(each.values())) for each in errors)
        # In units of the least; where that is rounding, the trace says nothing.
        return sum(error / least for error, least in pairs if least > 1e-9)

    return LeftOut(
        trace=one.trace,
        best=regret.best,
        named=min(candidates, key=elsewhere),
        errors=dict(regret.errors),
        regret=regret.regret,
        bound=regret.bound,
        worst=regret.worst,
        time_ratios={score.predictor: score.time_ratio for score in one.scores},
    )
