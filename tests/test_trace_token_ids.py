"""Ids of tokens: counts by loops from every layout, and every way to be wrong."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lightloom.cli import run
from lightloom.errors import InputError
from lightloom.trace import GatingTrace
from lightloom.trace.imported import Options
from lightloom.trace.importer import import_trace

EXPERTS, TOP_K = 6, 2
SHAPE = (3, 2, 4, 5)  # iteration, layer, source, token
NARROW = pa.list_(pa.int16())


def drawn(*shape, seed=1):
    """Ids [..., k], k different ones a token, in no order."""
    rng = np.random.default_rng(seed)
    return rng.random((*shape, EXPERTS)).argsort(axis=-1)[..., :TOP_K]


def counted(ids):
    """Counts of ids [iteration, layer, source, token, k], by loops."""
    counts = np.zeros((*ids.shape[:3], EXPERTS), int)
    for at in np.ndindex(ids.shape):
        counts[(*at[:3], ids[at])] += 1
    return counts


def dealt(ids, sources, tokens):
    """Ids [token, layer, k] as [iteration, layer, source, token, k]; the rest is left out."""
    iterations = len(ids) // (sources * tokens)
    kept = ids[: iterations * sources * tokens]
    parts = kept.reshape(iterations, sources, tokens, *ids.shape[1:])
    return parts.transpose(0, 3, 1, 2, 4)


def flame(directory, ids):
    """FLAME-MoE's layout: a file a layer, of ids [token, layer, k], and their scores."""
    directory.mkdir(parents=True)
    for layer in range(ids.shape[1]):
        scores = pa.array(np.ones(ids.shape[::2]).tolist(), pa.list_(pa.float32()))
        table = pa.table({"scores": scores, "indices": pa.array(ids[:, layer].tolist(), NARROW)})
        pq.write_table(table, directory / f"layer_{layer + 2:02}.parquet", row_group_size=7)


def megatron(directory, ids, **more):
    """Megatron-LM's: a file a rank, of ids [step, layer, rank, token, k]."""
    directory.mkdir()
    for rank in range(ids.shape[2]):
        lines = [
            {
                "step": step + 10, "stage": "pre_dispatch", "block": "decoder", "layer": layer + 3,
                "rank": rank, "num_tokens": ids.shape[3], "topk": TOP_K,
                "top_indices": ids[step, layer, rank].tolist(), **more,
            }
            for step in range(ids.shape[0]) for layer in range(ids.shape[1])
        ]  # fmt: skip
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (directory / f"rank{rank}.jsonl").write_text(text)


def test_arrays_with_sources(tmp_path):
    ids = drawn(*SHAPE)
    np.savez(tmp_path / "a.npz", topk_ids=ids.astype(np.int16), experts=EXPERTS, top_k=TOP_K)
    trace = import_trace(tmp_path / "a.npz")
    assert np.array_equal(trace.counts, counted(ids))
    assert (trace.top_k, trace.meta["sources"]) == (TOP_K, "as in the file")
    np.savez(tmp_path / "b.npz", topk_ids=ids)
    again = import_trace(tmp_path / "b.npz", options=Options(experts=EXPERTS))
    assert np.array_equal(again.counts, trace.counts)
    assert str(again.meta["command"]).endswith("import b.npz --experts 6")


@pytest.mark.parametrize("kind", [NARROW, pa.large_list(pa.int64()), pa.list_(pa.uint8(), TOP_K)])
@pytest.mark.parametrize("column", ["indices", "topk_ids"])
def test_a_table_with_sources(tmp_path, column, kind):
    ids = drawn(*SHAPE)
    places = np.indices(SHAPE).reshape(4, -1)
    order = np.random.default_rng(2).permutation(places.shape[1])
    columns = {name: places[at][order] for at, name in enumerate(("iteration", "layer", "source"))}
    columns["iteration"] = columns["iteration"] * 7 + 100
    columns[column] = pa.array(ids.reshape(-1, TOP_K)[order].tolist(), kind)
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    trace = import_trace(tmp_path / "a.parquet", options=Options(experts=EXPERTS))
    assert np.array_equal(trace.counts, counted(ids))


