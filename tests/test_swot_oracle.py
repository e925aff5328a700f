"""SWOT's scheduler against the mixed-integer program of the paper, solved by HiGHS."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pytest
from lightloom import _core
from lightloom.oracle.swot import Held, solve

# HiGHS is feasible, and optimal, to a millionth of its largest numbers.
EXACT = 1e-5
RATE_BPS = 400 * 10**9


@dataclass(frozen=True)
class Instance:
    """Steps (configuration, bytes) on as many planes as `initial` has entries."""

    steps: tuple[tuple[int, int], ...]
    initial: tuple[Held, ...]
    reconfiguration_ps: int
    latency_ps: int

    @classmethod
    def draw(cls, seed: int) -> Instance:
        """Draw up to 7 steps on up to 3 planes: configurations repeat, and volumes span decades."""
        rng = np.random.default_rng(seed)
        count, planes = int(rng.integers(2, 8)), int(rng.integers(1, 4))
        kinds = int(rng.integers(1, count + 1))
        steps = tuple(
            (int(rng.integers(kinds)), int(10 ** rng.uniform(5, 7.5))) for _ in range(count)
        )
        start: Held = (steps[0][0], None, "free")[int(rng.integers(3))]
        mixed = tuple((int(rng.integers(kinds)), None)[int(rng.integers(2))] for _ in range(planes))
        initial = mixed if rng.random() < 0.25 else (start,) * planes
        dark = int(10 ** rng.uniform(7, 9))  # 10 us to 1 ms
        return cls(steps, initial, dark, int(rng.choice([0, 1_000_000, 5_000_000])))

    def scheduled(self, effort: str = "normal") -> tuple[int, int]:
        """Return when SWOT's schedule completes, and its bound [ps]."""
        held = {None: "dark", "free": "free"}
        request = {
            "planes": {
                "planes": len(self.initial),
                "rate_bps": RATE_BPS,
                "reconfiguration_ps": self.reconfiguration_ps,
                "latency_ps": self.latency_ps,
            },
            "initial": [{"configuration": h} if isinstance(h, int) else held[h]
                        for h in self.initial],
            "steps": [{"configuration": c, "volume_bytes": v} for c, v in self.steps],
            "effort": effort,
        }  # fmt: skip
        answer = json.loads(_core.swot_schedule(json.dumps(request)))
        assert answer["bound_ps"] <= answer["completion_ps"] <= answer["lockstep_ps"]
        return answer["completion_ps"], answer["bound_ps"]

    def optimum(self, seconds: float = 120.0) -> tuple[float, float]:
        """Return when HiGHS's schedule completes, and its bound [ps]."""
        found = solve(self.steps, self.initial, RATE_BPS, self.reconfiguration_ps,
                      self.latency_ps, seconds)  # fmt: skip
        return found.completion_ps, found.bound_ps


@pytest.mark.parametrize("seed", range(30))
def test_small_instances_are_optimal(seed: int) -> None:
    instance = Instance.draw(seed)
    completion, bound = instance.scheduled()
    best, proven = instance.optimum()
    assert proven >= best * (1 - EXACT), "HiGHS had the time to prove it"
    assert bound <= best * (1 + EXACT)
    assert best * (1 - EXACT) <= completion <= best * (1 + EXACT)


@pytest.mark.soak
def test_two_hundred_instances() -> None:
    ratios = []
    for seed in range(200):
        instance = Instance.draw(seed)
        best, proven = instance.optimum()
        assert proven >= best * (1 - EXACT), f"instance {seed}: HiGHS had no time to prove it"
        completion, bound = instance.scheduled()
        assert bound <= best * (1 + EXACT), f"instance {seed}"
        ratios.append(completion / best)
    assert min(ratios) >= 1 - EXACT and max(ratios) <= 1.01
    assert sum(ratio <= 1 + EXACT for ratio in ratios) >= 0.95 * len(ratios)


@pytest.mark.parametrize("effort", ["quick", "thorough"])
def test_effort_never_beats_the_optimum(effort: str) -> None:
    for seed in range(8):
        instance = Instance.draw(seed)
        completion, bound = instance.scheduled(effort)
        normal, normal_bound = instance.scheduled()
        if effort == "quick":
            assert completion >= normal_bound and bound <= normal
        else:
            assert completion <= normal and bound >= normal_bound


