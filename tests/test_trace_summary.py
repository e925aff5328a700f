"""Measures of a trace: closed forms, and an oracle of loops."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from lightloom.trace import GatingTrace
from lightloom.trace.summary import MEASURES, summarize
from lightloom.trace.synthetic import Knobs, Shape, generate


def _measures(trace):
    summary = summarize(trace)
    return {name: getattr(summary, name) for name in MEASURES}


def test_an_even_trace():
    measures = _measures(generate("uniform", Shape()))
    for name, value in zip(MEASURES, [1, 1, 1, 0, 0, 1], strict=True):
        assert measures[name] == pytest.approx(value), name


def test_one_expert_takes_all_and_moves():
    shape = Shape(experts=8, top_k=1, iterations=5)
    # A factor of a million leaves the others 4096 x 7 / 1,000,007 = 0.03 of 4,096 tokens: none.
    measures = _measures(generate("rotating-hotspot", shape, Knobs(factor=1e6)))
    for name, value in zip(MEASURES, [8, 8, 0, 1, 0, 8], strict=True):
        assert measures[name] == pytest.approx(value), name


def test_each_source_has_an_expert_of_its_own():
    trace = GatingTrace(np.broadcast_to(np.eye(4, dtype=int) * 9, (2, 1, 4, 4)), 1)
    measures = _measures(trace)
    for name, value in zip(MEASURES, [1, 1, 1, 0, 0.75, 4], strict=True):
        assert measures[name] == pytest.approx(value), name


def test_a_single_iteration_expert_and_source():
    measures = _measures(GatingTrace(np.ones((1, 1, 1, 1), int), 1))
    for name, value in zip(MEASURES, [1, 1, 1, 0, 0, 1], strict=True):
        assert measures[name] == pytest.approx(value), name


@settings(max_examples=60)
@given(
    hnp.arrays(
        np.int64,
        hnp.array_shapes(min_dims=4, max_dims=4, max_side=4),
        elements=st.integers(0, 9),
    ).map(lambda array: np.where(array.sum(axis=(2, 3), keepdims=True) == 0, 1, array))
)
def test_measures_agree_with_loops(counts):
    trace = GatingTrace(counts, 1)
    got = _measures(trace)
    iterations, layers, sources, experts = counts.shape
    for layer in range(layers):
        shares = []
        imbalance, entropy, spread, pairs = [], [], [], []
        for i in range(iterations):
            matrix = counts[i, layer].tolist()
            loads = [sum(row[e] for row in matrix) for e in range(experts)]
            total = sum(loads)
            share = [load / total for load in loads]
            shares.append(share)
            imbalance.append(max(loads) / (total / experts))
            nats = -sum(p * math.log(p) for p in share if p)
            entropy.append(nats / math.log(experts) if experts > 1 else 1)
            sending = [row for row in matrix if sum(row)]
            spread.append(
                sum(
                    sum(abs(row[e] / sum(row) - share[e]) for e in range(experts)) / 2
                    for row in sending
                )
                / len(sending)
            )
            pairs.append(max(map(max, matrix)) / (total / (sources * experts)))
        drift = [
            sum(abs(a - b) for a, b in zip(one, two, strict=True)) / 2
            for one, two in itertools.pairwise(shares)
        ]

        def mean(values):
            return sum(values) / len(values) if values else 0

        expected = [mean(imbalance), max(imbalance), mean(entropy), mean(drift), mean(spread)]
        for name, value in zip(MEASURES, [*expected, mean(pairs)], strict=True):
            assert got[name][layer] == pytest.approx(value, abs=1e-9), name
