"""Trace files: round trips, identical bytes, the shipped recordings, damage."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from lightloom.errors import InputError
from lightloom.trace import GatingTrace, builtin_names, find_builtin
from lightloom.trace.gating_trace import BUILTIN_DIRECTORY
from lightloom.trace.parquet_file import KEY

SHIPPED = {
    "e8k2": (200, 8, 8, 8),
    "e16k4": (200, 8, 16, 16),
    "e32k4": (50, 8, 32, 32),
    "e64k4": (50, 8, 64, 64),
    "e128k8": (87, 8, 32, 128),
    "e256k8": (20, 8, 64, 256),
}
shapes = hnp.array_shapes(min_dims=4, max_dims=4, min_side=1, max_side=4)
counts = shapes.flatmap(
    lambda shape: hnp.arrays(np.uint32, shape, elements=st.integers(0, (1 << 32) - 1))
).map(lambda array: np.where(array.sum(axis=(2, 3), keepdims=True) == 0, 1, array))
metas = st.dictionaries(
    st.text(max_size=8),
    st.one_of(
        st.text(),
        st.integers(-(1 << 40), 1 << 40),
        st.floats(allow_nan=False, width=32, allow_infinity=False),
        st.booleans(),
    ),
    max_size=4,
)


@settings(max_examples=40)
@given(counts, metas)
def test_what_is_saved_is_loaded(tmp_path_factory, array, meta):
    path = tmp_path_factory.mktemp("trace") / "t.parquet"
    GatingTrace(array, 1, meta).save(path)
    loaded = GatingTrace.load(path)
    assert np.array_equal(loaded.counts, array)
    assert loaded.counts.dtype == np.uint32
    assert (loaded.top_k, dict(loaded.meta)) == (1, meta)


@pytest.mark.parametrize(("top", "width"), [(0xFFFF, pa.uint16()), (0x10000, pa.uint32())])
def test_counts_take_two_bytes_where_that_is_enough(tmp_path, top, width):
    GatingTrace(np.full((1, 1, 2, 2), top), 1).save(tmp_path / "t.parquet")
    assert pq.read_schema(tmp_path / "t.parquet").field("counts").type.value_type == width


def test_same_trace_same_bytes_and_nothing_left_beside(tmp_path):
    trace = GatingTrace(np.arange(1, 97).reshape(2, 3, 4, 4), 2, {"b": 1, "a": "x"})
    again = GatingTrace(trace.counts, 2, {"a": "x", "b": 1})
    trace.save(tmp_path / "one.parquet")
    again.save(tmp_path / "two.parquet")
    assert (tmp_path / "one.parquet").read_bytes() == (tmp_path / "two.parquet").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["one.parquet", "two.parquet"]


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "t.parquet"
    trace = GatingTrace(np.ones((1, 1, 1, 2), np.uint32), 1)
    trace.save(path)
    before = path.read_bytes()

    def fail(*_args, **_kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("lightloom.trace.parquet_file.pq.write_table", fail)
    with pytest.raises(InputError, match=r"t\.parquet: cannot be written: No space left"):
        trace.save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["t.parquet"]


def test_counts_cannot_be_changed_and_do_not_follow_their_source():
    array = np.ones((1, 1, 1, 2), np.uint32)
    trace = GatingTrace(array, 1)
    array[...] = 9
    assert trace.counts.max() == 1
    with pytest.raises(ValueError, match="read-only"):
        trace.counts[0] = 2


@pytest.mark.parametrize(
    ("array", "top_k", "message"),
    [
        (np.ones((2, 2, 2)), 1, "shape (2, 2, 2): must be [iteration, layer, source, expert]"),
        (np.ones((0, 1, 1, 1), int), 1, "none of them 0"),
        (np.ones((1, 1, 1, 1)), 1, "float64 values: must be whole numbers"),
        (np.full((1, 1, 1, 2), -1), 1, "-1: must be 0 to 4294967295"),
        (np.full((1, 1, 1, 2), 1 << 32), 1, "4294967296: must be 0 to 4294967295"),
        (np.ones((1, 1, 1, 2), int), 3, "top_k = 3: must be 1 to the number of experts, 2"),
        (np.ones((1, 1, 1, 2), int), 0, "top_k = 0"),
        (np.array([[[[1]], [[0]]]]), 1, "iteration 0, layer 1 holds no token"),
    ],
)
def test_what_is_not_a_trace(array, top_k, message):
    with pytest.raises(InputError) as caught:
        GatingTrace(array, top_k)
    assert message in str(caught.value)


@pytest.mark.parametrize("value", [float("nan"), None, [1], {"a": 1}])
def test_metadata_is_plain(value):
    with pytest.raises(InputError, match=r"meta\.key = .* must be text"):
        GatingTrace(np.ones((1, 1, 1, 2), int), 1, {"key": value})


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_recording_is_what_its_command_says(name):
    trace = GatingTrace.load(name)
    assert trace.counts.shape == SHIPPED[name]
    meta = trace.meta
    assert meta["origin"] == "recorded"
    # One was interrupted, and says so.
    assert ("note" in meta) == (trace.iterations < meta["recording.iterations"])
    assert (trace.experts, trace.top_k) == (meta["recording.experts"], meta["recording.top_k"])
    for flag in ("experts", "top-k", "sources", "layers", "iterations", "seed"):
        assert f"--{flag} {meta['recording.' + flag.replace('-', '_')]}" in meta["command"]
    tokens = meta["tokens_per_source"]
    assert (trace.counts.sum(axis=3) == tokens * trace.top_k).all(), "each token chooses k experts"
    assert trace.counts.max() <= tokens, "a token chooses an expert at most once"
    # Gates that were never trained, or all alike, would be no recording.
    assert len({trace.counts[i, 0].tobytes() for i in range(trace.iterations)}) == trace.iterations
    assert meta["final_loss_nats"] < 5, "an untrained model is at log(1024) = 6.93 nats"


def test_all_are_shipped_and_fit_in_12_mb():
    assert sorted(builtin_names()) == sorted(SHIPPED)
    assert sum(path.stat().st_size for path in BUILTIN_DIRECTORY.iterdir()) <= 12_000_000
    readme = (BUILTIN_DIRECTORY / "README.md").read_text()
    for name in SHIPPED:
        assert str(GatingTrace.load(name).meta["command"]) in readme


def test_a_trace_is_found_by_experts_and_top_k_and_never_stretched():
    assert find_builtin(8, 2) == BUILTIN_DIRECTORY / "e8k2.parquet"
    assert np.array_equal(GatingTrace.builtin(8, 2).counts, GatingTrace.load("e8k2").counts)
    with pytest.raises(InputError) as caught:
        find_builtin(64, 2)
    message = str(caught.value)
    assert "64 experts, top-2" in message
    assert "lightloom trace record --experts 64 --top-k 2 --sources 64" in message
    assert "lightloom trace generate" in message
    assert "e64k4" in message


def _table(iteration=(0, 0, 1, 1), layer=(0, 1, 0, 1), counts=None, kind=None, **header):
    counts = [[1, 2, 3, 4]] * len(iteration) if counts is None else counts
    table = pa.table(
        {
            "iteration": pa.array(iteration, pa.int32()),
            "layer": pa.array(layer, pa.int32()),
            "counts": pa.array(counts, kind or pa.large_list(pa.uint16())),
        }
    )
    full = {"format": 1, "sources": 2, "experts": 2, "top_k": 1, "meta": {}} | header
    return table.replace_schema_metadata({KEY: json.dumps(full)})


def test_the_format_is_as_documented(tmp_path):
    pq.write_table(_table(kind=pa.list_(pa.uint32())), tmp_path / "t.parquet")
    assert GatingTrace.load(tmp_path / "t.parquet").counts[1, 1].tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (_table().replace_schema_metadata({}), "no `lightloom.trace` in the schema's metadata"),
        (_table().replace_schema_metadata({KEY: b"\xff{"}), "lightloom.trace: not JSON"),
        (_table().replace_schema_metadata({KEY: b"[" * 100_000}), "lightloom.trace: not JSON"),
        (_table().replace_schema_metadata({KEY: b"[1]"}), "must be a JSON object"),
        (_table(format=2), "format = 1"),
        (_table(sources=0), "sources = 0: must be a whole number, 1 to"),
        (_table(experts=True), "experts = True: must be a whole number"),
        (_table(top_k="2"), "top_k = '2': must be a whole number"),
        (_table(top_k=3), "top_k = 3: must be 1 to the number of experts, 2"),
        (_table(meta=[]), "meta = []: must be a JSON object"),
        (_table(meta={"a": None}), "meta.a = None: must be text"),
        (_table(experts=3), "row 0: 4 counts: must be 2 sources x 3 experts = 6"),
        (_table(counts=[[1, 2, 3, 4]] * 3 + [[1]]), "row 3: 1 counts: must be 2 sources x 2"),
        (_table(counts=[[1, 2, 3, 4]] * 3 + [None]), "row 3: "),
        (_table(counts=[[1, 2, 3, None]] * 4), "column counts: must have no nulls"),
        (_table(counts=[[0] * 4] * 4), "iteration 0, layer 0 holds no token"),
        (_table(kind=pa.large_list(pa.int64())), "must be a list of uint16 or uint32"),
        (_table(iteration=(0, 0, 1, None)), "column iteration: must have no nulls"),
        (_table(iteration=(0, 0, 2, 2)), "4 rows for 3 iterations x 2 layers"),
        (_table(iteration=(0, 0, 1, 1), layer=(0, 0, 1, 1)), "row 1: iteration 0, layer 0"),
        (_table(iteration=(0, 0, 1, 1), layer=(-1, 1, 0, 1)), "row 0: iteration 0, layer -1"),
        (_table(iteration=(), layer=()), "0 rows"),
        (_table().drop_columns("layer"), "column layer: must be there"),
        (_table().drop_columns("counts"), "column counts: must be there"),
    ],
)
def test_a_table_that_is_not_a_trace(tmp_path, table, message):
    path = tmp_path / "t.parquet"
    pq.write_table(table, path)
    with pytest.raises(InputError) as caught:
        GatingTrace.load(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a whole Parquet file"),
        (b"PAR1", "not a whole Parquet file"),
        (b"iteration,layer\n", "not a whole Parquet file"),
    ],
)
def test_a_file_of_another_kind(tmp_path, content, message):
    (tmp_path / "t.parquet").write_bytes(content)
    with pytest.raises(InputError, match=message):
        GatingTrace.load(tmp_path / "t.parquet")


def test_no_file(tmp_path):
    with pytest.raises(InputError, match=r"none\.parquet: cannot be read: No such file"):
        GatingTrace.load(tmp_path / "none.parquet")
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        GatingTrace.load(tmp_path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> tuple[Path, bytes]:
    path = tmp_path_factory.mktemp("whole") / "t.parquet"
    GatingTrace(np.arange(1, 97).reshape(2, 3, 4, 4), 2, {"origin": "test"}).save(path)
    return path, path.read_bytes()


@settings(max_examples=300)
@given(st.data())
def test_damage_is_an_input_error(whole, data):
    path, content = whole
    broken = bytearray(content)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(broken) - 1))
        broken[at] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        del broken[data.draw(st.integers(0, len(broken))) :]
    path.write_bytes(broken)
    try:
        loaded = GatingTrace.load(path)
    except InputError as error:
        assert str(error).isprintable()
    else:
        # Pages carry checksums: what still loads are the counts that were saved.
        assert sorted(loaded.counts.reshape(-1).tolist()) == list(range(1, 97))