@dataclass(frozen=True)
class Gridded:
    """Parts that take the dimensions of a grid in turn: each has planes of its own."""

    dimensions: tuple[int, ...]
    steps: tuple[tuple[int, int], ...]
    places: tuple[tuple[int, int], ...]
    """(dimension, part) of each step."""
    initial: tuple[Held, ...]
    reconfiguration_ps: int
    latency_ps: int

    @classmethod
    def draw(cls, seed: int, alike: bool) -> Gridded:
        """Draw two dimensions of one or two planes, with one or two steps a part in each."""
        rng = np.random.default_rng(seed)
        kinds = int(rng.integers(1, 4))

        def steps() -> list[tuple[int, int]]:
            return [(int(rng.integers(kinds)), int(10 ** rng.uniform(5, 7.5)))
                    for _ in range(int(rng.integers(1, 3)))]  # fmt: skip

        own = [[steps() for _ in range(2)]] * 2 if alike else [[steps(), steps()] for _ in range(2)]
        planes = [int(rng.integers(1, 3))] * 2 if alike else [int(n) for n in rng.integers(1, 3, 2)]
        start = [(0, None, "free")[int(rng.integers(3))]] * 2
        made, places = [], []
        for turn in range(2):
            for part in range(2):
                at = (part + turn) % 2
                made += [(10 * at + kind, volume) for kind, volume in own[at][turn]]
                places += [(at, part)] * len(own[at][turn])
        initial = [10 * at + held if isinstance(held, int) else held
                   for at, held in enumerate(start) for _ in range(planes[at])]  # fmt: skip
        dark = int(10 ** rng.uniform(7, 9))
        return cls(tuple(planes), tuple(made), tuple(places), tuple(initial), dark, 1_000_000)

    def scheduled(self) -> tuple[int, int]:
        """Return when SWOT's schedule completes, and its bound [ps]."""
        held = {None: "dark", "free": "free"}
        request = {
            "planes": {"planes": sum(self.dimensions), "rate_bps": RATE_BPS,
                       "reconfiguration_ps": self.reconfiguration_ps,
                       "latency_ps": self.latency_ps},
            "dimensions": self.dimensions,
            "initial": [{"configuration": h} if isinstance(h, int) else held[h]
                        for h in self.initial],
            "steps": [{"configuration": c, "volume_bytes": v, "dimension": d, "part": p}
                      for (c, v), (d, p) in zip(self.steps, self.places, strict=True)],
        }  # fmt: skip
        answer = json.loads(_core.swot_schedule(json.dumps(request)))
        return answer["completion_ps"], answer["bound_ps"]

    def optimum(self) -> float:
        """Return when HiGHS's schedule completes, proven [ps]."""
        found = solve(self.steps, self.initial, RATE_BPS, self.reconfiguration_ps, self.latency_ps,
                      120.0, self.dimensions, self.places)  # fmt: skip
        assert found.bound_ps >= found.completion_ps * (1 - EXACT)
        return found.completion_ps


@pytest.mark.parametrize("seed", range(12))
def test_grids_of_like_dimensions_are_optimal(seed: int) -> None:
    instance = Gridded.draw(seed, alike=True)
    completion, bound = instance.scheduled()
    best = instance.optimum()
    assert best * (1 - EXACT) <= completion <= best * (1 + EXACT)
    assert best * (1 - EXACT) <= bound <= best * (1 + EXACT)


def test_grids_of_any_dimensions_are_near_the_optimum() -> None:
    ratios = []
    for seed in range(24):
        instance = Gridded.draw(seed, alike=False)
        completion, bound = instance.scheduled()
        best = instance.optimum()
        assert bound <= best * (1 + EXACT) and completion >= best * (1 - EXACT), seed
        ratios.append(completion / best)
    assert max(ratios) <= 1.15 and sum(ratio <= 1 + EXACT for ratio in ratios) >= 12, ratios


def test_the_worked_example() -> None:
    steps = tuple((c, mb * 10**6) for c, mb in [(0, 20), (1, 10), (2, 5), (2, 5), (1, 10), (0, 20)])
    # SWOT, Section 3.1: two planes; reconfiguration as long as 10 MB on one of them.
    for initial, us in ((0, 1200), ("free", 1200), (None, 1400)):
        example = Instance(steps, (initial, initial), 200_000_000, 0)
        assert example.scheduled() == (us * 1_000_000, us * 1_000_000)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"initial": []}, "initial state"),
        ({"steps": []}, "no steps"),
        ({"effort": "much"}, 'effort is "much"; allowed: quick'),
        ({"steps": [{"configuration": 0, "volume_bytes": 0}]}, "step 0 sends 0 bytes"),
        ({"steps": [{"configuration": 0, "volume_bytes": 2**64 - 1}]}, "2^62 ps"),
        ({"steps": [{"configuration": -1, "volume_bytes": 1}]}, "invalid value"),
        ({"more": 1}, "unknown field `more`"),
    ],
)
def test_bad_requests(change: dict[str, object], named: str) -> None:
    planes = {"planes": 1, "rate_bps": RATE_BPS, "reconfiguration_ps": 1, "latency_ps": 0}
    request = {"planes": planes, "initial": ["dark"],
               "steps": [{"configuration": 0, "volume_bytes": 1}]}  # fmt: skip
    assert json.loads(_core.swot_schedule(json.dumps(request)))["completion_ps"] == 21
    with pytest.raises(ValueError, match=named.replace("^", r"\^")):
        _core.swot_schedule(json.dumps(request | change))
