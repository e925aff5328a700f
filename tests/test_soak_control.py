"""Scenarios of the control plane, from Python and from the command line."""

from __future__ import annotations

import json

import pytest
from lightloom import _core
from lightloom.cli import run


def test_scenarios_hold_and_are_told() -> None:
    told: list[int] = []
    result = _core.soak_control(0, 200, 2, told.append)
    assert result["broken"] is None
    assert result["scenarios"] == 200
    assert told[-1] == 200 and told == sorted(told)
    in_scenarios, times = result["happened"]["controller crashed"]
    assert 20 < in_scenarios < 200 and times > in_scenarios


def test_threads_change_nothing() -> None:
    one, three = (_core.soak_control(7, 40, threads) for threads in (1, 3))
    assert one["happened"] == three["happened"]
    assert one["steps"] == three["steps"]


def test_progress_stops_the_run() -> None:
    def stop(done: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _core.soak_control(0, 10**9, 2, stop)


def test_a_trace_is_the_same_scenario_again() -> None:
    lines, result = _core.soak_control_trace(3)
    assert (lines, result) == _core.soak_control_trace(3)
    assert result["steps"] == _core.soak_control(3, 1, 1)["steps"]
    assert any("faults stop" in line for line in lines)


@pytest.mark.parametrize("arguments", [(0, 0, 1), (0, 1, 0), (2**64 - 1, 2, 1), (0, 1, 5000)])
def test_what_cannot_be_is_refused(arguments: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="count must be 1 or more"):
        _core.soak_control(*arguments)


def test_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["soak", "control", "--seeds", "20", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["scenarios"] == 20
    assert run(["soak", "control", "--seeds", "20"]) == 0
    assert "20 scenarios" in capsys.readouterr().out
    assert run(["soak", "control", "--seed", "3", "--trace"]) == 0
    assert "faults stop" in capsys.readouterr().out
    assert run(["soak", "control", "--trace"]) == 2
    assert "name the scenario" in capsys.readouterr().err
    assert run(["soak", "control", "--seeds", "0"]) == 2


def test_a_broken_invariant_names_the_command_that_shows_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = {"seed": 42, "step": 9, "time_ps": 7, "invariant": "connected"}
    broken |= {"says": "", "what": "dark"}
    result = {"scenarios": 3, "steps": 4, "simulated_s": 1.0, "happened": {}, "broken": broken}
    monkeypatch.setattr(_core, "soak_control", lambda *_: result)
    assert run(["soak", "control", "--seeds", "9"]) == 1
    error = capsys.readouterr().err
    assert "connected: dark" in error and "lightloom soak control --seed 42 --trace" in error
    assert len(error.splitlines()) == 1
