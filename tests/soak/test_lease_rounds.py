"""A hundred rounds of ``lease_bound``: everything is stopped and killed, agents stopped for 8 s."""

from __future__ import annotations

from pathlib import Path

import pytest
from lease_bound import ALIKE, World, rounds
from lightloom.cli import daemon

pytestmark = pytest.mark.soak


def test_a_hundred_rounds_and_no_byte_in_the_dark(tmp_path: Path) -> None:
    kinds = [ALIKE[number % len(ALIKE)] for number in range(100)]
    with World(tmp_path, daemon.find(), 1000, 200) as world:
        verdicts = list(rounds(world, kinds, 1, 8.0, print))
    assert [verdict for verdict in verdicts if verdict.violations] == []
    assert sum(verdict.sends for verdict in verdicts) > 10_000
