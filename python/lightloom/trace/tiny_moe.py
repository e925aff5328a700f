"""The small mixture-of-experts transformer whose gates are recorded. Needs PyTorch.

Modelled: token embedding, per layer causal attention with rotary positions and a top-k mixture of
two-matrix experts, both pre-normalised and residual, tied output head. Ignored: shared experts,
dropout, capacity. Checked: the mixture against a loop over tokens (``tests/test_trace_record.py``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable

    from lightloom.trace.record import Recording


class TinyMoe(nn.Module):  # type: ignore[misc, unused-ignore]
    """A causal language model of `recording.layers` MoE layers.

    Parameters
    ----------
    recording
        Its shape.
    mixture
        What makes the mixture of a layer, of hidden, intermediate, experts and k.
    """

    def __init__(
        self, recording: Recording, mixture: Callable[[int, int, int, int], nn.Module] | None = None
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(recording.vocabulary, recording.hidden)
        nn.init.normal_(self.embedding.weight, std=recording.hidden**-0.5)
        self.attention = nn.ModuleList(
            Attention(recording.hidden, recording.heads) for _ in range(recording.layers)
        )
        self.mixture = nn.ModuleList(
            (mixture or Mixture)(
                recording.hidden, recording.intermediate, recording.experts, recording.top_k
            )
            for _ in range(recording.layers)
        )
        self.norm = nn.RMSNorm(recording.hidden)

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Predict each next token.

        Parameters
        ----------
        ids
            Token ids, int64 [sequence, context + 1].

        Returns
        -------
        tuple
            Cross entropy in nats per token; the balance loss, summed over layers (1 a layer when
            perfectly even); the chosen experts of each layer, int64 [sequence x context, k].
        """
        x = self.embedding(ids[:, :-1])
        balance = x.new_zeros(())
        choices = []
        for attention, mixture in zip(self.attention, self.mixture, strict=True):
            x = x + attention(x)
            y, loss, chosen = mixture(x.flatten(0, 1))
            x = x + y.view_as(x)
            balance = balance + loss
            choices.append(chosen)
        logits = functional.linear(self.norm(x), self.embedding.weight)
        nats = functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        return nats, balance, choices


class Attention(nn.Module):  # type: ignore[misc, unused-ignore]
    """Causal self-attention with rotary positions."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.RMSNorm(hidden)
        self.qkv = nn.Linear(hidden, 3 * hidden, bias=False)
        self.out = nn.Linear(hidden, hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the residual of x, float [sequence, context, hidden]."""
        rows, context, hidden = x.shape
        qkv = self.qkv(self.norm(x)).view(rows, context, 3, self.heads, hidden // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        q, k = _rotate(q), _rotate(k)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        y = self.out(y.transpose(1, 2).reshape(rows, context, hidden))
        return y


class Mixture(nn.Module):  # type: ignore[misc, unused-ignore]
    """Top-k mixture of experts: softmax gate, chosen weights renormalised, nothing dropped."""

    def __init__(self, hidden: int, intermediate: int, experts: int, top_k: int) -> None:
        super().__init__()
        self.experts, self.top_k = experts, top_k
        self.norm = nn.RMSNorm(hidden)
        self.gate = nn.Linear(hidden, experts, bias=False)
        self.up = nn.Parameter(torch.randn(experts, hidden, intermediate) * hidden**-0.5)
        self.down = nn.Parameter(torch.randn(experts, intermediate, hidden) * intermediate**-0.5)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the residual of x [token, hidden], the balance loss, the choice [token, k]."""
        x = self.norm(x)
        shares = self.gate(x).softmax(dim=-1)
        weights, chosen = shares.topk(self.top_k, dim=-1)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        assigned = torch.bincount(chosen.flatten(), minlength=self.experts)
        # Switch Transformers, equation 4: experts x sum of (share of assignments x mean gate).
        fraction = assigned.to(x.dtype) / chosen.numel()
        balance = self.experts * (fraction * shares.mean(dim=0)).sum()
        # Assignments sorted by expert: each expert multiplies one contiguous slice.
        order = chosen.flatten().argsort(stable=True)
        token = order // self.top_k
        slices = x.index_select(0, token).split(assigned.tolist())
        outputs = [
            functional.gelu(part @ up) @ down
            for part, up, down in zip(slices, self.up.unbind(0), self.down.unbind(0), strict=True)
        ]
        weighted = torch.cat(outputs) * weights.flatten().index_select(0, order).unsqueeze(1)
        return torch.zeros_like(x).index_add(0, token, weighted), balance, chosen


def _rotate(x: Tensor) -> Tensor:
    """Turn pairs of channels by an angle that grows with the position; x is [..., context, dim]."""
    context, half = x.shape[-2], x.shape[-1] // 2
    rates = 10_000.0 ** (-torch.arange(half, dtype=x.dtype, device=x.device) / half)
    angle = torch.arange(context, dtype=x.dtype, device=x.device).unsqueeze(1) * rates
    a, b = x.split(half, dim=-1)
    cos, sin = angle.cos(), angle.sin()
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)
