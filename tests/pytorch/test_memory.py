"""What memory holds, component by component, beside what PyTorch keeps of a small model.

A mixture of experts of two layers runs forward on the CPU, and every tensor that PyTorch saves for
the backward pass is counted once, by the component that saves it. Norms and SwiGLU, which PyTorch
computes in steps on a CPU, are functions that save what fused kernels do; all else is PyTorch's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import torch.nn.functional as functional
from lightloom import Scenario, memory
from torch import Tensor, nn

HIDDEN, HEADS, HEAD, EXPERTS, TOP, WIDTH, LAYERS = 64, 4, 32, 4, 2, 48, 2
SEQUENCES, LENGTH, WORDS = 2, 64, 1024
TOKENS = SEQUENCES * LENGTH


class Kept:
    """Bytes of tensors that are saved for the backward pass, by component, each storage once."""

    def __init__(self, parameters: list[Tensor]) -> None:
        self.bytes: Counter[str] = Counter()
        self.now = ""
        # What a storage belongs to, whoever saves it; parameters are weights.
        self.owner = {parameter.untyped_storage().data_ptr(): "" for parameter in parameters}
        self.seen: list[Tensor] = []

    def pack(self, tensor: Tensor) -> Tensor:
        at = tensor.untyped_storage().data_ptr()
        if at not in self.owner or self.owner[at].startswith("+"):
            component = self.owner.get(at, "").removeprefix("+") or self.now
            self.owner[at] = ""
            self.bytes[component] += tensor.untyped_storage().nbytes()
            self.seen.append(tensor)  # so that its place is not given to another
        return tensor

    def belongs(self, tensor: Tensor, component: str) -> Tensor:
        self.owner[tensor.untyped_storage().data_ptr()] = f"+{component}"
        self.seen.append(tensor)
        return tensor

    @contextmanager
    def of(self, component: str) -> Iterator[None]:
        before, self.now = self.now, component
        yield
        self.now = before


class Norm(torch.autograd.Function):
    """An RMS norm that saves its input."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> Any:
        raise NotImplementedError


class SwiGLU(torch.autograd.Function):
    """Gate times up times a weight a token, which saves both and the weight."""

    @staticmethod
    def forward(ctx: Any, both: Tensor, share: Tensor) -> Tensor:
        ctx.save_for_backward(both, share)
        gate, up = both.chunk(2, -1)
        return functional.silu(gate) * up * share

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> Any:
        raise NotImplementedError


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ParameterList(nn.Parameter(torch.ones(HIDDEN)) for _ in range(2))
        wide = HEADS * HEAD
        self.queries, self.keys, self.values = (
            nn.Linear(HIDDEN, wide, bias=False) for _ in range(3)
        )
        self.out = nn.Linear(wide, HIDDEN, bias=False)
        self.router = nn.Linear(HIDDEN, EXPERTS, bias=False)
        self.up = nn.ParameterList(
            nn.Parameter(0.1 * torch.randn(HIDDEN, 2 * WIDTH)) for _ in range(EXPERTS)
        )
        self.down = nn.ParameterList(
            nn.Parameter(0.1 * torch.randn(WIDTH, HIDDEN)) for _ in range(EXPERTS)
        )

    def forward(self, x: Tensor, kept: Kept) -> Tensor:
        with kept.of("norms"):
            y = kept.belongs(Norm.apply(x, self.norms[0]), "norms")
        with kept.of("attention"):
            queries, keys, values = (
                each(y).view(SEQUENCES, LENGTH, HEADS, HEAD).transpose(1, 2)
                for each in (self.queries, self.keys, self.values)
            )
            seen = functional.scaled_dot_product_attention(queries, keys, values, is_causal=True)
            x = x + self.out(seen.transpose(1, 2).reshape(TOKENS, HEADS * HEAD))
        with kept.of("norms"):
            y = kept.belongs(Norm.apply(x, self.norms[1]), "norms")
        with kept.of("router"):
            shares, chosen = self.router(y).softmax(-1).topk(TOP, -1)
        total = torch.zeros_like(x)
        for expert in range(EXPERTS):
            with kept.of("indices"):
                token, place = (chosen == expert).nonzero(as_tuple=True)
                share = shares[token, place, None]
                mine = y[token]
            with kept.of("experts"):
                both = mine @ self.up[expert]
                returned = SwiGLU.apply(both, kept.belongs(share, "indices")) @ self.down[expert]
            with kept.of("indices"):
                total = total.index_add(0, token, returned)
        return x + total


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, HIDDEN)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.Parameter(torch.ones(HIDDEN))
        self.head = nn.Linear(HIDDEN, WORDS, bias=False)

    def forward(self, words: Tensor, kept: Kept) -> Tensor:
        with kept.of("indices"):
            x = self.words(words)
        for layer in self.layers:
            x = layer(x, kept)
        with kept.of("head"):
            y = Norm.apply(x, self.norm)
            return functional.cross_entropy(self.head(y), words)


@pytest.fixture(scope="module")
def counted() -> dict[str, int]:
    """What the formulas say of the same model in fp32, with the loss's one saved copy of logits."""
    job = Scenario.preset("mixtral-8x7b", **{
        "model.layers": LAYERS, "model.hidden": HIDDEN, "model.vocabulary": WORDS,
        "model.attention": {"kind": "gqa", "heads": HEADS, "kv_heads": HEADS, "head_dim": HEAD},
        "model.experts": EXPERTS, "model.top_k": TOP, "model.expert_intermediate": WIDTH,
        "parallelism.tp": 1, "parallelism.ep": 1, "parallelism.pp": 1,
        "training.micro_batch": SEQUENCES, "training.sequence_length": LENGTH,
        "training.micro_batches": 1, "training.activation_bytes": 4, "training.recompute": "none",
        "memory.optimizer_bytes": 8, "memory.logits_bytes": 4, "memory.shard": "none",
        "cluster.gpus": 1, "cluster.gpus_per_server": 1, "cluster.nics_per_server": 1,
        "cluster.numa_nodes": 1,
    })  # fmt: skip
    return dict(memory.held(job).fullest.parts)


def test_saved_tensors_are_those_that_are_counted(counted: dict[str, int]) -> None:
    torch.manual_seed(1)
    model = Small()
    kept = Kept(list(model.parameters()))
    with torch.autograd.graph.saved_tensors_hooks(kept.pack, lambda tensor: tensor):
        model(torch.randint(WORDS, (TOKENS,)), kept)
    # Of what is not counted, indices and shares of tokens, there is little.
    assert kept.bytes["indices"] < 0.1 * sum(kept.bytes.values())
    for component in ("norms", "attention", "experts", "head"):
        assert kept.bytes[component] == pytest.approx(counted[component], rel=0.02), component
    # Probabilities, and with them which of them were chosen.
    assert counted["router"] <= kept.bytes["router"] < 6 * counted["router"]


def test_states_are_those_of_adam(counted: dict[str, int]) -> None:
    model = Small()
    own = sum(parameter.nbytes for parameter in model.parameters())
    assert counted["weights"] == own
    adam = torch.optim.Adam(model.parameters())
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    adam.step()
    gradients = [parameter.grad for parameter in model.parameters()]
    assert counted["gradients"] == sum(each.nbytes for each in gradients if each is not None)
    moments = [
        each for state in adam.state.values() for name, each in state.items() if name != "step"
    ]
    assert counted["optimizer"] == sum(each.nbytes for each in moments)
