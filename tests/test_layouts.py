"""How a job may lie on its GPUs: what is legal, what fits, what is fastest; choosing by itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from lightloom import InputError, Scenario
from lightloom.cli import run
from lightloom.layouts import Chosen, Layout, choose, legal
from lightloom.resolve import load_job, load_scenario
from lightloom.runs.scenario import speed

CONFIG = {
    "architectures": ["MixtralForCausalLM"],
    "hidden_size": 1024,
    "intermediate_size": 2048,
    "model_type": "mixtral",
    "num_attention_heads": 8,
    "num_experts_per_tok": 2,
    "num_hidden_layers": 4,
    "num_key_value_heads": 8,
    "num_local_experts": 8,
    "vocab_size": 1024,
}
SMALL: dict[str, Any] = {
    "cluster.gpus": 16,
    "training.sequence_length": 512,
    "training.micro_batch": 1,
    "training.micro_batches": 4,
}


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG), encoding="utf-8")
    return str(path)


def chosen(job: str, best: int = 4, **more: Any) -> Chosen:
    def make(values: Mapping[str, Any]) -> Scenario:
        return load_job(job, {**SMALL, **more, **values}).scenario

    return choose(make, best=best)


def test_every_legal_layout_resolves() -> None:
    small = Layout(1, 1, 1, None, 1).values
    job = Scenario.preset("mixtral-8x7b", gpus=48, **small, **{"memory.oversize": "allow"})
    layouts = list(legal(job))
    assert len(set(layouts)) == len(layouts) > 50
    for layout in layouts[:: max(1, len(layouts) // 40)]:
        assert job.with_(layout.values).dp >= 1, layout


def test_no_other_layout_is_legal() -> None:
    """Of all degrees up to eight, those that are refused are not listed."""
    small = Layout(1, 1, 1, None, 1).values
    job = Scenario.preset("olmoe-1b-7b", gpus=16, **small, **{"memory.oversize": "allow"})
    layouts = set(legal(job))
    for tp in (1, 2, 3, 4):
        for ep in (1, 2, 8, 12):
            for etp in (1, 2, 4):
                for pp in (1, 2, 3):
                    layout = Layout(tp, 1, ep, etp, pp)
                    try:
                        job.with_(layout.values)
                        fits = tp % etp == 0
                    except InputError:
                        fits = False
                    assert (layout in layouts) == fits, layout


def test_the_best_is_the_fastest_that_the_engine_ran(config: str) -> None:
    found = chosen(config)
    ran = [one for one in found.rated if one.iteration_s is not None]
    assert len(ran) == 4 and list(ran) == sorted(ran, key=lambda one: -one.pace)
    assert found.best == ran[0] and str(ran[0].layout) in found.reason
    assert found.fitting == found.legal == len(found.rated)


def test_the_closed_form_sorts_as_the_engine_does(config: str) -> None:
    found = chosen(config, best=30)
    ran = [one for one in found.rated if one.iteration_s is not None]
    assert len(ran) == 30
    by_form = sorted(ran, key=lambda one: one.estimate_s / one.tokens)
    assert ran[0] in by_form[:10]
    for one in ran:
        assert one.iteration_s is not None
        assert 0.4 < one.estimate_s / one.iteration_s < 1.6, one


def test_what_does_not_fit_is_not_chosen(config: str) -> None:
    roomy = chosen(config, best=0)
    least = min(one.memory for one in roomy.rated)
    most = max(one.memory for one in roomy.rated)
    tight = chosen(config, best=0, **{"compute.memory": f"{(least + most) // 2} B"})
    assert 0 < tight.fitting < tight.legal
    assert all(one.fits for one in tight.rated[: tight.fitting])
    none = chosen(config, best=0, **{"compute.memory": f"{least // 2} B"})
    assert none.best is None and none.reason.startswith("none of ")


def test_a_config_without_parallelism_is_laid_out(
    config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = load_job(config, SMALL)
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "parallelism chosen: tp " in said
    origin = found.origins["parallelism.ep"]
    assert origin.layer == "chosen" and "by the flow engine" in origin.source
    again = load_job(config, SMALL)
    assert again.scenario == found.scenario


def test_who_says_a_degree_says_all(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError, match=r"parallelism\.ep: missing"):
        load_job(config, {**SMALL, "parallelism.tp": 2})
    tree = {"model": {"huggingface": config}, "parallelism": {"ep": 8}}
    assert load_scenario(tree, SMALL).scenario.parallelism.ep == 8
    assert capsys.readouterr().err == ""


def test_nothing_that_fits_is_one_message(config: str) -> None:
    with pytest.raises(InputError, match=r"none of .* legal layouts fits in"):
        load_job(config, {**SMALL, "compute.memory": "1 MiB"})


def test_the_command_lists_and_says_why(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    more = [part for key, value in SMALL.items() for part in ("--set", f"{key}={value}")]
    command = ["parallelism", config, "--gpu", "h200", "--best", "3", *more]
    assert run(command) == 0
    shown = capsys.readouterr().out
    assert "tokens/s a GPU by the flow engine, of 3 that it ran" in " ".join(shown.split())
    assert run([*command, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["capacity_bytes"] == 141 * 10**9 or told["capacity_bytes"] > 140 * 10**9
    ran = [one for one in told["layouts"] if one["iteration_s"] is not None]
    assert len(ran) == 3 and told["layouts"][:3] == ran
    assert len(told["layouts"]) == told["legal"]
    # Utilisation goes with tokens: here as for a job in that layout.
    rates = {one["mfu"] / one["tokens_per_s_per_gpu"] for one in told["layouts"]}
    assert max(rates) == pytest.approx(min(rates)) and "MFU" in shown
    fast = speed(load_job(config, {**SMALL, "compute.gpu": "h200"}).scenario, 1.0)
    assert max(rates) == pytest.approx(fast["mfu"] / fast["tokens_per_s_per_gpu"])


def test_a_dense_model_has_no_experts_to_lay_out() -> None:
    found = chosen("llama-3-70b", best=0, **{"memory.oversize": "allow"})
    assert {one.layout.etp for one in found.rated} == {None}
    assert {one.layout.ep for one in found.rated} == {1}
