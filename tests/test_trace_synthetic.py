"""Traces from formulas: rows that sum, one choice a token and expert, each formula by hand."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lightloom.errors import InputError
from lightloom.trace.synthetic import GENERATORS, KINDS, Knobs, Shape, apportion, generate

shapes = st.builds(
    lambda experts, top_k, **rest: Shape(experts=experts, top_k=min(top_k, experts), **rest),
    experts=st.integers(1, 12),
    top_k=st.integers(1, 4),
    sources=st.integers(1, 6),
    layers=st.integers(1, 3),
    iterations=st.integers(1, 12),
    tokens=st.integers(1, 50),
    seed=st.integers(0, 9),
)


@settings(max_examples=150)
@given(st.sampled_from(KINDS), shapes)
def test_every_token_chooses_k_different_experts(kind, shape):
    if kind == "pair-skew":  # servers share sources and experts evenly
        shape = replace(shape, sources=4 * shape.sources, experts=8 * shape.experts)
    trace = generate(kind, shape)
    rows = trace.counts.sum(axis=3, dtype=np.int64)
    assert trace.counts.shape == (shape.iterations, shape.layers, shape.sources, shape.experts)
    assert (rows % shape.top_k == 0).all()
    assert (trace.counts <= rows[..., None] // shape.top_k).all()
    if kind == "zipf-sender":
        assert (rows.sum(axis=2) == shape.sources * shape.tokens * shape.top_k).all()
        assert rows.min() >= shape.top_k
    else:
        assert (rows == shape.tokens * shape.top_k).all()


@pytest.mark.parametrize("kind", KINDS)
def test_the_seed_decides_and_nothing_else_does(kind):
    size = dict(experts=16, sources=4, iterations=12)
    one, two = (generate(kind, Shape(**size, seed=3)).counts for _ in range(2))
    assert np.array_equal(one, two)
    others = [generate(kind, Shape(**size, seed=seed)).counts for seed in range(4, 8)]
    assert any(not np.array_equal(one, other) for other in others) == (
        kind not in ("uniform", "megatron")
    )


@pytest.mark.parametrize("kind", KINDS)
def test_the_command_in_the_metadata_repeats_the_trace(kind):
    words = str(generate(kind, Shape(iterations=3)).meta["command"]).split()
    flags = {
        k.removeprefix("--").replace("-", "_"): v
        for k, v in zip(words[4::2], words[5::2], strict=True)
    }
    knobs = {knob.name: float(flags.pop(knob.name)) for knob in GENERATORS[kind].knobs}
    again = generate(words[3], Shape(**{k: int(v) for k, v in flags.items()}), Knobs(**knobs))
    assert np.array_equal(again.counts, generate(kind, Shape(iterations=3)).counts)


def _by_fractions(weights, total, cap):
    """Share out by weight with exact fractions, one column capped at a time."""
    capped: set[int] = set()
    while True:
        left = total - cap * len(capped)
        mass = sum(w for i, w in enumerate(weights) if i not in capped)
        shares = [
            Fraction(cap) if i in capped else Fraction(left) * w / mass if mass else Fraction(0)
            for i, w in enumerate(weights)
        ]
        over = {i for i, share in enumerate(shares) if share > cap and i not in capped}
        if not over:
            return shares
        capped |= over


@given(
    st.lists(st.integers(0, 20), min_size=1, max_size=8).filter(any),
    st.integers(1, 40),
    st.data(),
)
def test_sharing_out_agrees_with_exact_fractions(weights, cap, data):
    total = data.draw(st.integers(0, cap * sum(w > 0 for w in weights)))
    got = apportion(np.array([weights], float), np.array([total]), np.array([cap]))[0]
    exact = _by_fractions(weights, total, cap)
    assert got.sum() == total
    assert got.max() <= cap
    for count, share in zip(got.tolist(), exact, strict=True):
        assert abs(count - share) < 1 + 1e-9


def test_uniform_is_even():
    assert set(generate("uniform", Shape(tokens=4096)).counts.reshape(-1).tolist()) == {1024}


def test_zipf_sender_skews_the_sources():
    trace = generate("zipf-sender", Shape(experts=4, sources=4, tokens=1 + 4800, top_k=1))
    rows = sorted(trace.counts[0, 0].sum(axis=1).tolist())
    # 19,200 tokens beside the one that each has, by 1 : 1/2 : 1/3 : 1/4 (sum 25/12).
    assert rows == [1 + 2304, 1 + 3072, 1 + 4608, 1 + 9216]


def test_zipf_receiver_skews_the_experts_alike_for_all_sources():
    trace = generate("zipf-receiver", Shape(experts=4, sources=3, tokens=2500, top_k=1))
    assert sorted(trace.counts[0, 0, 0].tolist()) == [300, 400, 600, 1200]
    assert (trace.counts[:, :, 0] == trace.counts[:, :, 2]).all()
    flat = generate("zipf-receiver", Shape(tokens=4), Knobs(exponent=0.0))
    assert set(flat.counts.reshape(-1).tolist()) == {1}


@pytest.mark.parametrize(("sparsity", "reached"), [(0.0, 16), (0.75, 4), (1.0, 2)])
def test_sparse_reaches_that_many_experts(sparsity, reached):
    trace = generate("sparse", Shape(experts=16, tokens=64), Knobs(sparsity=sparsity))
    assert (np.count_nonzero(trace.counts, axis=3) == reached).all()


def test_the_hotspot_rotates():
    trace = generate("rotating-hotspot", Shape(iterations=16), Knobs(period=2))
    hot = trace.loads().argmax(axis=2)
    assert np.array_equal(hot, (hot[0] + np.arange(16)[:, None] // 2) % 8)


def test_a_burst_comes_and_goes():
    shape = Shape(experts=8, top_k=1, tokens=1500, iterations=25)
    loads = generate("burst", shape, Knobs(factor=8.0, period=10, length=3)).loads()
    within = np.arange(25) % 10 < 3
    # Weight 8 beside seven of weight 1: 8/15 of 1,500 tokens from each of 8 sources.
    assert (loads[within].max(axis=2) == 8 * 800).all()
    assert (loads[~within].max(axis=2) == 8 * 188).all()


@pytest.mark.parametrize(("experts", "sources", "hot"), [(16, 4, 4), (4, 4, 1), (4, 16, 1)])
def test_a_hot_rank_holds_its_experts(experts, sources, hot):
    trace = generate("hot-rank", Shape(experts=experts, sources=sources, top_k=1))
    loads = trace.loads()
    largest = loads > loads.mean(axis=2, keepdims=True)
    assert (largest.sum(axis=2) == hot).all()
    assert (largest == largest[0, 0]).all(), "the same rank throughout"
    first = int(largest[0, 0].argmax())
    assert first % hot == 0
    assert largest[0, 0, first : first + hot].all()


@pytest.mark.parametrize(("idle", "without"), [(0.0, 0), (0.25, 4), (1.0, 14)])
def test_zero_load_experts_get_nothing(idle, without):
    trace = generate("zero-load", Shape(experts=16), Knobs(idle=idle))
    assert ((trace.loads() == 0).sum(axis=2) == without).all()


@pytest.mark.parametrize(
    ("kind", "shape", "knobs", "message"),
    [
        ("zipf", {}, {}, "kind 'zipf': must be one of uniform, zipf-sender"),
        ("uniform", {}, {"exponent": 1.0}, "--exponent 1.0: uniform reads nothing but the shape"),
        ("burst", {}, {"idle": 0.5}, "--idle 0.5: burst reads --factor, --period, --length"),
        ("sparse", {}, {"sparsity": 1.5}, "--sparsity 1.5: must be 0 to 1"),
        ("zipf-sender", {}, {"exponent": float("nan")}, "--exponent nan: must be 0 to 100"),
        ("hot-rank", {}, {"factor": 0.5}, "--factor 0.5: must be 1 to"),
        ("burst", {}, {"length": 11}, "--length 11: must be at most --period 10"),
        ("megatron", {}, {"workload": 8}, "--workload 8: must be 0 to 7"),
        ("megatron", {"top_k": 5}, {"workload": 5}, "--workload 5: leaves 4 experts, fewer than"),
        ("pair-skew", {}, {"servers": 3}, "--servers 3: must share --sources 8 and --experts 8"),
        ("pair-skew", {}, {"skew": 3.5}, "--skew 3.5: must be at most 3, the least of the other"),
        ("pair-skew", {"top_k": 5}, {}, "experts over top-k (8 / 5)"),
        ("uniform", {"top_k": 9}, {}, "--top-k 9: must be at most --experts 8"),
        ("uniform", {"layers": 0}, {}, "--layers 0: must be 1 to"),
        ("uniform", {"seed": -1}, {}, "--seed -1: must be 0 to"),
        ("uniform", {"experts": 4096, "sources": 4096}, {}, "must be at most"),
    ],
)
def test_what_cannot_be_made(kind, shape, knobs, message):
    with pytest.raises(InputError) as caught:
        generate(kind, Shape(**shape), Knobs(**knobs))
    assert message in str(caught.value)
