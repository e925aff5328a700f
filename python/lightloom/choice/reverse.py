"""What would reverse a choice: prices in closed form, everything else by the closed form of times.

Modelled: a price is multiplied until pick and runner-up are equally good, which for tokens a
dollar is linear. A time is changed step by step (the switches' delay, how skewed the gate is, how
well products use a GPU) and both are rated anew, with their layouts as they are; the nearest steps
at which the runner-up is better are told, or that there are none. Ignored: that another candidate
than the runner-up may win then. Checked: just below and just above each price, in
``tests/test_choose.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lightloom.choice import rating
from lightloom.errors import InputError
from lightloom.money import Money, money_of

if TYPE_CHECKING:
    from lightloom.choice.goals import Aim
    from lightloom.choice.search import Entry
    from lightloom.runs.run import Run
    from lightloom.scenario import Scenario

# Steps: chosen here, from a tenth of what is sold to a hundred times as slow.
DELAYS = (0.01, 0.1, 2.0, 4.0, 10.0, 40.0, 100.0)
EFFICIENCIES = (0.4, 0.6, 0.8, 1.2, 1.4, 1.6)


@dataclass(frozen=True)
class Reversal:
    """What of the world was changed, and what it takes to reverse the choice.

    Attributes
    ----------
    what
        Such as "price of a server".
    at
        The least change that reverses it, in words; None if nothing tried does.
    tried
        What was tried.
    factor
        Of a price: by how much it is multiplied.
    """

    what: str
    at: str | None
    tried: str
    factor: float | None = None

    def __str__(self) -> str:
        """Say it in a line."""
        if self.at is None:
            return f"{self.what}: nothing reverses it ({self.tried})"
        return f"{self.what}: {self.at}"


def by_price(
    pick: tuple[float, Money],
    other: tuple[float, Money],
    what: str,
    price_of: Callable[[Money], float],
) -> Reversal:
    """Say at how many times a price the other one gives as many tokens for a dollar.

    Parameters
    ----------
    pick, other
        Tokens a second, and what is paid for them.
    what
        The price.
    price_of
        Dollars of it that a cluster pays.
    """
    (pace, money), (other_pace, other_money) = pick, other
    total, other_total = money.cluster_usd or 0.0, other_money.cluster_usd or 0.0
    part, other_part = price_of(money), price_of(other_money)
    # pace / (rest + m part) = other_pace / (other_rest + m other_part)
    slope = pace * other_part - other_pace * part
    rest = other_pace * (total - part) - pace * (other_total - other_part)
    factor = rest / slope if slope else float("nan")
    tried = "multiplied by anything from 0 up"
    if not 0 <= factor < float("inf"):
        return Reversal(what, None, tried)
    return Reversal(what, f"{factor:.3g} times what it is", tried, factor)


def prices(pick: Entry, other: Entry, job: Scenario) -> list[Reversal]:
    """Return what prices reverse a choice by tokens a dollar."""
    from lightloom.choice.search import final_job

    paid = [(one.tokens_per_s, money_of(final_job(job, one))) for one in (pick, other)]

    def of_items(*words: str) -> Callable[[Money], float]:
        def price(money: Money) -> float:
            found = [line for line in money.lines if any(word in line.item for word in words)]
            return sum(line.total_usd or 0.0 for line in found)

        return price

    asked: list[tuple[str, Callable[[Money], float]]] = [
        ("price of the servers with their GPUs", lambda money: money.servers_usd or 0.0),
        ("price of packet switches", of_items("chassis", "switch port")),
        ("price of optical switches and patch panels", of_items("optical switch", "patch")),
        ("price of transceivers", of_items("transceiver")),
        ("price of a kWh", lambda money: money.energy_usd or 0.0),
    ]
    there = [(what, of) for what, of in asked if any(of(money) for _, money in paid)]
    return [by_price(paid[0], paid[1], what, of) for what, of in there]


@dataclass(frozen=True)
class Step:
    """A change that is tried: in words, and values by dotted key."""

    words: str
    values: Mapping[str, Any]
    factor: float | None = None
    """Of a quantity: by what it is multiplied."""


def steps(job: Scenario, entries: Sequence[Entry]) -> dict[str, list[Step]]:
    """Return what is tried of each cause."""
    return {
        "delay of optical switches": _delays(job, entries),
        "skew of the gate": _skews(job),
        "how well products use a GPU": _efficiencies(job),
    }


def _delays(job: Scenario, entries: Sequence[Entry]) -> list[Step]:
    from lightloom.units import Time

    for one in entries:
        there = job.with_(one.candidate.overrides)
        delay = getattr(getattr(there.fabric, "ocs", None), "delay", None)
        if isinstance(delay, Time):
            return [
                Step(str(time), {"fabric.ocs.delay": str(time)}, factor)
                for factor in DELAYS
                for time in [Time(max(1, round(int(delay) * factor)))]
            ]
    return []


def _skews(job: Scenario) -> list[Step]:
    if not job.model.experts:
        return []
    return [
        Step(f'gating.trace = "{name}"', {"gating.trace": name})
        for name in ("uniform", "builtin")
        if name != job.gating.trace
    ]


def _efficiencies(job: Scenario) -> list[Step]:
    key = "matmul_efficiency" if job.compute.efficiency == "share" else "matmul_ceiling"
    now = getattr(job.compute, key)
    if now is None:
        return []
    return [
        Step(f"compute.{key} = {share:g}", {f"compute.{key}": share}, factor)
        for factor in EFFICIENCIES
        for share in [round(now * factor, 4)]
        if share <= 1
    ]


def variants(
    job: Scenario, pair: Sequence[Entry]
) -> tuple[list[tuple[str, Step]], list[list[Run]]]:
    """Return every step with its cause, and the ratings of both after it.

    A candidate whose fabric has no such key is rated as it is.
    """
    found: list[tuple[str, Step]] = []
    runs: list[list[Run]] = []
    own = rating.Raters(job)
    for cause, tried in steps(job, pair).items():
        for step in tried:
            of_fabric = {k: v for k, v in step.values.items() if k.startswith("fabric.")}
            of_job = {k: v for k, v in step.values.items() if k not in of_fabric}
            try:
                raters = rating.Raters(job.with_(of_job)) if of_job else own
            except InputError:
                continue
            found.append((cause, step))
            runs.append([_rating(raters, one, cause, step, of_fabric) for one in pair])
    return found, runs


def _rating(
    raters: rating.Raters, one: Entry, cause: str, step: Step, of_fabric: Mapping[str, Any]
) -> Run:
    from dataclasses import replace

    assert one.rated is not None
    keys = {key.partition(".")[2]: value for key, value in of_fabric.items()}
    there = raters.job.with_(one.candidate.overrides).fabric
    if keys and not hasattr(there, "ocs"):
        keys = {}
    candidate = replace(one.candidate, keys={**one.candidate.keys, **keys})
    return raters.rating(
        candidate, [one.rated.layout], name=f"{one.candidate}, {cause} {step.words}"
    )


def by_times(
    tried: Sequence[tuple[str, Step]],
    rated: Sequence[Sequence[rating.Rated | str]],
    pair: Sequence[Entry],
    aim: Aim,
) -> list[Reversal]:
    """Say at which step of each cause the runner-up is better, by the closed form.

    Of a quantity it is the nearest step below what it is, and the nearest above.
    """
    turns: dict[str, list[Step]] = {}
    for (cause, step), both in zip(tried, rated, strict=True):
        reverses = _prefers_second(both, pair, aim)
        turns.setdefault(cause, []).extend([step] if reverses else [])
    found = []
    for cause, reversing in turns.items():
        steps = [step for named, step in tried if named == cause]
        words = [step.words for step in steps]
        # Of a quantity its ends say what was tried.
        whole = any(step.factor is None for step in steps) or len(words) < 3
        every = ", ".join(words) if whole else f"{words[0]} to {words[-1].rpartition(' = ')[2]}"
        at = ", or ".join(step.words for step in _nearest(reversing))
        found.append(Reversal(cause, at or None, every))
    return found


def _prefers_second(both: Sequence[rating.Rated | str], pair: Sequence[Entry], aim: Aim) -> bool:
    scored = []
    for one, entry in zip(both, pair, strict=True):
        if isinstance(one, str) or entry.network_usd is None or entry.rated is None:
            return False
        usd = entry.network_usd
        score = aim.score(
            tokens_per_s=one.tokens_per_s, network_usd=usd, cluster_usd=entry.rated.cluster_usd
        )
        scored.append((score, usd))
    return aim.prefers(scored[1], scored[0])


def _nearest(reversing: Sequence[Step]) -> list[Step]:
    below = [one for one in reversing if one.factor is not None and one.factor < 1]
    above = [one for one in reversing if one.factor is not None and one.factor > 1]
    near = [one for one in reversing if one.factor is None]
    near += [max(below, key=lambda one: one.factor or 0.0)] if below else []
    return near + ([min(above, key=lambda one: one.factor or 0.0)] if above else [])
