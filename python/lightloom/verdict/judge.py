"""Judge a comparison: the best run by time and money, the best of another fabric, the margin.

The winner has the least median, over draws, of time times dollars of the cluster; where a price is
missing, of the network; where that is missing, too, of the papers' count, or of time alone. The
runner-up is the best run of another fabric, and the margin is paired: their ratio is taken in each
draw. Prices that reverse the winner hold for median times and the first list of prices. Checked:
in ``tests/test_verdict.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from lightloom.draws.spread import ratio
from lightloom.verdict.offers import PARTS, Offer
from lightloom.verdict.sentence import BY, Verdict
from lightloom.verdict.turns import SAME, Turn, turns


def judge(
    rows: Sequence[Mapping[str, Any]],
    offers: Sequence[Offer],
    *,
    varied: str = "",
    missing: Sequence[str] = (),
) -> Verdict | None:
    """Judge the runs of a comparison.

    Parameters
    ----------
    rows
        One a run and draw: ``run``, ``fabric``, ``iteration_s``, ``cluster_usd``, ``network_usd``
        and ``cost_usd``. Runs have their draws in the same order.
    offers
        One a run, in the same order, with the median time.
    varied
        What was varied from draw to draw, in words.
    missing
        Prices that are not known.

    Returns
    -------
    Verdict or None
        None of a single run.

    Examples
    --------
    >>> def row(run, fabric, time, usd):
    ...     return dict(run=run, fabric=fabric, iteration_s=time, cluster_usd=usd)
    >>> def offer(run, fabric, time, servers, switches):
    ...     return Offer(run, fabric, 400.0, time, servers, switches, 0.0, 1.0, 9.0, False, 0)
    >>> print(judge(
    ...     [row("a", "fat-tree", 1.0, 100.0), row("b", "torus", 1.1, 80.0)],
    ...     [offer("a", "fat-tree", 1.0, 60.0, 40.0), offer("b", "torus", 1.1, 60.0, 20.0)],
    ... ))  # doctest: +NORMALIZE_WHITESPACE
    b wins: 1.14x the performance per cluster dollar of a. On time alone a wins.
    A GPU, with its share of the server (here $1.00): above $3.00 a wins.
    A port of a packet switch (here $9.00 at 400 Gbps): below $3.00 a wins.
    """
    if len(offers) < 2:
        return None
    by = next((name for name in BY if name and all(row.get(name) for row in rows)), "")
    scores: dict[str, list[float]] = {offer.run: [] for offer in offers}
    for row in rows:
        scores[row["run"]].append(row["iteration_s"] * (row[by] if by else 1.0))
    best = {run: median(values) for run, values in scores.items()}
    order = sorted(offers, key=lambda offer: best[offer.run])
    winner = order[0]
    others = [offer for offer in order if offer.fabric != winner.fabric]
    equals = [offer for offer in others if _same(scores[offer.run], scores[winner.run])]
    level = {offer.fabric for offer in (winner, *equals)}
    rest = [offer for offer in order if offer.fabric not in level]
    rest = rest or [offer for offer in order[1:] if offer not in equals]
    pair = ratio(scores[rest[0].run], scores[winner.run]) if rest else None
    draws = len(scores[winner.run])
    several = draws > 1 and pair is not None
    return Verdict(
        by=by,
        winner=winner.run,
        equals=tuple(offer.run for offer in equals),
        runner_up=rest[0].run if rest else None,
        margin=pair.median if pair else None,
        low=pair.low if several and pair else None,
        high=pair.high if several and pair else None,
        draws=draws,
        varied=varied,
        fastest=min(offers, key=lambda offer: offer.time_s).run,
        turns=_turns(offers, winner, by),
        still=winner.optical and not winner.reconfigurations,
        missing=tuple(missing),
        offers=tuple(offers),
    )


def _turns(offers: Sequence[Offer], winner: Offer, by: str) -> tuple[Turn, ...]:
    if by != "cluster_usd" or not all(offer.priced for offer in offers):
        return ()
    # Where prices vary from draw to draw, another run may win at those of the first.
    if winner.score() > min(offer.score() for offer in offers) * (1 + SAME):
        return ()
    return tuple(turns(offers, winner, part) for part in PARTS)


def _same(ours: Sequence[float], theirs: Sequence[float]) -> bool:
    return all(abs(a - b) <= SAME * b for a, b in zip(ours, theirs, strict=True))
