"""What varies from draw to draw: seeds, gating traces, compute profiles, prices.

Every combination is a draw, the job's own seed and the first of each list in the first. A profile
says how fast GPUs compute: ``share`` or ``shape`` (rooflines with that `compute.efficiency`), a
`compute.table` (``paper-profile``, or a file), or ``compute.KEY=VALUE``. A price list is a preset,
or ``prices.KEY=VALUE`` or ``money.KEY=VALUE``; several of these are joined by ``+``. Ignored: other
keys, which ``lightloom sweep`` varies. Checked: pairing and refusals, in ``tests/test_draws.py``.
"""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from numbers import Integral
from typing import Any, get_args

from lightloom import presets
from lightloom.compute_table import TABLES
from lightloom.errors import InputError
from lightloom.scenario import Scenario
from lightloom.sections import Compute

EFFICIENCIES: tuple[str, ...] = get_args(Compute.model_fields["efficiency"].annotation)
MOST_SEEDS = 10_000

Choice = str | Mapping[str, Any]
Choices = Choice | Iterable[Choice] | None


@dataclass(frozen=True)
class Draw:
    """One combination, and the keys that it changes besides the seed."""

    number: int
    seed: int
    trace: str
    profile: str
    prices: str
    changes: Mapping[str, Any]

    @property
    def label(self) -> str:
        """What tells it from other draws.

        >>> Draw(0, 2, "e8k2", "shape", "mixnet-table-4", {}).label
        'seed 2, trace e8k2, profile shape, prices mixnet-table-4'
        """
        return f"seed {self.seed}, trace {self.trace}, profile {self.profile}, prices {self.prices}"


@dataclass(frozen=True)
class Draws:
    """All draws of a comparison; see `of`."""

    job: Scenario
    draws: tuple[Draw, ...]
    seeds: int
    traces: tuple[str, ...]
    profiles: tuple[str, ...]
    prices: tuple[str, ...]

    @classmethod
    def of(
        cls,
        job: Scenario,
        *,
        seeds: int = 1,
        traces: Choices = None,
        profiles: Choices = None,
        price_lists: Choices = None,
        dashes: str = "",
    ) -> Draws:
        """Return the draws of a job.

        Parameters
        ----------
        job
            Its seed is the first; those that follow are greater by one each.
        seeds
            How many, from 1 to 10,000.
        traces, profiles, price_lists
            One or several; the job's own unless given.
        dashes
            What messages write before the names of these arguments.

        Raises
        ------
        InputError
            If a choice is not known, is given twice, or leads to no valid job.

        Examples
        --------
        >>> job = Scenario.preset("mixtral-8x7b", gpus=128)
        >>> found = Draws.of(job, seeds=2, profiles=["share", "shape"])
        >>> [(draw.seed, draw.profile) for draw in found.draws]
        [(1, 'share'), (2, 'share'), (1, 'shape'), (2, 'shape')]
        >>> found.varied
        '2 seeds x 2 profiles (share, shape)'
        """
        whole = isinstance(seeds, Integral) and not isinstance(seeds, bool)
        if not whole or not 1 <= seeds <= MOST_SEEDS:
            raise InputError(
                f"{dashes}seeds {seeds}: must be a whole number from 1 to {MOST_SEEDS:,}"
            )

        def read(
            name: str, own: str, given: Choices, one: Callable[[str, Choice], Any]
        ) -> list[tuple[str, Mapping[str, Any]]]:
            if given is None:
                return [(own, {})]
            argument = dashes + (name.replace("_", "-") if dashes else name)
            found = [one(argument, choice) for choice in _several(given)]
            words = [word for word, _ in found]
            if not words or len(set(words)) != len(words):
                why = f'"{",".join(words)}": one twice' if words else ": none"
                raise InputError(f"{argument} {why}; allowed: each once")
            return found

        axes = (
            read("traces", job.gating.trace, traces, _trace),
            read("profiles", _own_profile(job), profiles, _profile),
            read("price_lists", job.prices.name, price_lists, _prices),
        )
        draws: list[Draw] = []
        for trace, profile, price in product(*axes):
            changes = {**trace[1], **profile[1], **price[1]}
            for seed in range(job.seed, job.seed + int(seeds)):
                named = (trace[0], profile[0], price[0])
                draws.append(Draw(len(draws), seed, *named, changes))
        words = (tuple(word for word, _ in axis) for axis in axes)
        return cls(job, tuple(draws), int(seeds), *words)

    def scenarios(self, of: Callable[[Scenario], Sequence[Scenario]]) -> list[list[Scenario]]:
        """Return what is run in each draw, where `of` says what is run of a job.

        Raises
        ------
        InputError
            If a draw is no valid job.
        """
        found: list[list[Scenario]] = []
        for draw in self.draws:
            if draw.seed == self.draws[0].seed:
                fresh = list(of(self.job.with_(draw.changes) if draw.changes else self.job))
            # A seed decides nothing of a specification but itself.
            found.append([one.model_copy(update={"seed": draw.seed}) for one in fresh])
        return found

    @property
    def first(self) -> Scenario:
        """The job of the first draw."""
        changes = self.draws[0].changes
        return self.job.with_(changes) if changes else self.job

    @property
    def varied(self) -> str:
        """What varies, in words; empty for one draw."""
        said = [f"{self.seeds} seeds"] if self.seeds > 1 else []
        for name in ("traces", "profiles", "prices"):
            choices = getattr(self, name)
            if len(choices) > 1:
                what = "price lists" if name == "prices" else name
                said.append(f"{len(choices)} {what} ({', '.join(choices)})")
        return " x ".join(said)

    def as_json(self) -> dict[str, Any]:
        """Return what a Result says of its draws."""
        return {
            "count": len(self.draws),
            "varied": self.varied,
            "seeds": [self.job.seed, self.job.seed + self.seeds - 1],
            "traces": list(self.traces),
            "profiles": list(self.profiles),
            "prices": list(self.prices),
        }


