"""Skew between servers: an oracle of loops, and what generators promise, at odd sizes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lightloom.errors import InputError
from lightloom.trace import GatingTrace, Knobs, Shape, generate, server_skew, summarize

# Not the sizes that people try first: sources, experts, servers.
ODD = [(9, 15, 3), (10, 35, 5), (14, 49, 7), (12, 36, 6)]


@settings(max_examples=60)
@given(
    st.integers(2, 5),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(0, 2**32),
)
def test_skew_agrees_with_loops(servers, ranks, experts, seed):
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 9, (3, 2, servers * ranks, servers * experts))
    counts[..., 0] += 1
    got = server_skew(GatingTrace(counts, 1), servers)
    for layer in range(2):
        skews, shares = [], []
        for matrix in counts[:, layer].tolist():
            pairs = dict.fromkeys(
                ((a, b) for a in range(servers) for b in range(servers) if a != b), 0
            )
            for source, row in enumerate(matrix):
                for expert, count in enumerate(row):
                    at = (source // ranks, expert // experts)
                    if at in pairs:
                        pairs[at] += count
            sent = sorted(pairs.values())
            total = sum(sent)
            skews.append(sent[-1] / (total / len(sent)))
            shares.append(sum(sent[-servers:]) / total)
        assert got.pair_skew[layer] == pytest.approx(sum(skews) / 3)
        assert got.top_share[layer] == pytest.approx(sum(shares) / 3)


def test_even_one_pair_and_nothing_between_servers():
    even = server_skew(generate("uniform", Shape(sources=6, experts=6, tokens=3000)), 3)
    assert (even.pair_skew == 1).all() and even.top_share == pytest.approx(np.full(8, 1 / 2))
    counts = np.zeros((1, 1, 6, 6), int)
    counts[0, 0, 0, 3] = 7
    one = server_skew(GatingTrace(counts, 1), 3)
    assert (one.pair_skew[0], one.top_share[0]) == (6, 1)
    inside = server_skew(GatingTrace(np.eye(6, dtype=int)[None, None] * 5, 1), 3)
    assert (inside.pair_skew[0], inside.top_share[0]) == (1, 1 / 2)


def test_how_many_servers():
    assert server_skew(generate("uniform", Shape(sources=12, experts=30))).servers == 6
    assert server_skew(generate("uniform", Shape(sources=64, experts=64))).servers == 8
    assert server_skew(generate("uniform", Shape(sources=5, experts=6))) is None
    trace = generate("uniform", Shape(sources=12, experts=30))
    for servers in (-2, 0, 1, 4, 60):
        with pytest.raises(InputError, match=f"--servers {servers}: must be at least 2 and share"):
            server_skew(trace, servers)


@pytest.mark.parametrize(("sources", "experts", "servers"), ODD)
@pytest.mark.parametrize("share", [0.0, 0.37, 1.0])
def test_pair_skew_is_what_was_asked_for(sources, experts, servers, share):
    shape = Shape(experts=experts, sources=sources, top_k=3, tokens=30000, iterations=2)
    skew = 1 + share * (min(servers - 1, experts / 3) - 1)
    trace = generate("pair-skew", shape, Knobs(servers=servers, skew=skew))
    got = server_skew(trace, servers)
    assert got.pair_skew == pytest.approx(np.full(8, skew), rel=1e-3)
    # One circle is one circuit from each server.
    assert got.top_share == pytest.approx(np.full(8, skew / (servers - 1)), rel=1e-3)
    assert summarize(trace).imbalance.max() < 1.01


@pytest.mark.parametrize(("sources", "experts", "servers"), ODD)
@pytest.mark.parametrize(("width", "heat", "stride"), [(0.2, 0.6, 1), (0.3, 0.9, 2), (0.0, 0.5, 4)])
def test_hot_experts_are_as_hot_as_was_asked_for(sources, experts, servers, width, heat, stride):
    shape = Shape(experts=experts, sources=sources, top_k=2, tokens=30000, iterations=1)
    trace = generate("hot-experts", shape, Knobs(width=width, heat=heat, stride=stride))
    loads = trace.loads()[0]
    hot = loads > loads.mean(axis=1, keepdims=True)
    count = max(2, round(width * experts))
    if stride * count <= experts:
        assert (hot.sum(axis=1) == count).all()
        assert summarize(trace).imbalance == pytest.approx(
            np.full(8, experts * heat / count + 1 - heat), rel=1e-3
        )
    # All sources send alike, so a pair is as heavy as the server that receives.
    by_server = loads.reshape(8, servers, -1).sum(axis=2) / loads.sum(axis=1, keepdims=True)
    assert server_skew(trace, servers).pair_skew == pytest.approx(
        by_server.max(axis=1) * servers, rel=1e-3
    )


@pytest.mark.parametrize(("experts", "bump", "period"), [(9, 0.2, 4), (35, 0.25, 7), (49, 0.1, 1)])
def test_a_load_drifts_as_fast_as_was_asked_for(experts, bump, period):
    shape = Shape(experts=experts, sources=3, top_k=2, tokens=30000, iterations=23)
    trace = generate("moving-load", shape, Knobs(bump=bump, period=period))
    assert summarize(trace).drift == pytest.approx(np.full(8, bump / period), abs=1e-3)


def _workload(number, **shape):
    return generate("megatron", Shape(**shape), Knobs(workload=number))


# Their README's maxima over means of one draw, and what is expected: 8 experts, 4 ranks.
@pytest.mark.parametrize(
    ("top_k", "tokens", "printed", "expected"),
    [
        (2, 128, {0: 1.0, 1: 3.312, 2: 3.219, 5: 2.156, 6: 3.312}, {0: 1, 1: 3.25, 5: 2}),
        (4, 512, {0: 1.0, 1: 1.781, 2: 1.770, 5: 2.0, 6: 1.770}, {0: 1, 1: 1.75, 5: 2}),
    ],
)
def test_megatrons_workloads_are_as_uneven_as_theirs(top_k, tokens, printed, expected):
    for number, figure in printed.items():
        trace = _workload(number, sources=4, top_k=top_k, tokens=tokens)
        found = summarize(trace).imbalance.max()
        assert found == pytest.approx(figure, rel=0.08)
        assert found == pytest.approx(expected.get(number, expected[1]), rel=1e-9)


def test_megatrons_workloads_at_odd_sizes():
    size = {"experts": 15, "sources": 5, "top_k": 3, "tokens": 101, "iterations": 9}
    heat, even = 75 / 101, 303 / 15
    for number in (1, 2):
        loads = _workload(number, **size).counts[0, 0, 0]
        assert loads[:3] == pytest.approx([heat * 101 + (1 - heat) * even] * 3, abs=1)
        assert loads[3:] == pytest.approx([(1 - heat) * even] * 12, abs=1)
    # Every second expert: 0, 2, 4, ... 12.
    spread = _workload(3, **size).counts[0, 0, 0]
    assert spread[0:14:2] == pytest.approx([heat * 303 / 7 + (1 - heat) * even] * 7, abs=1)
    assert _workload(4, **size).counts[0, 0].sum(axis=1).argsort().tolist() == [0, 1, 2, 3, 4]
    dead = _workload(5, **size).loads()[0, 0]
    assert (dead[:7] == 0).all() and dead[7:] == pytest.approx([5 * 303 / 8] * 8, abs=5)
    hottest = _workload(6, **size).loads()[:, 0].argmax(axis=1)
    assert (hottest // 3).tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    burst = summarize(_workload(7, **size))
    assert burst.worst_imbalance == pytest.approx(
        np.full(8, 15 * (51 / 101) / 3 + 50 / 101), rel=0.02
    )
    assert (np.diff(_workload(7, **size).loads()[:3, 0], axis=0) == 0).all()
