"""Recording: the text, the shards, and, where PyTorch is installed, a real training."""

from __future__ import annotations

import hashlib
from importlib import resources
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lightloom.errors import InputError, RunError
from lightloom.trace.corpus import reference, standard_library, text_at, tokenize
from lightloom.trace.record import Batches, Recording, record

needs_torch = pytest.mark.skipif(
    find_spec("torch") is None, reason="needs PyTorch: pip install 'torch>=2.4'"
)
# SHA-256 of the text that ships with Lightloom.
REFERENCE = "719a6a04d07b00f69d258dd2c5d9a645b1c1342ef87f7850d039213b0afedb69"
TINY = Recording(
    experts=4,
    top_k=2,
    sources=3,
    layers=2,
    iterations=3,
    warmup=2,
    sequences=2,
    context=16,
    hidden=16,
    heads=2,
    intermediate=8,
    vocabulary=300,
)


@given(st.binary(max_size=300), st.integers(256, 300))
def test_tokens_spell_the_text(text, vocabulary):
    corpus = tokenize(text, "any", vocabulary)
    assert b"".join(corpus.words[i] for i in corpus.tokens) == text
    assert len(corpus.words) == len(set(corpus.words)) <= vocabulary


def test_the_standard_library_is_text_and_names_no_place():
    text, description = standard_library()
    assert len(text) > 1_000_000
    assert "/" not in description
    assert standard_library() == (text, description)


def test_the_text_that_ships_is_the_same_for_all_and_has_its_licence():
    text, description = reference()
    assert hashlib.sha256(text).hexdigest() == REFERENCE
    assert "/" not in description
    licence = resources.files("lightloom.trace") / "text" / "LICENSE.python"
    assert "PYTHON SOFTWARE FOUNDATION LICENSE" in licence.read_text()


def test_text_of_a_directory_goes_by_name(tmp_path):
    (tmp_path / "b.txt").write_bytes(b"two")
    (tmp_path / "a.txt").write_bytes(b"one")
    assert text_at(tmp_path) == (b"one\ntwo", f"{tmp_path.name}, 2 files")
    with pytest.raises(InputError, match="no such file or directory"):
        text_at(tmp_path / "none")


def test_each_source_has_a_shard_that_no_other_reads():
    corpus = tokenize(bytes(range(256)) * 40, "bytes", 256)
    recording = Recording(sources=3, sequences=2, context=15, experts=4)
    batches = Batches(corpus, recording)
    share = len(corpus.tokens) // 16 // 3
    rows = corpus.tokens.reshape(-1, 16)
    seen: list[list[bytes]] = [[], [], []]
    for step in range(share // 2):
        batch = batches.at(step)
        assert batch.shape == (6, 16)
        for row, ids in enumerate(batch):
            seen[row // 2].append(ids.tobytes())
    # Each of the 16 different rows of this text is there 40 times: count them over all shards.
    assert sum(len(shard) for shard in seen) == 3 * 2 * (share // 2)
    assert {row.tobytes() for row in rows} >= set().union(*seen)
    for row in {row.tobytes() for row in rows}:
        assert sum(shard.count(row) for shard in seen) <= 40
    assert np.array_equal(batches.at(share), batches.at(0)), "a shard is read again from its start"


def test_too_little_text():
    with pytest.raises(InputError, match="one step of 8 sources x 8 sequences needs 8256"):
        Batches(tokenize(b"few words", "a note", 256), Recording())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"experts": 0}, "--experts 0: must be 1 to"),
        ({"warmup": -1}, "--warmup -1: must be 0 to"),
        ({"top_k": 9}, "--top-k 9: must be at most --experts 8"),
        ({"context": 1}, "--context 1: must be 2 to"),
        ({"hidden": 66}, "--hidden 66: must be a multiple of twice --heads 2"),
        ({"vocabulary": 255}, "--vocabulary 255: must be 256 to"),
        ({"learning_rate": 0.0}, "--learning-rate 0.0: must be more than 0"),
        ({"learning_rate": float("nan")}, "--learning-rate nan"),
        ({"balance": float("nan")}, "--balance nan"),
        ({"experts": 1 << 20, "hidden": 1024}, "choose smaller --experts"),
    ],
)
def test_what_cannot_be_trained(changes, message):
    with pytest.raises(InputError) as caught:
        Recording(**changes)
    assert message in str(caught.value)