def test_records_of_ranks(tmp_path):
    ids = drawn(*SHAPE)
    megatron(tmp_path / "r", ids)
    with (tmp_path / "r/rank0.jsonl").open("a") as file:  # read over
        file.write(json.dumps({"block": "mtp", "top_indices": "?"}) + "\n")
        file.write(json.dumps({"mtp_idx": 0, "top_indices": "?"}) + "\n")
    trace = import_trace(tmp_path / "r", options=Options(experts=EXPERTS))
    assert np.array_equal(trace.counts, counted(ids))
    alone = import_trace(tmp_path / "r/rank2.jsonl", options=Options(experts=EXPERTS))
    assert np.array_equal(alone.counts, counted(ids)[:, :, 2:3])


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 4), st.integers(1, 5), st.integers(0, 40), st.integers(0, 9))
def test_tokens_in_order_are_dealt_out(tmp_path_factory, sources, tokens, more, seed):
    place = tmp_path_factory.mktemp("dealt")
    ids = drawn(sources * tokens + more, 3, seed=seed)
    options = Options(experts=EXPERTS, sources=sources, tokens=tokens)
    flame(place / "f", ids)
    np.savez(place / "v.npz", prompt_routed_experts=ids[:1], routed_experts=ids[1:])
    expected = counted(dealt(ids, sources, tokens))
    left = len(ids) % (sources * tokens)
    for name in ["f"] + (["v.npz"] if len(ids) > 1 else []):
        trace = import_trace(place / name, options=options)
        assert np.array_equal(trace.counts, expected), name
        assert trace.meta.get("tokens_left_out", 0) == left
        assert f"dealt out to {sources} sources, {tokens} to each" in str(trace.meta["sources"])
    one = import_trace(place / "f/layer_03.parquet", options=options)
    assert np.array_equal(one.counts, expected[:, 1:2])


def test_captures_follow_each_other(tmp_path):
    ids = drawn(60, 2)
    # By number, not by name: 1080 comes after 540.
    for number, part in ((540, ids[:36]), (1080, ids[36:])):
        flame(tmp_path / f"actives/iter_{number}", part)
    options = Options(experts=EXPERTS, sources=3, tokens=4)
    trace = import_trace(tmp_path / "actives", options=options)
    assert np.array_equal(trace.counts, counted(dealt(ids, 3, 4)))
    assert trace.meta["iterations"] == "3 of iter_540, 2 of iter_1080"
    # Without --tokens, a capture is an iteration; without --sources, there is one an expert.
    whole = import_trace(tmp_path / "actives/iter_1080", options=Options(experts=EXPERTS))
    assert np.array_equal(whole.counts, counted(dealt(ids[36:], 6, 4)))


IDS, OTHER = drawn(*SHAPE), drawn(9, 2)


@pytest.mark.parametrize(
    ("arrays", "options", "said"),
    [
        ({"topk_ids": IDS}, {}, "does not say how many experts a layer has: say --experts"),
        ({"topk_ids": IDS, "experts": 9}, {"experts": 6}, "--experts 6: the file says 9"),
        ({"topk_ids": IDS}, {"experts": 5}, "expert 5: must be 0 to 4"),
        ({"topk_ids": IDS - 1}, {"experts": 6}, "expert -1: must be 0 to 5"),
        ({"topk_ids": IDS * 0}, {"experts": 6}, "[0, 0, 0, 0]: expert 0 is there twice"),
        ({"topk_ids": IDS * 1.0}, {"experts": 6}, "array topk_ids: float64"),
        ({"topk_ids": drawn(3)}, {"experts": 6}, "must be whole numbers [iteration, layer, source"),
        ({"topk_ids": IDS, "top_k": 3}, {"experts": 6}, "top_k 3: a token has 2 ids"),
        ({"topk_ids": IDS}, {"experts": 6, "top_k": 1}, "--top-k 1: the file says 2"),
        ({"topk_ids": IDS}, {"experts": 6, "sources": 3}, "--sources 3: the file has its own"),
        ({"topk_ids": IDS}, {"experts": 6, "tokens": 3}, "--tokens 3: read only where"),
        ({"topk_ids": drawn(20, 20, 20, 1)}, {"experts": 1 << 20}, "must hold at most"),
        ({"topk_ids": IDS}, {"experts": 0}, "--experts 0: must be 1 to 1048576"),
        ({"topk_ids": IDS, "experts": [1, 2]}, {}, "array experts: must be one whole number"),
        ({"routed_experts": drawn(9)}, {"experts": 6}, "must be whole numbers [token, layer, k]"),
        ({"routed_experts": OTHER}, {"experts": 6, "sources": 10}, "at least one iteration of 10"),
        ({"routed_experts": OTHER - 1}, {"experts": 6}, "layer 0, token "),
        (
            {"routed_experts": OTHER},
            {"experts": 6, "sources": 2, "tokens": 5},
            "9 tokens: must be at least one iteration of 2 sources x --tokens 5",
        ),
        (
            {"routed_experts": OTHER, "prompt_routed_experts": drawn(9, 3)},
            {"experts": 6},
            "must have the same layers and k",
        ),
        (
            {"topk_ids": IDS, "prompt_routed_experts": OTHER},
            {"experts": 6},
            "arrays prompt_routed_experts, topk_ids: must be topk_ids or the others",
        ),
        (
            {"routed_experts": OTHER.astype(np.uint64) + (1 << 63), "prompt_routed_experts": OTHER},
            {"experts": 6},
            ": must be 0 to 5",
        ),
        ({"counts": np.ones((1, 1, 2, 2), int), "top_k": 1}, {"experts": 2}, "--experts 2: read"),
        ({"loads": np.ones((1, 1, 2), int), "top_k": 1}, {"tokens": 2}, "--tokens 2: read only"),
    ],
)
def test_arrays_that_cannot_be_read(tmp_path, arrays, options, said):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(InputError) as caught:
        import_trace(tmp_path / "a.npz", options=Options(**options))
    assert said in str(caught.value) and str(caught.value).isprintable()


