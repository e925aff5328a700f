"""Times by shape, products at 8 bits, and the figures of speed."""

from __future__ import annotations

import builtins
import importlib
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from lightloom import _core, presets, simulate
from lightloom.cli import run
from lightloom.compute_table import read_table
from lightloom.errors import InputError
from lightloom.kernel_times import kernels
from lightloom.scenario import Scenario

DOCS = Path(__file__).parents[1] / "docs"

TABLE = """
[about]
device = "made up"

[[matmul]]
m = 4096
n = 4096
k = 4096
groups = 1
dtype = "bf16"
time = "250 us"

[[attention]]
sequences = 1
heads = 8
queries = 4096
keys = 4096
key_width = 128
value_width = 128
pass = "forward"
time = "500 us"
"""


def job(**more: Any) -> Scenario:
    return Scenario.preset("mixtral-8x7b", gpus=128).with_(
        training={"micro_batches": 4, "micro_batch": 1}, **more
    )


def origins(scenario: Scenario) -> dict[tuple[str, str], str]:
    found = simulate(scenario, progress=False).info["compute_origins"]
    return {(row["component"], row["pass"]): row["origin"] for row in found}


def test_what_nobody_asked_for_is_as_before() -> None:
    """Without times by shape the core is given no more than it was."""
    core = job().to_core()["compute"]
    assert "products" not in core and "efficiency" not in core and "sms" not in core


@pytest.mark.parametrize("gpu", presets.names("gpus"))
def test_every_gpu_says_what_it_knows(gpu: str) -> None:
    compute = job(compute={"gpu": gpu}).compute
    by_shape = {"gpu": gpu, "efficiency": "shape"}
    if compute.sms is None or compute.matmul_ceiling is None:
        with pytest.raises(InputError, match=r"needs compute\.sms and compute\.matmul_ceiling"):
            job(compute=by_shape)
        return
    assert set(origins(job(compute=by_shape)).values()) == {"shape", "roofline"}
    if compute.peak_fp8 is None:
        with pytest.raises(InputError, match=r"needs compute\.peak_fp8"):
            job(compute={**by_shape, "products": "fp8"})
    else:
        slow, fast = (
            simulate(job(compute={**by_shape, "products": p}), progress=False).rows[0]["compute_s"]
            for p in ("bf16", "fp8")
        )
        assert 0.4 < fast / slow < 0.95


@pytest.mark.parametrize("gpu", presets.names("gpus"))
def test_a_training_needs_the_rate_that_lasts(gpu: str) -> None:
    training = {"gpu": gpu, "efficiency": "training"}
    known = job(compute={"gpu": gpu}).compute
    if known.matmul_sustained is None:
        with pytest.raises(InputError, match=r"needs compute\.sms and compute\.matmul_sustained"):
            job(compute=training)
        return
    assert known.matmul_ceiling and known.matmul_sustained < known.matmul_ceiling
    core = job(compute=training).to_core()["compute"]["products"]
    assert core["ceiling"] == known.matmul_sustained
    assert core["ceiling_fp8"] == known.matmul_sustained_fp8
    slower = known.matmul_sustained / known.matmul_ceiling
    assert core["scores"] == pytest.approx(known.scores_efficiency * slower)
    assert (core["gradient_bytes"], core["loss_bytes"]) == (4, 52)
    assert set(origins(job(compute=training)).values()) == {"shape", "roofline"}


def test_each_term_of_a_training_takes_time() -> None:
    def took(**more: Any) -> float:
        values = {"compute.efficiency": "training", **more}
        row = simulate(job().with_(values), progress=False).rows[0]
        return float(row["compute_s"])

    whole = took()
    assert took(**{"compute.efficiency": "shape"}) < whole
    for key, less in (
        ("compute.matmul_sustained", 0.803),
        ("memory.gradient_bytes", 2),
        ("compute.loss_bytes", 0),
    ):
        assert took(**{key: less}) < whole, key
        # By shape alone nothing reads them.
        shape = {"compute.efficiency": "shape"}
        assert took(**shape, **{key: less}) == took(**shape)


