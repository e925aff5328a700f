"""``lightloom compute measure`` on the CPU: what it writes is read back and used."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from lightloom import kernel_times
from lightloom.cli import run
from lightloom.compute_table import read_table
from lightloom.errors import InputError, Interrupted
from lightloom.kernel_times import fewer_tokens, kernels, measure
from lightloom.scenario import Scenario

SMALL = {
    "model": {
        "name": "small", "layers": 2, "dense_layers": 1, "hidden": 64, "vocabulary": 256,
        "attention": {"kind": "gqa", "heads": 4, "kv_heads": 2, "head_dim": 16}, "experts": 4,
        "top_k": 2, "expert_intermediate": 32, "shared_experts": 1, "shared_intermediate": 32,
        "dense_intermediate": 128, "moe_layer_step": 1, "tied_embeddings": False,
    },
    "parallelism": {"tp": 2, "cp": 1, "ep": 2, "pp": 1},
    "cluster": {"gpus": 8},
    "training": {"sequence_length": 64, "micro_batch": 1, "micro_batches": 1},
}  # fmt: skip


def job(**more: object) -> Scenario:
    return Scenario.preset("mixtral-8x7b", gpus=128).with_(SMALL, **more)


def times(out: Path, **more: object) -> list[tuple[kernel_times.Kernel, float]]:
    return measure(job(), out=out, device="cpu", repeats=3, **more)  # type: ignore[arg-type]


def test_a_written_table_is_read_back_and_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec, out = tmp_path / "job.toml", tmp_path / "times.toml"
    spec.write_text(job().to_toml(), encoding="utf-8")
    given = [
        "compute",
        "measure",
        str(spec),
        "--device",
        "cpu",
        "--out",
        str(out),
        "--repeats",
        "3",
    ]
    assert run([*given, "--json"]) == 0
    told = capsys.readouterr()
    rows = json.loads(told.out)["kernels"]
    wanted = kernels(job(), loads=(0.5, 1.0, 2.0))
    assert len(rows) == len(wanted) == told.err.count("Tflop/s")
    assert all(row["seconds"] > 0 for row in rows)
    about = tomllib.loads(out.read_text(encoding="utf-8"))["about"]
    assert about["origin"] == "measured" and about["device"].startswith("CPU")
    assert about["command"].startswith("lightloom")
    assert len(read_table(out)["attention"]) == 2

    # Every component with products says that it was measured, and takes the sum of its kernels.
    assert (
        run(["simulate", str(spec), "--set", f"compute.table={out}", "--out", f"{tmp_path}/r"]) == 0
    )
    origins = json.loads((tmp_path / "r/result.json").read_text(encoding="utf-8"))[
        "compute_origins"
    ]
    said = {(row["component"], row["pass"]): row for row in origins}
    for part in ("attention", "gate", "expert", "shared_expert", "dense_mlp", "head"):
        for step in ("forward", "backward"):
            assert said[part, step]["origin"] == "measured", (part, step)
    head = next(row for row in rows if row.get("n") == 128 and row.get("k") == 64)
    assert said["head", "forward"]["time_ps"] >= head["seconds"] * 1e12


def test_an_interrupted_measurement_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, done = tmp_path / "times.toml", []
    whole = kernel_times._time

    def third(*given: object) -> float | None:
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(given)
        return whole(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(kernel_times, "_time", third)
    with pytest.raises(Interrupted, match="2 shapes are kept"):
        times(out)
    first = read_table(out)
    assert sum(map(len, first.values())) == 2

    monkeypatch.setattr(kernel_times, "_time", whole)
    said: list[str] = []
    found = times(out, on_kernel=lambda done, of, kernel, text: said.append(text))
    assert said[:2] == ["is in the table already"] * 2 and "already" not in said[2]
    assert len(found) == len(kernels(job(), loads=(0.5, 1.0, 2.0)))
    assert read_table(out)["matmul"][:1] == first["matmul"][:1]


def test_another_devices_table_is_not_written_over(tmp_path: Path) -> None:
    out = tmp_path / "times.toml"
    out.write_text('[about]\ndevice = "another"\n\n[[matmul]]\nm = 1\nn = 1\nk = 1\ngroups = 1\n'
                   'dtype = "bf16"\ntime = "1 us"\n', encoding="utf-8")  # fmt: skip
    before = out.read_text(encoding="utf-8")
    with pytest.raises(InputError, match="is another table"):
        times(out)
    assert out.read_text(encoding="utf-8") == before
    times(out, force=True)
    assert "another" not in out.read_text(encoding="utf-8")


def test_what_cannot_be_measured_is_one_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "times.toml")
    for more, said in (
        (["--device", "tpu"], "must be cpu, cuda or cuda:N"),
        (["--device", "cuda:999"], "PyTorch sees"),
        (["--device", "cpu", "--set", "compute.products=fp8"], "is measured on a CUDA device"),
        (["--device", "cpu", "--tokens", "0"], "--tokens = 0: must be at least 1"),
        (["--device", "cpu", "--loads", "a"], "--loads"),
    ):
        assert run(["compute", "measure", "mixtral-8x7b", "--out", out, *more]) == 2
        error = capsys.readouterr().err
        assert said in error and "Traceback" not in error, error
    assert not Path(out).exists()


def test_fewer_tokens_keep_the_other_sizes() -> None:
    few = fewer_tokens(job(), 8)
    sizes = {(k.sizes["n"], k.sizes["k"]) for k in kernels(few) if k.sizes.get("m") == 8}
    assert {(64, 64), (128, 64)} <= sizes
