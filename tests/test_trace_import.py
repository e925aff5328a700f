"""Importing traces: what others recorded, every documented form, and every way to be wrong."""

from __future__ import annotations

import csv
import io
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from lightloom.errors import InputError
from lightloom.trace import GatingTrace
from lightloom.trace.imported import LONG, Options, spread
from lightloom.trace.importer import import_trace

# Expert loads that others recorded lie beside the checkout, if they do: not ours to ship.
RECORDED = Path(__file__).resolve().parents[2] / "shared" / "data" / "gating"
LOADS = "batch_id,stage,router_layer_index,expert_id,assigned_tokens,total_tokens"


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("switch8_mbpp_s64_bs8_len64.csv", (8, 6, 8)),
        ("switch32_mbpp_s64_bs4_len128.csv", (16, 6, 32)),
    ],
)
@pytest.mark.parametrize("stage", ["decoder", "encoder"])
def test_loads_that_others_recorded(name, shape, stage):
    path = RECORDED / name
    if not path.is_file():
        pytest.skip(f"needs {path}, which is not ours to ship")
    trace = import_trace(path, options=Options(stage=stage, sources=8))
    assert trace.counts.shape == (*shape[:2], 8, shape[2])
    assert trace.top_k == 1
    assert "spread evenly over 8 sources" in str(trace.meta["sources"])
    # An oracle without arrays: the sum of what the file says of each batch, layer and expert.
    with path.open() as file:
        rows = [row for row in csv.DictReader(file) if row["stage"] == stage]
    layers = sorted({int(row["router_layer_index"]) for row in rows})
    loads = trace.loads()
    for row in rows:
        at = (
            int(row["batch_id"]),
            layers.index(int(row["router_layer_index"])),
            int(row["expert_id"]),
        )
        assert loads[at] == int(row["assigned_tokens"])
    totals = trace.counts.sum(axis=3)
    assert (totals.max(axis=2) - totals.min(axis=2)).max() <= 1