def _several(given: Choice | Iterable[Choice]) -> tuple[Choice, ...]:
    return (given,) if isinstance(given, str | Mapping) else tuple(given)


def _own_profile(job: Scenario) -> str:
    compute = job.compute
    return compute.efficiency if compute.table == "roofline" else compute.table


def _trace(argument: str, given: Choice) -> tuple[str, Mapping[str, Any]]:
    if not isinstance(given, str):
        raise InputError(f"{argument} {given!r}: must be the name of a trace, or its file")
    # Knobs belong to the trace that they were given with.
    return given, {"gating.trace": given}


def _profile(argument: str, given: Choice) -> tuple[str, Mapping[str, Any]]:
    if isinstance(given, str) and given in EFFICIENCIES:
        return given, {"compute.table": "roofline", "compute.efficiency": given}
    if isinstance(given, str) and (given in TABLES or os.path.isfile(given)):
        return given, {"compute.table": given}
    known = (*EFFICIENCIES, *TABLES)
    allowed = f"{', '.join(known)}, a table's file, or compute.KEY=VALUE"
    return _keys(argument, given, ("compute",), "profile", allowed)


def _prices(argument: str, given: Choice) -> tuple[str, Mapping[str, Any]]:
    known = presets.names("prices")
    if isinstance(given, str) and given in known:
        return given, {"prices.preset": given}
    allowed = f"{', '.join(known)}, prices.KEY=VALUE or money.KEY=VALUE"
    return _keys(argument, given, ("prices", "money"), "price list", allowed)


def _keys(
    argument: str, given: Choice, sections: Sequence[str], what: str, allowed: str
) -> tuple[str, Mapping[str, Any]]:
    """Read KEY=VALUE, several joined by ``+``, or a mapping; each key of one of the sections."""
    if isinstance(given, Mapping):
        changes = dict(given)
        word = "+".join(f"{key}={value}" for key, value in changes.items())
    else:
        word, changes = given, {}
        for part in str(given).split("+"):
            key, _, text = part.partition("=")
            changes[key.strip()] = _value(text)
    for key, value in changes.items():
        empty = value == "" or (isinstance(value, float) and not math.isfinite(value))
        if not key.startswith(tuple(f"{section}." for section in sections)) or empty:
            raise InputError(f'{argument} "{word}": no such {what}; allowed: {allowed}')
    return word, changes


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text.strip()
