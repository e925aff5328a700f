"""``lightloom trace``: what it prints, writes and refuses."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from lightloom.cli import run
from lightloom.trace import GatingTrace
from lightloom.trace.figures import load_figure, matrix_figure
from lightloom.trace.synthetic import KINDS, Shape, generate

PNG = b"\x89PNG\r\n\x1a\n"


def lightloom(capsys, *words):
    code = run(["trace", *map(str, words)])
    said = capsys.readouterr()
    return code, said.out, said.err


@pytest.mark.parametrize("command", ["record", "import", "generate", "show"])
def test_help_shows_an_example(capsys, command):
    code, out, _ = lightloom(capsys, command, "--help")
    assert code == 0
    assert f"Example: lightloom trace {command} " in " ".join(out.split())


@pytest.mark.parametrize("kind", KINDS)
def test_generate_show_and_draw(capsys, tmp_path, kind):
    trace = tmp_path / "t.parquet"
    words = ["generate", kind, "--iterations", 4, "--layers", 2, "--out", trace]
    code, out, err = lightloom(capsys, *words)
    assert (code, err) == (0, f"wrote {trace}\n")
    assert "4 iterations x 2 layers x 8 sources x 8 experts, top-2" in " ".join(out.split())
    expected = generate(kind, Shape(iterations=4, layers=2))
    assert np.array_equal(GatingTrace.load(trace).counts, expected.counts)
    pictures = tmp_path / "a/pictures"
    code, out, _ = lightloom(
        capsys, "show", trace, "--layer", 1, "--iteration", 3, "--out", pictures, "--json"
    )
    assert code == 0
    said = json.loads(out)
    assert (said["iterations"], said["experts"], said["meta"]["kind"]) == (4, 8, kind)
    assert len(said["per_layer"]["imbalance"]) == 2
    assert sorted(p.name for p in pictures.iterdir()) == ["load.png", "matrix.png"]
    assert all(p.read_bytes().startswith(PNG) for p in pictures.iterdir())


@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (1, 2, 3, 4), (5, 1, 1, 40), (3, 2, 64, 256)])
def test_every_shape_can_be_drawn(shape):
    trace = GatingTrace(np.random.default_rng(1).integers(1, 99, size=shape), 1)
    for figure in (load_figure(trace), matrix_figure(trace)):
        figure.canvas.draw()


def test_a_shipped_trace_is_shown_by_its_name(capsys):
    code, out, _ = lightloom(capsys, "show", "e8k2")
    assert code == 0
    assert "lightloom trace record --experts 8 --top-k 2" in " ".join(out.split())


def test_import_says_that_sources_were_made_up(capsys, tmp_path):
    np.savez(tmp_path / "a.npz", loads=np.ones((2, 3, 4), int), top_k=1)
    code, out, _ = lightloom(
        capsys, "import", tmp_path / "a.npz", "--sources", 2, "--out", tmp_path / "t.parquet"
    )
    assert code == 0
    assert "not in the file: each expert's load was spread evenly over 2 sources" in out
    assert GatingTrace.load(tmp_path / "t.parquet").sources == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["generate", "zipf", "--out", "t"], "kind 'zipf': must be one of"),
        (["generate", "uniform", "--idle", "1", "--out", "t"], "--idle 1.0: uniform reads"),
        (
            ["generate", "uniform", "--experts", "many", "--out", "t"],
            "'--experts': Input should be a valid integer",
        ),
        (["generate", "uniform", "--layers", "0", "--out", "t"], "--layers 0: must be 1 to"),
        (["generate", "uniform"], "Missing option '--out'"),
        (["generate", "uniform", "--out", "."], "--out .: is a directory"),
        (["generate", "uniform", "--out", "no/t"], "--out no/t: there is no directory no"),
        (["import", "none.csv", "--out", "t"], "none.csv: cannot be read: No such file"),
        (["import", "bad.csv", "--out", "t"], "bad.csv: columns a, b: must include"),
        (["import", "bad.csv", "--format", "npz", "--out", "t"], "not a whole NPZ file"),
        (["import", "bad.csv", "--format", "parquet", "--out", "t"], "not a whole Parquet file"),
        (["import", "bad.dat", "--out", "t"], "cannot tell the format from the ending '.dat'"),
        (["show", "none.parquet"], "none.parquet: cannot be read: No such file"),
        (["show", "bad.csv"], "bad.csv: not a whole Parquet file"),
        (["show", "e8k3"], "no trace is shipped for 8 experts, top-3"),
        (["show", "e8k2", "--layer", "8", "--out", "d"], "--layer 8: must be 0 to 7"),
        (["show", "e8k2", "--iteration", "-1", "--out", "d"], "--iteration -1: must be 0 to 199"),
        (["show", "e8k2", "--layer", "1"], "--layer 1: read only with --out"),
        (["show", "e8k2", "--out", "bad.csv"], "--out bad.csv: cannot be made: File exists"),
        (["record", "--top-k", "9", "--out", "t"], "--top-k 9: must be at most --experts 8"),
        (["record", "--out", "no/t"], "--out no/t: there is no directory no"),
        (["record", "--out", "t"], "PyTorch is not installed: pip install 'torch>=2.15,<2.16'"),
        (["paint"], "No such command 'paint'"),
    ],
)
def test_bad_input_is_one_message_and_nothing_is_written(
    capsys, tmp_path, monkeypatch, words, message
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "torch", None)
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n")
    code, out, err = lightloom(capsys, *words)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert message in err
    assert [p.name for p in tmp_path.iterdir()] == ["bad.csv"]


def test_the_page_about_traces_is_right():
    text = (Path(__file__).resolve().parents[1] / "docs/traces.md").read_text()
    for kind in KINDS:
        assert f"| `{kind}` |" in text
    for measure in ("max/mean", "worst", "entropy", "drift", "source spread", "pair max/mean"):
        assert f"| {measure} |" in text
    for measure in ("servers max/mean", "servers top share"):
        assert f"| {measure} |" in text
