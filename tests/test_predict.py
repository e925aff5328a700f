"""Predictors of expert loads: Copilot's fit against HiGHS, scores, the command and its refusals."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lightloom import _core, kinds
from lightloom.cli import run
from lightloom.errors import InputError
from lightloom.oracle import copilot as oracle
from lightloom.predict import drift, evaluate, fit_ms, open_trace
from lightloom.trace import GatingTrace, Knobs, Shape, generate

IMPORTED = Path(__file__).resolve().parents[2] / "shared" / "data" / "gating"


def fit(samples, tolerance=1e-6):
    asked = {"samples": samples, "tolerance": tolerance}
    return json.loads(_core.predict_fit(json.dumps(asked)))


@st.composite
def windows(draw):
    experts = draw(st.integers(2, 8))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    count = draw(st.integers(1, 20))
    scatter = draw(st.sampled_from([0.05, 0.5, 3.0]))
    loads = np.exp(scatter * rng.standard_normal((count, 2, experts)))
    loads[rng.random(loads.shape) < draw(st.sampled_from([0.0, 0.3]))] = 0.0
    loads[..., 0] += 1e-3
    loads /= loads.sum(axis=2, keepdims=True)
    return [(x.tolist(), y.tolist(), 0.9**age) for age, (x, y) in enumerate(loads)]


@settings(max_examples=60)
@given(windows())
def test_the_fit_is_as_good_as_the_oracle(samples):
    found = fit(samples)
    matrix = np.array(found["matrix"])
    assert np.all(matrix >= 0) and np.allclose(matrix.sum(axis=0), 1, atol=1e-9)
    assert found["objective"] == pytest.approx(oracle.objective(samples, matrix), abs=1e-12)
    best = oracle.objective(samples, oracle.solve(samples))
    slack = 1e-6 * found["constant_objective"] + 1e-9  # HiGHS's own tolerance
    assert found["objective"] <= best + slack
    assert found["objective"] - found["gap"] <= best + 1e-9


def test_a_fit_for_64_experts_is_quick():
    # Five milliseconds on an idle core; other work on this machine may take most of it.
    assert fit_ms(64, times=10) < 100


def test_what_is_asked_of_a_fit_is_checked():
    for asked in (
        {"samples": [], "tolerance": 1e-6},
        {"samples": [([1.0], [0.5, 0.5], 1.0)], "tolerance": 1e-6},
        {"samples": [([1.0, 0.0], [0.5, -0.5], 1.0)], "tolerance": 1e-6},
        {"samples": [([1.0, 0.0], [0.5, 0.5], 0.0)], "tolerance": 1e-6},
        {"samples": [([1.0, 0.0], [0.5, 0.5], 1.0)], "tolerance": 0.0},
    ):
        with pytest.raises(ValueError, match="samples"):
            _core.predict_fit(json.dumps(asked))


def test_copilot_finds_what_it_assumes():
    found = evaluate(drift(), tops=(1, 2))
    copilot = found.score("copilot")
    for other in ("previous-layer", "uniform", "average", "previous-iteration"):
        assert copilot.accuracy[1] > found.score(other).accuracy[1]
        assert copilot.load_error < found.score(other).load_error
        assert copilot.matrix_error < found.score(other).matrix_error
    assert found.score("auto").matrix_error < found.score("uniform").matrix_error


def test_the_default_trace_repeats_exactly():
    trace = GatingTrace.load("e8k2")
    short = GatingTrace(trace.counts[:40], trace.top_k, trace.meta)
    one, two = (evaluate(short) for _ in range(2))
    assert one.as_dict() == two.as_dict()
    copilot = one.score("copilot")
    for other in ("previous-layer", "uniform"):
        assert copilot.accuracy[1] > 2 * one.score(other).accuracy[1]
        assert copilot.matrix_error < one.score(other).matrix_error
        assert copilot.time_ratio < one.score(other).time_ratio
    assert one.score("uniform").accuracy[2] == pytest.approx(2 / 8)
    assert sum(one.score("auto").by.values()) == pytest.approx(1)
    assert 1 <= one.region.servers == 8


@pytest.mark.parametrize("name", ["switch8_mbpp_s64_bs8_len64", "switch32_mbpp_s64_bs4_len128"])
def test_imported_loads(name):
    file = IMPORTED / f"{name}.csv"
    if not file.is_file():
        pytest.skip(f"{file} is not on this machine")
    found = evaluate(str(file))
    copilot = found.score("copilot")
    for other in ("previous-layer", "uniform"):
        assert copilot.accuracy[1] > found.score(other).accuracy[1]
    assert any("no sources" in note for note in found.notes)


def test_who_sees_the_future_would_pay_nothing():
    steady = generate("zipf-receiver", Shape(iterations=6, layers=3))
    found = evaluate(steady, tops=(1,))
    for name in ("average", "previous-iteration"):
        score = found.score(name)
        assert (score.time_ratio, score.accuracy) == (1.0, {1: 1.0})
        assert score.load_error < 1e-9
    assert evaluate(steady, tensor_parallel=1).score("copilot").time_ratio is None


def test_a_longer_window_forgets_later():
    rotating = generate("rotating-hotspot", Shape(iterations=40, layers=3), Knobs(period=10))
    errors = [
        evaluate(rotating, window=window, decay=1.0).score("average").load_error
        for window in (1, 4, 16)
    ]
    assert errors == sorted(errors)


def test_bad_requests():
    for arguments, said in (
        ({"trace": "synthetic:nothing"}, "synthetic:nothing: must be synthetic:drift or"),
        ({"trace": "e9k9"}, "no trace is shipped for 9 experts"),
        ({"window": 0}, "--window 0: must be 1 to 4096"),
        ({"decay": 0.0}, "--decay 0.0: must be above 0"),
        ({"tops": (9,)}, "--top 9: must be 1 to the trace's experts, 8"),
        ({"rows": "some"}, '--rows "some": must be own or alike'),
        ({"decision": "no"}, '--decision "no": must be algorithm-1 or matchings or timed'),
        ({"model": "deepseek-r1"}, "--model deepseek-r1: 64 EP ranks"),
        ({"tensor_parallel": 0}, "--tp 0: must be 1 to 1024"),
    ):
        given_trace = arguments.pop("trace", "synthetic:uniform")
        with pytest.raises(InputError, match=said.replace("(", r"\(")):
            evaluate(given_trace, **arguments)
    one = GatingTrace(np.ones((1, 2, 4, 4), int), 1)
    with pytest.raises(InputError, match="must have at least 2 of each"):
        evaluate(one)


def test_command(capsys):
    assert run(["predict", "evaluate", "synthetic:drift", "--top", "1", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    names = [score["predictor"] for score in told["scores"]]
    # At equal costs `auto` follows the first.
    assert names[0] == "copilot" and names == [*kinds.family("predictor").kinds]
    assert kinds.family("predictor").able("every_layer") == ("auto",)
    assert run(["predict", "evaluate", "synthetic:burst", "--layers", "--tp", "1"]) == 0
    said = capsys.readouterr().out
    assert "auto went by" in said and "all ranks are in one server" in said
    for arguments in (["--top", "x"], ["--window", "0"], ["--model", "nothing"]):
        assert run(["predict", "evaluate", "e8k2", *arguments]) == 2
        message = capsys.readouterr().err
        assert message.startswith("error: ") and message.count("\n") == 1, message


def test_traces_of_every_kind(tmp_path):
    file = tmp_path / "loads.npz"
    rng = np.random.default_rng(1)
    np.savez(file, loads=rng.integers(1, 99, (5, 3, 8)), top_k=1)
    assert open_trace(str(file)).counts.shape == (5, 3, 8, 8)
    assert evaluate(str(file), tops=(1,)).shape == (5, 3, 8, 8)
