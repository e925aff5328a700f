"""The workloads of RailS: sums, shares and shapes, on any size of cluster."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lightloom.errors import InputError
from lightloom.rails.workloads import KINDS, PHASES, Workload, demand, receivers, zipf

TEXTS = st.one_of(
    st.just("uniform"),
    st.floats(0, 0.99).map(lambda s: f"sparse:{s:.3f}"),
    st.floats(0.05, 4).map(lambda a: f"sender-skewed:{a:.2f}"),
    st.floats(0.05, 4).map(lambda a: f"receiver-skewed:{a:.2f}"),
    st.just("trace"),
    st.sampled_from([f"mixtral:{p}:{q}" for p in PHASES for q in ("dense", "sparse")]),
)


@settings(max_examples=60)
@given(
    text=TEXTS,
    domains=st.sampled_from([2, 4, 8, 16]),
    gpus=st.integers(1, 9),
    size=st.integers(1, 1 << 24),
    seed=st.integers(0, 99),
)
def test_whatever_is_asked_adds_up_exactly(
    text: str, domains: int, gpus: int, size: int, seed: int
) -> None:
    workload = Workload.parse(text)
    if workload.kind == "mixtral" and domains % 8:
        domains = 8
    drawn = demand(workload, domains, gpus, size, collectives=2, seed=seed)
    count = domains * gpus
    assert drawn.shape == (2, count, count) and drawn.dtype == np.uint64
    assert (np.einsum("cgg->cg", drawn) == 0).all()
    if workload.kind == "sender-skewed":
        assert (drawn.sum(axis=(1, 2)) == size * count).all()
    elif workload.placement == "sparse":
        by_domain = drawn.sum(axis=2).reshape(2, domains, gpus)
        assert (by_domain[:, :, 0] == size * gpus).all() and not by_domain[:, :, 1:].any()
    elif workload.kind in ("trace", "mixtral"):
        assert (drawn.sum(axis=2).reshape(2, domains, gpus).sum(axis=2) == size * gpus).all()
    elif text == "uniform":
        others = drawn[:, ~np.eye(count, dtype=bool)]
        assert (others == others[0, 0]).all()
        assert others[0, 0] == 1 or abs(int(others[0, 0]) * (count - 1) - size) <= count / 2
    else:
        assert (drawn.sum(axis=2) == size).all()
    again = demand(workload, domains, gpus, size, collectives=1, seed=seed)
    assert (again[0] == drawn[0]).all()


@settings(max_examples=60)
@given(
    sparsity=st.floats(0, 0.99),
    domains=st.integers(1, 9),
    gpus=st.integers(1, 16),
    seed=st.integers(0, 99),
)
def test_exactly_the_share_receives(sparsity: float, domains: int, gpus: int, seed: int) -> None:
    shares = receivers(sparsity, domains, gpus, np.random.default_rng(seed))
    by_domain = shares.reshape(domains, gpus)
    assert np.allclose(by_domain.sum(axis=1), 1 / domains)
    active = (1 - sparsity) * gpus
    assert ((by_domain > 0).sum(axis=1) == max(1, np.ceil(active - 1e-9))).all()
    # The most loaded GPU takes 1 / ((1 - S) N) of its domain: landing on N rails gains 1 / (1 - S).
    assert np.isclose(by_domain.max() * domains, 1 / active if active >= 1 else 1.0)


def test_the_unchosen_receive_nothing() -> None:
    drawn = demand(Workload.parse("sparse:0.5"), 4, 8, 1 << 24, collectives=3)
    received = drawn.sum(axis=1).reshape(3, 4, 8)
    assert ((received > 0).sum(axis=2) == 4).all()
    # Collectives draw receivers anew.
    assert ((received[0] > 0) != (received[1] > 0)).any()
    # The rest is shared alike, but for what tokens choose at random.
    busy = received[received > 0]
    assert busy.max() / busy.min() < 1.2


def test_zipf_is_placed_in_rank_order() -> None:
    shares = zipf(64, 1.2)
    sent = demand(Workload.parse("sender-skewed"), 8, 8, 1 << 24)[0].sum(axis=1)
    assert np.allclose(sent / sent.sum(), shares, atol=1e-8)
    received = demand(Workload.parse("receiver-skewed"), 8, 8, 1 << 26)[0].sum(axis=0)
    assert np.abs(received / received.sum() - shares).max() < 0.01
    assert shares.sum() == pytest.approx(1.0)


def test_phases_carry_what_the_paper_says() -> None:
    sizes = [Workload.parse(f"mixtral:{phase}").size_bytes(8) * 8 for phase in PHASES]
    assert (sizes[0], sizes[-1]) == (100_000_000, 256_000_000)
    steps = np.diff(sizes)
    assert (steps == steps[0]).all()


def test_replicas_do_not_speak_to_each_other() -> None:
    drawn = demand(Workload.parse("mixtral:mid"), 16, 2, 1 << 20)[0]
    assert not drawn[:16, 16:].any() and not drawn[16:, :16].any()
    assert (drawn[:16, :16] != drawn[16:, 16:]).any()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("sparse", "must be a number"),
        ("sparse:x", "must be a number"),
        ("sparse:nan", "must be a number"),
        ("sparse:1", "less than 1"),
        ("sparse:-0.1", "at least 0"),
        ("sender-skewed:0", "more than 0"),
        ("receiver-skewed:-1", "more than 0"),
        ("uniform:2", "no parameter"),
        ("unifrom", 'did you mean "uniform"'),
        ("mixtral", "no phase"),
        ("mixtral:late", "no phase"),
        ("mixtral:mid:thick", "no placement"),
        ("", "no such workload"),
    ],
)
def test_bad_workloads_are_named(text: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        Workload.parse(text)


def test_a_trace_must_fit() -> None:
    with pytest.raises(InputError, match="domains = 12"):
        demand(Workload.parse("mixtral:mid"), 12, 8, 1 << 20)
    with pytest.raises(InputError, match="no such trace"):
        demand(Workload.parse("trace:e7k2"), 8, 8, 1 << 20)


def test_every_kind_parses_to_its_own_text() -> None:
    texts = ["uniform", "sparse:0.25", "sender-skewed:1.2", "receiver-skewed:2",
             "mixtral:mid:sparse", "trace:e8k2"]  # fmt: skip
    assert tuple(Workload.parse(text).kind for text in texts) == KINDS
    assert [str(Workload.parse(text)) for text in texts] == texts
