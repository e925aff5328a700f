"""The gap of a region's circuits over 200 recorded demands, and over random ones."""

from __future__ import annotations

import numpy as np
import pytest
from lightloom.oracle import mixnet_gap as gap

pytestmark = pytest.mark.soak


@pytest.mark.parametrize("model", gap.RECORDED)
def test_two_hundred_recorded_demands_are_near_the_best(model: str) -> None:
    gaps = gap.measure_all(gap.recorded(model, 200))
    worst = max(gaps, key=lambda found: found.timed)
    print(f"\nmean {np.mean([found.timed for found in gaps]):.4f}, {worst.timed:.3f}: {worst.name}")
    assert np.mean([found.timed for found in gaps]) < 1.1
    assert worst.timed < 1.25


@pytest.mark.parametrize("spread", [0.5, 1.0])
def test_two_hundred_random_demands_are_near_the_best(spread: float) -> None:
    gaps = gap.measure_all(gap.random(200, spread))
    assert np.mean([found.timed for found in gaps]) < 1.1
