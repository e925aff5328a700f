"""The linear program of RailS equation 24, its closed form, and what LPT makes of it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lightloom import _core
from lightloom.oracle.rails import between_domains, floor_bytes, of_domains, solve
from lightloom.rails.job import DEALS
from lightloom.rails.workloads import Workload, demand

Bytes = npt.NDArray[np.uint64]
CHUNK = 1 << 15
compiled = pytest.mark.skipif(
    not hasattr(_core, "rails_assign"), reason="the compiled core is an old one"
)


@st.composite
def demands(draw: st.DrawFn) -> tuple[Bytes, int]:
    domains, gpus = draw(st.integers(2, 5)), draw(st.integers(1, 4))
    count = domains * gpus
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    # Skewed over several powers of ten, with zeros.
    sizes = 10 ** rng.uniform(0, 8, (count, count)) * (rng.random((count, count)) < 0.6)
    return sizes.astype(np.uint64), gpus


@settings(max_examples=50)
@given(demands())
def test_the_closed_form_is_the_optimum(made: tuple[Bytes, int]) -> None:
    sizes, gpus = made
    flows = of_domains(sizes, gpus).astype(float)
    best = solve(sizes, gpus)
    closed = max(flows.sum(axis=0).max(), flows.sum(axis=1).max()) / gpus
    assert best.load_bytes == pytest.approx(closed, rel=1e-6)
    assert floor_bytes(sizes, gpus) == pytest.approx(closed, rel=1e-12)
    # The shares are shares, and give no NIC more.
    assert np.allclose(best.shares.sum(axis=2), 1, atol=1e-6) and best.shares.min() > -1e-9
    for axis in (0, 1):
        loads = (flows[:, :, None] * best.shares).sum(axis=axis)
        assert loads.max() <= closed * (1 + 1e-6)


@settings(max_examples=50)
@given(demands())
def test_more_choice_is_never_worse(made: tuple[Bytes, int]) -> None:
    sizes, gpus = made
    own, lanes, rails = (floor_bytes(sizes, gpus, ends) for ends in ("own", "lanes", "rails"))
    assert own >= lanes >= rails
    outer = between_domains(sizes, gpus)
    assert outer.sum() == of_domains(sizes, gpus).sum()
    # No choice of N rails gains more than N times over one.
    assert own <= gpus * rails * (1 + 1e-12)


def test_the_gain_of_a_sparse_demand_is_the_inverse_of_its_density() -> None:
    sizes = demand(Workload.parse("sparse:0.6"), 16, 8, 1 << 26)[0]
    gain = floor_bytes(sizes, 8, "own") / floor_bytes(sizes, 8, "rails")
    assert gain == pytest.approx(1 / (1 - 0.6), rel=0.03)


def assigned(sizes: Bytes, gpus: int, deal: str) -> tuple[Bytes, Bytes]:
    out = _core.rails_assign(np.ascontiguousarray(sizes), gpus, CHUNK, deal)
    sent, received = (np.frombuffer(data, "<u8").reshape(-1, gpus) for data in out)
    return sent, received


@compiled
@settings(max_examples=50)
@given(demands(), st.sampled_from(DEALS))
def test_lpt_is_within_a_chunk_of_the_optimum(made: tuple[Bytes, int], deal: str) -> None:
    sizes, gpus = made
    flows = of_domains(sizes, gpus)
    sent, received = assigned(sizes, gpus, deal)
    assert (sent.sum(axis=1) == flows.sum(axis=1)).all()
    assert (received.sum(axis=1) == flows.sum(axis=0)).all()
    if deal == "lpt":
        assert sent.max() <= solve(sizes, gpus).load_bytes * (1 + 1e-6) + CHUNK
        # Each domain by itself, too: it knows of no other.
        assert (sent.max(axis=1) <= flows.sum(axis=1) / gpus + CHUNK).all()


@compiled
@pytest.mark.parametrize("seed", range(1, 11))
def test_lpt_leaves_receivers_nearly_as_even_as_can_be(seed: int) -> None:
    """Each sender by itself; hundreds of messages below a chunk for each rail of a receiver."""
    sizes = demand(Workload.parse("sparse:0.6"), 128, 8, 4 << 20, seed=seed)[0]
    sent, received = assigned(sizes, 8, "lpt")
    for loads in (sent, received):
        # No plan of whole bytes gives the most loaded rail less.
        optimum = (loads.sum(axis=1) + 7) // 8
        assert (loads.max(axis=1) / optimum).max() <= 1.05


@compiled
@pytest.mark.parametrize("workload", ["uniform", "sparse:0.6", "receiver-skewed"])
def test_both_ends_even_out_what_one_end_leaves(workload: str) -> None:
    sizes = demand(Workload.parse(workload), 16, 8, 8 << 20)[0]
    mean = of_domains(sizes, 8).sum(axis=0)[:, None] / 8
    one = (assigned(sizes, 8, "lpt")[1] - mean).max() / CHUNK
    both = (assigned(sizes, 8, "both")[1] - mean).max() / CHUNK
    assert both <= one