def test_the_decoder_is_taken_if_nobody_says(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(f"{LOADS}\n0,encoder,1,0,5,5\n0,decoder,1,0,7,7\n")
    trace = import_trace(path)
    assert trace.counts.tolist() == [[[[7]]]]
    assert (trace.meta["stage"], trace.meta["stages_left_out"]) == ("decoder", "encoder")


@given(
    hnp.arrays(np.int64, hnp.array_shapes(max_dims=3, max_side=5), elements=st.integers(0, 999)),
    st.integers(1, 9),
)
def test_spreading_keeps_loads_and_is_as_even_as_can_be(loads, sources):
    counts = spread(loads, sources)
    assert counts.shape == (*loads.shape[:-1], sources, loads.shape[-1])
    assert np.array_equal(counts.sum(axis=-2), loads)
    assert (counts.max(axis=-2) - counts.min(axis=-2)).max() <= 1
    totals = counts.sum(axis=-1)
    assert (totals.max(axis=-1) - totals.min(axis=-1)).max() <= 1


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_long_table_is_the_trace_that_it_lists(tmp_path, ending):
    counts = np.random.default_rng(5).integers(0, 9, size=(3, 2, 4, 5))
    rows = {
        name: values
        for name, values in zip(
            LONG, [*np.indices(counts.shape).reshape(4, -1), counts.reshape(-1)], strict=True
        )
    }
    kept = (rows["tokens"] > 0) | (rows["expert"] == 4) | (rows["source"] == 3)
    shuffled = np.random.default_rng(6).permutation(np.flatnonzero(kept))
    table = pa.table({name: values[shuffled] for name, values in rows.items()})
    path = tmp_path / f"long.{ending}"
    if ending == "csv":
        lines = [",".join(LONG)] + [",".join(map(str, r.values())) for r in table.to_pylist()]
        path.write_text("\n".join(lines))
    else:
        pq.write_table(table, path)
    assert np.array_equal(import_trace(path, options=Options(top_k=2)).counts, counts)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays(tmp_path, save):
    counts = np.arange(1, 49).reshape(2, 2, 3, 4)
    save(tmp_path / "a.npz", counts=counts.astype(np.int16), top_k=np.int64(2))
    trace = import_trace(tmp_path / "a.npz")
    assert np.array_equal(trace.counts, counts)
    assert trace.top_k == 2
    save(tmp_path / "b.npz", loads=counts.sum(axis=2))
    trace = import_trace(tmp_path / "b.npz", options=Options(top_k=1, sources=3))
    assert np.array_equal(trace.loads(), counts.sum(axis=2))
    assert trace.counts.shape == (2, 2, 3, 4)


def test_our_own_format_comes_through_unchanged(tmp_path):
    GatingTrace(np.ones((1, 2, 3, 4), int), 2, {"origin": "recorded"}).save(tmp_path / "t")
    trace = import_trace(tmp_path / "t", "parquet")
    assert (trace.counts.shape, dict(trace.meta)) == ((1, 2, 3, 4), {"origin": "recorded"})


GOOD = f"{LOADS}\n0,decoder,1,0,3,5\n0,decoder,1,1,2,5\n"
LONG_HEAD = ",".join(LONG)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("", Options(), "0 rows: must have a header"),
        (LOADS, Options(), "1 rows: must have a header and at least one row"),
        ("a,b\n1,2", Options(), "columns a, b: must include batch_id"),
        ("a,a\n1,2", Options(), "row 1: column a is there twice"),
        ('"a\nb",c\n1,2', Options(), "columns 'a\\nb', c: must include"),
        (GOOD + "1,decoder", Options(), "row 4: 2 fields: must be 6"),
        (GOOD.replace("1,1,2", "1,1,two"), Options(), "row 3, column assigned_tokens: 'two'"),
        (GOOD.replace("1,1,2", "1,1,-2"), Options(), "row 3, column assigned_tokens: '-2'"),
        (GOOD.replace("1,1,2", "1,1,2.5"), Options(), "row 3, column assigned_tokens: '2.5'"),
        (GOOD.replace("1,1,2", "1,x,2"), Options(), "row 3, column expert_id: 'x'"),
        (GOOD.replace("1,1,2", "1,\u0663,2"), Options(), "row 3, column expert_id"),
        (
            GOOD.replace("1,1,2", "1,0,2"),
            Options(),
            "row 3: batch_id 0, router_layer_index 1, expert_id 0 is there twice",
        ),
        (
            GOOD.replace("1,1,2", "1,2,2"),
            Options(),
            "no row for batch_id 0, router_layer_index 1, expert_id 1",
        ),
        (GOOD.replace("1,1,2", "1,9999999999,2"), Options(), "must hold at most"),
        (
            GOOD.replace("1,1,2,5", "1,1,4,5"),
            Options(),
            "assigned_tokens sum to 7 for total_tokens 5",
        ),
        (GOOD.replace("1,1,2,5", "1,1,2,6"), Options(), "must be the same whole multiple, top-k"),
        (GOOD, Options(top_k=2), "--top-k 2: the file says 1"),
        (GOOD, Options(stage="encoder"), "--stage encoder: must be one of decoder"),
        (GOOD, Options(sources=0), "--sources 0: must be 1 to"),
        (
            GOOD.replace("decoder", "a").replace("0,a,1,1", "0,b,1,1"),
            Options(),
            "--stage decoder: must be one of a, b",
        ),
        (f"{LONG_HEAD}\n0,0,0,0,1", Options(), "does not say how many experts a token chooses"),
        (f"{LONG_HEAD}\n0,0,0,0,1", Options(top_k=2), "top_k = 2: must be 1 to the number"),
        (
            f"{LONG_HEAD}\n0,0,0,0,1",
            Options(top_k=1, sources=2),
            "--sources 2: the file has its own sources, 1",
        ),
        (f"{LONG_HEAD}\n0,0,0,0,1", Options(top_k=1, stage="a"), "--stage a: read only with"),
        (
            f"{LONG_HEAD}\n0,0,0,0,1\n0,0,0,0,2",
            Options(top_k=1),
            "row 3: iteration 0, layer 0, source 0, expert 0 is there twice",
        ),
        (f"{LONG_HEAD}\n0,0,0,0,4294967296", Options(top_k=1), "row 2, column tokens: 4294967296"),
        (f"{LONG_HEAD}\n0,0,999999,999999,1", Options(top_k=1), "must hold at most"),
        (f"{LONG_HEAD}\n0,0,0,0,0", Options(top_k=1), "iteration 0, layer 0 holds no token"),
    ],
)
def test_csv_that_cannot_be_read(tmp_path, text, options, message):
    path = tmp_path / "a.csv"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        import_trace(path, options=options)
    assert message in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("arrays", "options", "message"),
    [
        ({"other": np.ones(3)}, Options(), "must include counts"),
        ({"counts": np.ones((2, 2, 2), int)}, Options(), "array counts: shape (2, 2, 2)"),
        ({"loads": np.ones((2, 2, 0), int)}, Options(), "array loads: shape (2, 2, 0)"),
        ({"loads": np.ones((1, 1, 2))}, Options(), "array loads: float64 values"),
        ({"loads": np.array([[[1, -3]]])}, Options(), "array loads, [0, 0, 1]: -3: must be 0 to"),
        ({"loads": np.array([[[1, 1 << 33]]])}, Options(), "array loads, [0, 0, 1]: 8589934592"),
        ({"loads": np.ones((1, 1, 2), int)}, Options(), "say --top-k"),
        ({"loads": np.ones((1, 1, 2), int), "top_k": [1, 2]}, Options(), "array top_k"),
        ({"loads": np.ones((1, 1, 2), int), "top_k": 1.0}, Options(), "array top_k"),
        ({"loads": np.ones((1, 1, 2), object), "top_k": 1}, Options(), "not a whole NPZ file"),
        (
            {"loads": np.ones((1, 1, 2), int), "top_k": 1},
            Options(sources=1 << 20, top_k=2),
            "--top-k 2: the file says 1",
        ),
        ({"counts": np.ones((1, 1, 2, 2), int), "top_k": 1}, Options(sources=4), "--sources 4"),
        ({"counts": np.ones((1, 1, 2, 2), int), "top_k": 1}, Options(stage="x"), "--stage x"),
        (
            {"loads": np.ones((1, 300, 2), int), "top_k": 1},
            Options(sources=1 << 20),
            "must hold at most",
        ),
    ],
)
def test_arrays_that_cannot_be_read(tmp_path, arrays, options, message):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(InputError) as caught:
        import_trace(tmp_path / "a.npz", options=options)
    assert message in str(caught.value)


