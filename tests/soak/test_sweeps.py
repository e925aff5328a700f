"""Sweeps of 200 points that are killed with -9 in their middle: here, and on Ray, two workers."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.test_sweep import Swept

pytestmark = pytest.mark.soak
AXES = ["--over", "fabric.preset=fat-tree,rail-optimized", "--seeds", "1..100"]


def test_a_sweep_of_200_points_that_was_killed_goes_on(tmp_path: Path) -> None:
    Swept(tmp_path).killed_and_resumed(200, *AXES)


@pytest.mark.skipif(not find_spec("ray"), reason="Ray is an extra")
def test_a_sweep_on_ray_that_was_killed_goes_on(tmp_path: Path) -> None:
    Swept(tmp_path).killed_and_resumed(200, *AXES, on=("--on", "ray", "--jobs", "2"))
