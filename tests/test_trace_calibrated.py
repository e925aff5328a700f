"""The generator `calibrated`: its laws are fitted to some recordings, and judged on others."""

from __future__ import annotations

import os
import re
from pathlib import Path

import lightloom
import numpy as np
import pytest
from lightloom import Scenario
from lightloom.gating import load_trace, unrecorded
from lightloom.trace import GatingTrace, Options, import_trace
from lightloom.trace.calibration import (
    HELD_OUT,
    figures,
    fitted,
    like,
    measure,
    sequences_of,
    table,
)
from lightloom.trace.synthetic import Shape, generate
from lightloom.trace.synthetic.calibrated import FITTED, LAWS, RANGE

PAGE = Path(__file__).parents[1] / "docs/traces.md"
# Expert loads of Switch Transformers, recorded by others: a folder that holds `switch8_*.csv` and
# `switch32_*.csv` (data/fixtures of github.com/jimmy01081122/platform).
SWITCH = Path(os.environ.get("LIGHTLOOM_SWITCH_LOADS", "no such folder"))


def test_the_constants_are_what_the_recordings_come_to() -> None:
    found = fitted()
    for law, given in zip(found[:3], LAWS[:3], strict=True):
        assert law.at_one == pytest.approx(given.at_one, abs=5e-5)
        assert law.power == pytest.approx(given.power, abs=5e-4)
    assert found.memory == pytest.approx(LAWS.memory, abs=5e-4)
    sparsity = [trace.experts / trace.top_k for trace in map(GatingTrace.load, FITTED)]
    assert (min(sparsity), max(sparsity)) == RANGE
    assert not set(FITTED) & set(HELD_OUT)


@pytest.mark.parametrize("name", HELD_OUT)
def test_recordings_that_were_not_fitted_look_alike(name: str) -> None:
    """Figures of a recording lie near the mean of several draws; each says how near."""
    recording = GatingTrace.load(name)
    recorded, drawn = figures(recording), [figures(like(recording, seed)) for seed in range(1, 6)]

    def mean(of: str) -> float:
        return float(np.mean([getattr(one, of) for one in drawn]))

    # Of a wider model, which the laws know nothing of, the busiest expert is less busy.
    wider = name == "e128k8"
    assert mean("busiest") == pytest.approx(recorded.busiest, rel=0.3 if wider else 0.08)
    assert mean("drift") == pytest.approx(recorded.drift, rel=0.15)
    assert mean("sources") == pytest.approx(recorded.sources, rel=0.14 if wider else 0.12)
    assert mean("pairs") == pytest.approx(recorded.pairs, rel=0.06)
    assert mean("memory") == pytest.approx(recorded.memory, abs=0.15)
    ranks = np.mean([one.ranks for one in drawn], axis=0)
    assert ranks == pytest.approx(np.array(recorded.ranks), abs=0.16 if wider else 0.08)


def test_a_generated_trace_measures_as_its_laws_say() -> None:
    shape = Shape(experts=64, sources=16, top_k=8, layers=24, iterations=60, tokens=4096)
    found = measure(generate("calibrated", shape), sequences=8)
    assert found.popularity == pytest.approx(LAWS.popularity.at(8), rel=0.1)
    assert found.sequence == pytest.approx(LAWS.sequence.at(8), rel=0.05)
    assert found.drift == pytest.approx(LAWS.drift.at(8), rel=0.15)


def test_knobs_are_factors_and_zero_is_even() -> None:
    shape = Shape(experts=32, sources=8, top_k=4, layers=16, iterations=4, tokens=1 << 18)
    even = generate("calibrated", shape, {"spread": 0, "drift": 0, "variety": 0})
    loads = even.counts / even.counts.mean()
    assert loads.std() < 0.01  # what a quarter of a million tokens scatter

    def uneven(**knobs: float) -> float:
        return measure(generate("calibrated", shape, knobs), sequences=8).popularity

    assert uneven(spread=3) == pytest.approx(3 * uneven(spread=1), rel=0.15)
    few, many = (
        generate("calibrated", shape, {"spread": 0, "drift": 0, "sequences": n}) for n in (2, 32)
    )
    ratio = (few.counts / few.counts.mean()).std() / (many.counts / many.counts.mean()).std()
    assert ratio == pytest.approx(4, rel=0.1)


def test_beyond_the_recordings_the_nearest_stands_in() -> None:
    assert LAWS.popularity.at(128) == LAWS.popularity.at(32)
    assert LAWS.popularity.at(1) == LAWS.popularity.at(4)


def test_a_shape_without_a_recording_gets_one_and_the_result_says_so() -> None:
    job = Scenario.preset("gpt-oss-20b").with_(
        {"cluster.gpus": 16, "parallelism.ep": 16, "parallelism.pp": 1, "training.micro_batches": 1,
         "model.layers": 2, "training.micro_batch": 2}
    )  # fmt: skip
    # 32 experts, top-4 is shipped; top-2 is not.
    other = job.with_({"model.top_k": 2})
    assert unrecorded(job) is None and unrecorded(other) is not None
    trace = load_trace(other)
    assert trace.meta["origin"] == f"generated, calibrated on {', '.join(FITTED)}"
    assert "--sequences 2" in str(trace.meta["command"])
    result = lightloom.simulate(other, progress=False)
    assert result.info["trace"]["origin"] == trace.meta["origin"]
    assert any("loads are generated, calibrated on" in line for line in result.info["warnings"])
    assert (trace.counts == load_trace(other).counts).all()
    assert (trace.counts != load_trace(other.with_(seed=2)).counts).any()


def test_the_page_has_the_table() -> None:
    page = PAGE.read_text(encoding="utf-8")
    start = re.search(r"^\| trace \| \|", page, flags=re.MULTILINE)
    assert start is not None
    assert page[start.start() :].startswith(table())


@pytest.mark.parametrize("experts", [8, 32])
def test_real_models_on_one_kind_of_text_are_less_even(experts: int) -> None:
    """Not a fit, a bound of what it is good for: Switch Transformers on MBPP."""
    if not SWITCH.is_dir():
        pytest.skip("LIGHTLOOM_SWITCH_LOADS names no folder")
    (path,) = SWITCH.glob(f"switch{experts}_*.csv")
    real = import_trace(path, options=Options(stage="decoder", sources=1))
    loads = real.loads().mean(axis=0)
    variation = (loads.std(axis=1) / loads.mean(axis=1)).mean()
    assert variation > 1.5 * LAWS.popularity.at(experts)
    assert sequences_of(GatingTrace.load("e8k2")) == 8