EMPTY = pa.array([], NARROW)


@pytest.mark.parametrize(
    ("column", "more", "said"),
    [
        (pa.array([[0, 1], [2]]), {}, "row 1: 1 ids: must be as many for each token"),
        (pa.array([[], [1, 2]]), {}, "row 0: 0 ids"),
        (pa.array([[0, 1], None]), {}, "row 1: 0 ids"),
        (pa.array([[0, 1], [None, 2]]), {}, "ids must have no nulls"),
        (pa.array([[0, 1], [6, 2]]), {}, "row 1: expert 6: must be 0 to 5"),
        (pa.array([[0, 1], [3, 3]]), {}, "row 1: expert 3 is there twice"),
        (pa.array([0, 1]), {}, "must be a list of whole numbers a token"),
        (pa.array([[0.5, 1.0]]), {}, "must be a list of whole numbers a token"),
        (EMPTY, {}, "0 tokens: must be at least one iteration"),
        (pa.array([[0, 1]]), {"topk_ids": pa.array([[0, 1]])}, "must have one column of ids"),
        (pa.array([[0, 1]]), {"layer": [0]}, "must include all of iteration, layer, source"),
        (
            pa.array([[0, 1]]),
            {"layer": [0], "iteration": [0], "source": [-1]},
            "column source: must be 0 to",
        ),
        (
            pa.array([[0, 1]]),
            {"layer": [0], "iteration": [0.5], "source": [0]},
            "column iteration: must be whole numbers, no nulls",
        ),
        (
            pa.array([[0, 1]]),
            {"layer": [0], "iteration": [0], "source": [0], "topk_ids": pa.array([[0, 1]])},
            "must have one column of ids",
        ),
        (
            EMPTY,
            {name: pa.array([], pa.int64()) for name in ("layer", "iteration", "source")},
            "no rows: must have at least one",
        ),
    ],
)
def test_tables_that_cannot_be_read(tmp_path, column, more, said):
    pq.write_table(pa.table({"indices": column, **more}), tmp_path / "a.parquet")
    with pytest.raises(InputError) as caught:
        import_trace(tmp_path / "a.parquet", options=Options(experts=6, sources=1))
    assert said in str(caught.value) and str(caught.value).isprintable()


