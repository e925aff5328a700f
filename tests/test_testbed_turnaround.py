"""How long circuits take to change, measured on testbeds that are built for it."""

from __future__ import annotations

import pytest
from lightloom import testbed
from lightloom.errors import InputError, LightloomError
from lightloom.testbed import system
from lightloom.testbed.shape import Shape
from lightloom.units import Time

DELAY = Time.parse("10 ms")


@pytest.mark.parametrize("pairs", [1, 4])
def test_the_parts_of_a_change_follow_each_other(pairs: int) -> None:
    try:
        system.check()
        found = testbed.turnaround(pairs, 3, DELAY)
    except InputError as error:
        pytest.skip(f"no testbed can stand here: {error}")
    assert len(found.decided_ms) == 3
    for decided, connected, delivered in zip(
        found.decided_ms, found.connected_ms, found.delivered_ms, strict=True
    ):
        assert 10 < decided <= connected <= delivered < 10_000
    assert found.control_ms == tuple(time - 10 for time in found.decided_ms)
    assert found.said()["decided_p50_ms"] > 10
    assert not any(map(system.exists, Shape(name=f"turnaround-{pairs}").namespaces))


@pytest.mark.parametrize(
    ("pairs", "rounds", "why"),
    [
        (3, 1, "--pairs: 3: must be one of 1, 4, 8, 12, 16"),
        (1, 0, "--rounds: 0: must be from 1 to 10000"),
    ],
)
def test_bad_input_is_refused(pairs: int, rounds: int, why: str) -> None:
    with pytest.raises(LightloomError, match=why):
        testbed.turnaround(pairs, rounds, DELAY)