def test_a_small_file_that_unpacks_to_fill_a_memory(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("counts.npy", b"")
        archive.getinfo("counts.npy").file_size = 9 << 28
    with pytest.raises(InputError, match=r"unpacks to .* bytes: must be at most"):
        import_trace(tmp_path / "a.npz")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"iteration": [0]}, "columns iteration: must include iteration, layer, source"),
        ({name: [0.5] for name in LONG}, "column iteration: double: must be whole numbers"),
        ({name: pa.array([None], pa.int64()) for name in LONG}, "no nulls"),
        ({name: [-1] for name in LONG}, "row 0, column iteration: -1: must be 0 to"),
        ({name: pa.array([], pa.int64()) for name in LONG}, "no rows"),
        ({name: pa.array([1 << 63], pa.uint64()) for name in LONG}, "column iteration: "),
    ],
)
def test_tables_that_cannot_be_read(tmp_path, columns, message):
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    with pytest.raises(InputError) as caught:
        import_trace(tmp_path / "a.parquet", options=Options(top_k=1))
    assert message in str(caught.value)


def test_formats(tmp_path):
    with pytest.raises(InputError, match="say --format csv"):
        import_trace(tmp_path / "a.txt")
    with pytest.raises(InputError, match="--format xml: must be auto, csv, npz, parquet"):
        import_trace(tmp_path / "a.txt", "xml")
    for ending in ("csv", "npz", "parquet"):
        with pytest.raises(InputError, match="cannot be read: No such file"):
            import_trace(tmp_path / f"none.{ending}")


def _originals() -> dict[str, bytes]:
    arrays = io.BytesIO()
    np.savez_compressed(arrays, counts=np.ones((2, 2, 3, 4), int), top_k=2)
    table = io.BytesIO()
    pq.write_table(pa.table({name: [0, 1, 2] for name in LONG}), table)
    return {"csv": GOOD.encode(), "npz": arrays.getvalue(), "parquet": table.getvalue()}


ORIGINALS = _originals()


@pytest.mark.parametrize("ending", ORIGINALS)
@settings(max_examples=250)
@given(data=st.data())
def test_damage_is_an_input_error(tmp_path_factory, ending, data):
    broken = bytearray(ORIGINALS[ending])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(broken)))
        cut = data.draw(st.sampled_from([0, 1, 1, 1, 9]))
        broken[at : at + cut] = data.draw(st.binary(max_size=3))
    path = tmp_path_factory.mktemp("damage") / f"a.{ending}"
    path.write_bytes(broken)
    try:
        import_trace(path, options=Options(top_k=None if ending != "parquet" else 1))
    except InputError as error:
        assert str(error).isprintable()