def test_directories_that_are_not_whole(tmp_path):
    options = Options(experts=EXPERTS, sources=2)
    (tmp_path / "empty").mkdir()
    flame(tmp_path / "f/iter_1", drawn(12, 3))
    flame(tmp_path / "f/iter_2", drawn(12, 2))
    for name, ids in (("g", drawn(11)), ("h", drawn(12)[:, :1])):
        flame(tmp_path / name, drawn(12, 2))
        table = pa.table({"indices": pa.array(ids.tolist(), NARROW)})
        pq.write_table(table, tmp_path / name / "layer_03.parquet")
    for name, said in (
        ("empty", "holds nothing: must hold layer_NN.parquet"),
        ("f", "iter_2: holds layer_02.parquet, layer_03.parquet: must hold layer_02.parquet, "),
        ("g", "layer_03.parquet: 11 tokens: must be 12, as in layer_02.parquet"),
        ("h", "layer_03.parquet: row 0: 1 ids a token: must be 2"),
    ):
        with pytest.raises(InputError) as caught:
            import_trace(tmp_path / name, options=options)
        assert said in str(caught.value), name


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"top_indices": [[0, 1], [2]]}, "line 1: top_indices: must be whole numbers, as many for"),
        ({"top_indices": None}, "line 1: top_indices: must be"),
        ({"top_indices": [[0, "x"]]}, "line 1: top_indices: must be"),
        ({"top_indices": [[0, 6]] * 5}, "line 1, token 0: expert 6: must be 0 to 5"),
        ({"top_indices": [[0, 1]] * 4}, "line 1: 4 tokens: num_tokens says 5"),
        ({"step": "x"}, "line 1: step = "),
        ({"layer": -1}, "line 1: layer = -1: must be a whole number"),
        ({"step": 0}, "line 3: step 0, layer 3, rank 0 is there twice"),
        ({"block": "encoder"}, "no record of a decoder's layer"),
    ],
)
def test_records_that_cannot_be_read(tmp_path, more, said):
    megatron(tmp_path / "r", drawn(*SHAPE), **more)
    with pytest.raises(InputError) as caught:
        import_trace(tmp_path / "r", options=Options(experts=EXPERTS))
    assert said in str(caught.value) and str(caught.value).isprintable()


def test_records_that_are_missing(tmp_path):
    megatron(tmp_path / "r", drawn(*SHAPE))
    file = tmp_path / "r/rank1.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    for kept, said in (
        ("".join(lines[:-1]), "no record of step 12, layer 4, rank 1"),
        ("".join(lines)[:-30], "rank1.jsonl: line 6: not a whole record"),
        ("".join(lines[::2]), "layer 4: 3 ranks: must be 4, as layer 3 has"),
        ("[1]\n", "line 1: must be a JSON object"),
    ):
        file.write_text(kept)
        with pytest.raises(InputError) as caught:
            import_trace(tmp_path / "r", options=Options(experts=EXPERTS))
        assert said in str(caught.value)


@settings(max_examples=120, deadline=None)
@given(st.sampled_from(["npz", "parquet", "jsonl"]), st.data())
def test_damage_is_an_input_error(tmp_path_factory, ending, data):
    place = tmp_path_factory.mktemp("damage")
    flame(place / "f", OTHER)
    np.savez(place / "a.npz", routed_experts=OTHER)
    megatron(place / "r", drawn(1, 2, 1, 3))
    whole = {"npz": "a.npz", "parquet": "f/layer_02.parquet", "jsonl": "r/rank0.jsonl"}
    broken = bytearray((place / whole[ending]).read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(broken)))
        cut = data.draw(st.sampled_from([0, 1, 1, 1, 9]))
        broken[at : at + cut] = data.draw(st.binary(max_size=3))
    (place / whole[ending]).write_bytes(broken)
    try:
        import_trace(place / whole[ending], options=Options(experts=EXPERTS))
    except InputError as error:
        assert str(error).isprintable()


def test_a_file_that_is_cut_short_is_one_message(tmp_path, capsys):
    ids = drawn(40, 2)
    flame(tmp_path / "f", ids)
    np.savez(tmp_path / "a.npz", routed_experts=ids)
    megatron(tmp_path / "r", drawn(*SHAPE))
    whole = ["import", str(tmp_path / "f"), "--experts", "6", "--sources", "4", "--tokens", "5"]
    assert run(["trace", *whole, "--out", str(tmp_path / "t.parquet")]) == 0
    assert GatingTrace.load(tmp_path / "t.parquet").counts.shape == (2, 2, 4, 6)
    capsys.readouterr()
    for file, place in (("f/layer_02.parquet", "f"), ("a.npz", "a.npz"), ("r/rank0.jsonl", "r")):
        data = (tmp_path / file).read_bytes()
        for share in (0.3, 0.6, 0.97):
            (tmp_path / file).write_bytes(data[: int(len(data) * share)])
            words = [
                "import",
                str(tmp_path / place),
                "--experts",
                "6",
                "--out",
                str(tmp_path / "t"),
            ]
            assert run(["trace", *words]) == 2, (file, share)
            said = capsys.readouterr().err
            assert said.startswith("error: ") and said.count("\n") == 1, said
            assert not (tmp_path / "t").exists()