def test_a_training_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = ["simulate", "mixtral-8x7b", "--set", "cluster.gpus=128", "--micro-batches", "4"]
    asked = [*small, "--set", "compute.efficiency=training"]
    assert run([*asked, "--set", "compute.gpu=b200"]) == 2
    err = capsys.readouterr().err
    assert err == (
        'error: command line: compute.efficiency = "training": needs compute.sms and '
        "compute.matmul_sustained, or measured products: compute.md\n"
    )
    assert run([*asked, "--set", "compute.loss_bytes=-1"]) == 2
    assert "compute.loss_bytes = -1: must be" in capsys.readouterr().err
    assert run([*asked, "--out", str(tmp_path / "out")]) == 0
    info = json.loads((tmp_path / "out" / "result.json").read_text(encoding="utf-8"))
    assert {row["origin"] for row in info["compute_origins"]} == {"shape", "roofline"}


@pytest.fixture
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "reproduce"))
    for name in ("benchmarks", "tables"):
        sys.modules.pop(name, None)
    return importlib.import_module("benchmarks")


def test_measured_trainings_are_met(benchmarks: ModuleType) -> None:
    """Dense ones of one framework within 6 %; a server that sends next to nothing within 5 %."""
    rows = benchmarks.measured()
    assert all(row["source"] for row in rows)
    # The trainings that times are judged on are not among them.
    judged = ("405b", "mixtral-8x22b", "qwen2", "deepseek")
    assert not [row for row in rows if any(name in row["model"] for name in judged)]
    alone = [row for row in rows if row["gpus"] == "8" and row["kind"] == "dense"]
    assert len(alone) == 2
    dense = [row for row in rows if row["kind"] == "dense" and int(row["gpus"]) <= 64]
    for row in dense:
        found = benchmarks.step_s(row, benchmarks.TRAINING) / float(row["step_s"])
        assert abs(found - 1) < 0.06, (row["training"], found)
        by_shape = benchmarks.step_s(row, {"compute.efficiency": "shape"})
        assert by_shape < 0.94 * float(row["step_s"])


def test_another_gpu_forgets_what_the_first_brought() -> None:
    assert job(compute={"gpu": "h100"}).with_({"compute.gpu": "a100"}).compute.peak_fp8 is None


def test_a_table_of_shapes_is_used(tmp_path: Path) -> None:
    table = tmp_path / "times.toml"
    table.write_text(TABLE, encoding="utf-8")
    scenario = job(compute={"table": str(table)})
    assert scenario.compute.efficiency == "shape"
    assert len(scenario.compute.matmul) == len(scenario.compute.attention) == 1
    found = origins(scenario)
    # One product and one head count: all else is near it, or outside.
    assert found["expert", "forward"] == "extrapolated"
    assert found["attention", "forward"] == "extrapolated"
    # Nothing backward was measured of attention: the curve.
    assert found["attention", "backward"] == "shape"
    again = Scenario.load(_written(tmp_path, scenario))
    assert again == scenario


def _written(place: Path, scenario: Scenario) -> Path:
    path = place / "spec.toml"
    path.write_text(scenario.to_toml(), encoding="utf-8")
    return path


