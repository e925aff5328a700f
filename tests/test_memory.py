"""What a job's GPUs hold, and whether it fits, as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from lightloom import Scenario, memory, simulate
from lightloom.cli import run
from lightloom.errors import InputError
from scripts import script

ROOT = Path(__file__).parents[1]


def docs() -> ModuleType:
    return script("docs/memory.py")


def job(**changes: Any) -> Scenario:
    values = {"cluster.gpus": 128, "training.micro_batches": 4, **changes}
    return Scenario.preset("mixtral-8x7b", **values)


def test_published_peaks_are_met() -> None:
    """Of what was allocated within 10 %; of what the allocator had reserved not more."""
    module = docs()
    rows = [(row, module.counted(row) / float(row["peak_gib"])) for row in module.measured()]
    allocated = [ratio for row, ratio in rows if row["kind"] == "allocated"]
    assert len(allocated) >= 3
    assert all(abs(ratio - 1) < 0.1 for ratio in allocated), rows
    assert all(0.75 < ratio <= 1 for row, ratio in rows if row["kind"] == "reserved"), rows


def test_the_page_has_its_tables() -> None:
    module = docs()
    assert module.PAGE.read_text(encoding="utf-8") == module.page()


def test_a_job_that_does_not_fit_is_one_message(capsys: pytest.CaptureFixture[str]) -> None:
    audited = ["deepseek-v3", "--gpus", "64", "--set", "parallelism.ep=64",
               "--set", "parallelism.pp=1", "--set", "training.sequence_length=131072"]  # fmt: skip
    assert run(["compare", *audited]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    assert err.startswith('error: deepseek-v3: compute.memory = "81559 MiB": stage 0 of 1 needs ')
    assert "(layers' inputs " in err and "--allow-oversize" in err


def test_messages_say_what_would_fit() -> None:
    with pytest.raises(InputError) as said:
        job(**{"training.recompute": "none"})
    for cure in ('training.recompute = "full"', "training.micro_batch = 4", "parallelism.pp"):
        assert cure in str(said.value)
    for change in (
        {"training.recompute": "full"},
        {"training.recompute": "none", "training.micro_batch": 4},
        {"compute.gpu": "b200", "training.recompute": "none"},
    ):
        assert memory.held(job(**change)).fits


def test_what_is_allowed_is_run_and_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = ["mixtral-8x7b", "--set", "cluster.gpus=128", "--set", "training.micro_batches=4",
             "--set", "training.recompute=none"]  # fmt: skip
    assert run(["simulate", *small, "--out", str(tmp_path / "a")]) == 2
    assert not (tmp_path / "a").exists()
    capsys.readouterr()
    assert run(["simulate", *small, "--allow-oversize", "--out", str(tmp_path / "a")]) == 0
    assert "warning: the job is oversize: stage 0 of 4 needs" in capsys.readouterr().err
    info = json.loads((tmp_path / "a" / "result.json").read_text(encoding="utf-8"))
    assert any("oversize" in warning for warning in info["warnings"])


def test_time_of_what_is_computed_anew() -> None:
    """Whole layers take one more forward pass; what is left open none, and the Result says so."""
    times = {}
    for recompute in ("untimed", "none", "selective", "full"):
        changes = {"training.recompute": recompute, "memory.oversize": "allow"}
        result = simulate(job(**changes))
        times[recompute] = result.rows[0]["compute_s"]
        noted = any("its time is not counted" in note for note in result.info["notes"])
        assert noted == (recompute == "untimed")
    assert times["untimed"] == times["none"] < times["selective"] < times["full"]
    assert 1.2 < times["full"] / times["none"] < 1.34


def test_a_gpu_whose_memory_is_not_known_is_not_checked() -> None:
    own = {
        "gpu": "mine",
        "peak_flops": "1 Pflop/s",
        "memory_bandwidth": "3 TB/s",
        "sms": 100,
    }
    made = Scenario.preset(
        "mixtral-8x7b",
        gpus=128,
        **{"compute": own, "cluster.scale_up_bandwidth": "450 GB/s"},
    ).with_({"training.recompute": "none", "training.micro_batch": 64})
    found = memory.held(made)
    assert found.fits and found.capacity is None
    assert [*memory.warnings(made), *memory.notes(made)] == []


def test_sequence_parallelism_off_sends_whole_tokens() -> None:
    shared, whole = (
        simulate(job(**{"parallelism.sequence_parallel": on, "memory.oversize": "allow"}))
        for on in (True, False)
    )
    of = [
        sum(row["bytes"] for row in r.tasks.to_pylist() if row["kind"] == "dispatch")
        for r in (shared, whole)
    ]
    assert of[1] == 4 * of[0]
    assert whole.rows[0]["iteration_s"] > shared.rows[0]["iteration_s"]


def test_the_table_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["memory", "deepseek-v3", "--gpus", "1024"]) == 0
    out = capsys.readouterr().out
    assert "layers' inputs" in out and "stage 1 holds most" in out
    assert run(["memory", "deepseek-v3", "--gpus", "1024", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["recompute"] == "full" and len(found["stages"]) == 16
    for stage in found["stages"]:
        assert sum(stage["bytes"].values()) == stage["total_bytes"]
    # What does not fit is shown, too.
    assert run(["memory", "mixtral-8x7b", "--gpus", "128", "--set", "training.recompute=none"]) == 0
    assert "does not fit" in capsys.readouterr().out


@pytest.mark.parametrize("fabric", ["fat-tree", "rail-optimized", "mixnet", "planes", "topoopt"])
def test_all_to_alls_of_layers_anew_travel_on_every_fabric(fabric: str) -> None:
    values: dict[str, Any] = {
        "fabric.preset": fabric,
        **{"parallelism.tp": 1, "parallelism.ep": 8, "parallelism.pp": 1},
        **{"training.micro_batch": 1, "training.micro_batches": 2, "model.layers": 2},
        **{"cluster.gpus": 8, "cluster.gpus_per_server": 4, "cluster.nics_per_server": 4},
        **({"fabric.optical_nics": 3} if fabric == "mixnet" else {}),
        **({"fabric.degree": 4} if fabric == "topoopt" else {}),
    }
    rows = {}
    for recompute in ("none", "full"):
        result = simulate(
            Scenario.preset("mixtral-8x7b", **values, **{"training.recompute": recompute})
        )
        row = result.rows[0]
        names = ("compute", "exposed_a2a", "exposed_other", "reconfiguration")
        assert row["iteration_s"] == pytest.approx(sum(row[f"{name}_s"] for name in names))
        rows[recompute] = result.tasks.to_pylist()
    passes = {
        name: [r["pass"] for r in found if r["kind"] == "dispatch"] for name, found in rows.items()
    }
    assert passes["full"].count("recompute") == passes["none"].count("forward") > 0
    if fabric == "fat-tree":  # delegates hand on bytes inside servers, as many as circuits ask for
        sent = [sum(r["bytes"] for r in found if r["kind"] in ("dispatch", "combine"))
                for found in rows.values()]  # fmt: skip
        assert 2 * sent[1] == 3 * sent[0]


def test_each_of_several_jobs_is_checked() -> None:
    from lightloom.jobs import JobsSpec

    one = {"gpus": 32, "model": {"preset": "mixtral-8x7b"}, "parallelism": {"pp": 1}}
    large = {**one, "training": {"recompute": "none"}}
    tables = {"cluster": {"gpus": 64}, "jobs": [one, large]}
    with pytest.raises(InputError, match=r"jobs\[1\].*what would fit: .*--allow-oversize"):
        JobsSpec.load(tables)
    spec = JobsSpec.load(tables, {"memory.oversize": "allow"})
    assert [memory.held(job.scenario).fits for job in spec.jobs] == [True, False]


def test_nothing_runs_that_was_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the core refuses is an error, also where it is asked about memory alone."""

    def refuse(_text: str) -> str:
        raise ValueError("memory.swiglu_bytes = 1: unknown")

    monkeypatch.setattr("lightloom._core.job_memory", refuse)
    with pytest.raises(InputError, match=r"memory\.swiglu_bytes: unknown"):
        job()
    # A failure is none: it is not taken for a job that fits.
    monkeypatch.setattr("lightloom._core.job_memory", lambda _text: "no answer")
    with pytest.raises(Exception, match=r"Expecting value"):
        memory.held_in(memory.core_form(job(**{"memory.oversize": "allow"})))


def test_gate_and_up_at_8_bits_take_less() -> None:
    """DeepSeek-V3 as its report trains it, of which SwiGLU's inputs are the largest part."""
    trained = {
        "parallelism.ep": 64, "parallelism.pp": 16, "parallelism.tp": 1, "cluster.gpus": 1024,
        "training.micro_batch": 1, "training.micro_batches": 32, "training.dispatch_bytes": 1,
        "training.overlap": "dualpipe", "training.recompute": "selective",
        "training.recompute_modules": ["norms", "activations", "mla_up_proj"],
        "compute.gpu": "h800", "compute.products": "fp8", "memory.oversize": "allow",
    }  # fmt: skip
    wide = memory.held(Scenario.preset("deepseek-v3", **trained)).fullest
    eight = {**trained, "memory.swiglu_bytes": 1}
    narrow = memory.held(Scenario.preset("deepseek-v3", **eight)).fullest
    assert narrow.parts["experts"] < 0.75 * wide.parts["experts"]
    assert narrow.total < wide.total
    assert narrow.parts["norms"] == wide.parts["norms"]
