"""A trace that is generated for the job: `gating.trace` names a kind of generator."""

from __future__ import annotations

from pathlib import Path

import pytest
from lightloom import Scenario
from lightloom.errors import InputError
from lightloom.gating import ITERATIONS, load_trace
from lightloom.resolve import load_scenario
from lightloom.runs import ScenarioRun
from lightloom.trace.synthetic import KINDS, Shape, generate


def job(trace: str = "hot-rank", **knobs: float) -> Scenario:
    return Scenario.preset(
        "deepseek-r1", gating={"trace": trace, "knobs": knobs}, training={"micro_batches": 1}
    )


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_fits_the_job(kind: str) -> None:
    one = job(kind)
    trace = load_trace(one)
    layers = one.model.layers - one.model.dense_layers
    assert trace.counts.shape == (ITERATIONS, layers, one.parallelism.ep, one.model.experts)
    assert trace.top_k == one.model.top_k


def test_it_is_what_the_command_generates() -> None:
    made = load_trace(job(factor=3.0))
    layers = made.counts.shape[1]
    shape = Shape(experts=256, sources=64, top_k=8, layers=layers, iterations=ITERATIONS, seed=1)
    assert (made.counts == generate("hot-rank", shape, {"factor": 3.0}).counts).all()


def test_whole_knobs_stay_whole() -> None:
    assert load_trace(job("rotating-hotspot", period=3)).counts.sum() > 0
    assert load_trace(job("burst", period=4, length=1)).counts.sum() > 0


def test_knobs_and_seed_make_another_run() -> None:
    keys = {ScenarioRun.of(one).key for one in (job(), job(factor=3.0), job(factor=4.0))}
    assert len(keys) == 3
    assert ScenarioRun.of(job(factor=8.0)).key == ScenarioRun.of(job()).key  # the default
    seeds = {ScenarioRun.of(job("sparse").with_(seed=seed)).key for seed in (1, 2)}
    assert len(seeds) == 2


def test_a_resolved_specification_says_it_all(tmp_path: Path) -> None:
    one = job(factor=3.0)
    file = tmp_path / "job.toml"
    file.write_text(one.to_toml())
    again = load_scenario(file).scenario
    assert ScenarioRun.of(again).key == ScenarioRun.of(one).key


@pytest.mark.parametrize(
    ("trace", "knobs", "said"),
    [
        ("uniform", {"factor": 3.0}, "gating.knobs.factor = 3.0: uniform reads nothing"),
        ("hot-rank", {"factor": 0.1}, "gating.knobs.factor = 0.1: must be 1 to 1000000"),
        ("burst", {"length": 30, "period": 10}, "gating.knobs.length = 30.0: must be at most"),
        ("builtin", {"factor": 3.0}, 'gating.knobs.factor: gating.trace = "builtin" is not'),
        ("hot-rnak", {}, 'gating.trace = "hot-rnak": no such file (did you mean "hot-rank"?)'),
    ],
)
def test_what_a_kind_does_not_read_is_refused(
    trace: str, knobs: dict[str, float], said: str
) -> None:
    with pytest.raises(InputError, match="gating") as found:
        load_trace(job(trace, **knobs))
    assert said in str(found.value)