def test_a_share_reads_no_table_of_shapes(tmp_path: Path) -> None:
    table = tmp_path / "times.toml"
    table.write_text(TABLE, encoding="utf-8")
    with pytest.raises(InputError, match=r"compute.matmul = .*nothing reads it"):
        job(compute={"table": str(table), "efficiency": "share"})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[matmul]]\nm = 0\n", "matmul[0]"),
        (TABLE.replace('dtype = "bf16"', 'dtype = "fp4"'), 'matmul[0]: dtype = "fp4": must be'),
        (TABLE.replace("k = 4096\n", ""), "matmul[0]: k"),
        (TABLE.replace("250 us", "250"), "matmul[0]: time"),
        (TABLE.replace("heads = 8", "head = 8"), "attention[0]: head"),
        (TABLE + TABLE[TABLE.index("[[matmul]]") :], "given twice"),
        ("matmul = 3\n", "matmul: must be an array of tables"),
        ("[[products]]\nm = 1\n", "products: unknown key; allowed: about, measured, matmul"),
        ("[about]\n", "measured: must be an array of tables"),
    ],
)
def test_a_malformed_table_is_one_message(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "times.toml"
    table.write_text(text, encoding="utf-8")
    assert run(["spec", "resolve", "mixtral-8x7b", "--set", f"compute.table={table}"]) == 2
    error = capsys.readouterr().err
    assert said in error and str(table) in error and error.count("\n") == 1, error


def test_utilisation_is_its_definition() -> None:
    scenario = job()
    row = simulate(scenario, progress=False).rows[0]
    model, training = scenario.model, scenario.training
    active = model.parameters().active - model.parameters().embedding
    # Norms multiply nothing.
    active -= model.hidden * (2 * model.layers + 1)
    width = model.attention.heads * model.attention.head_dim
    scores = 2 * training.sequence_length * width * model.layers
    tokens = row["tokens_per_s"] * row["iteration_s"]
    peak = 128 * 989e12 * row["iteration_s"]
    assert row["mfu"] == pytest.approx(3 * (2 * active + scores) * tokens / peak, rel=1e-9)
    full = 3 * (2 * active + 2 * scores) * tokens / peak
    assert row["mfu_full_attention"] == pytest.approx(full, rel=1e-9)
    assert row["tokens_per_s_per_gpu"] == pytest.approx(row["tokens_per_s"] / 128)


def test_speed_is_in_every_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = str(_written(tmp_path, job()))
    names = ("mfu", "mfu_full_attention", "tokens_per_s", "tokens_per_s_per_gpu")
    assert run(["simulate", spec, "--json", "--out", f"{tmp_path}/one"]) == 0
    assert set(names) <= set(json.loads(capsys.readouterr().out))
    assert run(["compare", spec, "--fabrics", "fat-tree", "--bandwidth", "400", "--json",
                "--out", f"{tmp_path}/two"]) == 0  # fmt: skip
    assert set(names) <= set(json.loads(capsys.readouterr().out)["rows"][0])
    assert "mfu" in (tmp_path / "two/report.html").read_text(encoding="utf-8")


def test_deepseeks_products_are_those_of_deepgemm() -> None:
    found = kernels(Scenario.preset("deepseek-v3"))
    sizes = {(k.sizes["n"], k.sizes["k"]) for k in found if k.kind == "matmul"}
    assert {
        (2112, 7168),
        (24576, 1536),
        (32768, 512),
        (7168, 16384),
        (4096, 7168),
        (7168, 2048),
    } <= sizes


def test_without_pytorch_it_is_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = builtins.__import__

    def without(name: str, *more: Any) -> Any:
        if name == "torch":
            raise ImportError(name)
        return real(name, *more)

    monkeypatch.setattr(builtins, "__import__", without)
    out = tmp_path / "times.toml"
    assert run(["compute", "measure", "mixtral-8x7b", "--out", str(out)]) == 2
    assert capsys.readouterr().err == (
        "error: PyTorch is not installed: pip install 'torch>=2.15,<2.16'\n"
    )
    assert not out.exists()


def test_the_curve_is_near_what_an_h100_took() -> None:
    """Of products that no constant was chosen on: docs/compute.md, "On an H100"."""
    table = read_table(DOCS / "data" / "h100-kernels.toml")
    took = [_core.parse_time(row["time"]) / 1e12 for row in table["matmul"]]
    asked = [
        (row["m"], row["n"], row["k"], row["groups"], row["dtype"] == "fp8")
        for row in table["matmul"]
    ]
    for way, inside in (("shape", 0.95), ("training", 0.9)):
        job = Scenario.preset("deepseek-v3", compute={"gpu": "h100", "efficiency": way})
        found = _core.product_times(json.dumps(job.to_core()["compute"]), asked)
        errors = [seconds / one - 1 for (seconds, _), one in zip(found, took, strict=True)]
        assert len(errors) > 500
        assert sum(abs(error) < 0.15 for error in errors) / len(errors) > inside
        assert sum(abs(error) for error in errors) / len(errors) < 0.08


def test_a_table_of_an_h100_is_used() -> None:
    there = Scenario.preset(
        "mixtral-8x7b", gpus=128, compute={"table": str(DOCS / "data" / "h100-kernels.toml")},
        training={"micro_batches": 1},
    )  # fmt: skip
    origins = simulate(there, progress=False).info["compute_origins"]
    kinds = {(row["component"], row["pass"]): row["origin"] for row in origins}
    assert kinds["expert", "forward"] == kinds["head", "backward"] == "measured"