def test_without_torch_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(InputError, match=r"pip install 'torch>=2.15,<2.16'"):
        record(TINY)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "story.txt"
    words = np.random.default_rng(1).choice(["weave ", "light ", "a ", "loom\n"], size=4000)
    path.write_text("".join(words))
    return path


@needs_torch
def test_a_recording_counts_every_token_k_times(text):
    steps: list[tuple[int, float]] = []
    trace = record(TINY, text, lambda step, loss: steps.append((step, loss)))
    assert trace.counts.shape == (3, 2, 3, 4)
    assert (trace.counts.sum(axis=3) == 2 * 16 * 2).all()
    assert trace.counts.max() <= 2 * 16
    assert [step for step, _ in steps] == [1, 2, 3, 4, 5]
    assert trace.meta["origin"] == "recorded"
    assert trace.meta["command"] == TINY.command()
    assert "note" not in trace.meta


@needs_torch
def test_same_seed_same_trace_and_the_process_keeps_its_settings(text):
    import torch

    torch.manual_seed(7)
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    one, two = record(TINY, text), record(TINY, text)
    assert np.array_equal(one.counts, two.counts)
    assert dict(one.meta) == dict(two.meta)
    other = record(Recording(**{**vars(TINY), "seed": 2}), text)
    assert not np.array_equal(one.counts, other.counts)
    assert torch.equal(state, torch.get_rng_state())
    assert torch.get_num_threads() == threads
    assert not torch.are_deterministic_algorithms_enabled()


@needs_torch
def test_training_learns(text):
    losses: list[float] = []
    longer = Recording(**{**vars(TINY), "iterations": 60, "learning_rate": 0.01})
    record(longer, text, lambda _, loss: losses.append(loss))
    # Four words at random: log(4) = 1.39 nats a word is the least; log(300) = 5.7 at the start.
    assert losses[-1] < 2.5 < 5 < losses[0]


@needs_torch
def test_an_interrupt_keeps_what_was_recorded(text):
    def interrupt_after(last):
        def progress(step, loss):
            if step == last:
                raise KeyboardInterrupt

        return progress

    trace = record(TINY, text, interrupt_after(4))
    assert trace.iterations == 2
    assert trace.meta["note"] == "interrupted after 2 of 3 iterations"
    assert np.array_equal(trace.counts, record(TINY, text).counts[:2])
    with pytest.raises(RunError, match="nothing to save"):
        record(TINY, text, interrupt_after(2))


@needs_torch
def test_the_mixture_is_the_weighted_sum_of_the_chosen_experts():
    import torch
    from lightloom.trace.tiny_moe import Mixture
    from torch.nn import functional

    torch.manual_seed(3)
    mixture = Mixture(hidden=8, intermediate=6, experts=5, top_k=2)
    x = torch.randn(11, 8)
    y, balance, chosen = mixture(x)
    normed = mixture.norm(x)
    shares = mixture.gate(normed).softmax(dim=-1)
    for token in range(11):
        best = sorted(range(5), key=lambda e: -shares[token, e].item())[:2]
        assert sorted(chosen[token].tolist()) == sorted(best)
        weight = sum(shares[token, e] for e in best)
        expected = sum(
            shares[token, e]
            / weight
            * (functional.gelu(normed[token] @ mixture.up[e]) @ mixture.down[e])
            for e in best
        )
        assert torch.allclose(y[token], expected, atol=1e-5)
    fraction = [float((chosen == e).sum()) / 22 for e in range(5)]
    expected = 5 * sum(f * p.item() for f, p in zip(fraction, shares.mean(dim=0), strict=True))
    assert balance.item() == pytest.approx(expected, rel=1e-5)
