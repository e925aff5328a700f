"""A mixture of experts whose experts are shared out among ranks.

Modelled: softmax gate, top-k, chosen weights renormalised, nothing dropped; tokens go to the ranks
of their experts by an all-to-all and come back by another one, in the backward pass, too. Ignored:
capacity, several experts' groups. Checked: losses against the same model on gloo, and against one
process (``tests/pytorch/test_train.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional

from lightloom.runtime.pytorch.phases import Phases

# Told after each gate: how many tokens this rank sends to each rank and receives from it, and the
# bytes of a token.
Monitor = Callable[[Sequence[int], Sequence[int], int], None]


class ExpertParallel(nn.Module):  # type: ignore[misc, unused-ignore]
    """The mixture of a layer: every rank has the gate, and its share of the experts.

    Parameters
    ----------
    hidden, intermediate, experts, top_k
        As in `lightloom.trace.tiny_moe.Mixture`; the weights are those that it draws.
    phases
        Counts the time of experts and all-to-alls.
    monitor
        Told after each gate.
    """

    def __init__(
        self, hidden: int, intermediate: int, experts: int, top_k: int, phases: Phases,
        monitor: Monitor,
    ) -> None:  # fmt: skip
        super().__init__()
        self.experts, self.top_k = experts, top_k
        self.norm = nn.RMSNorm(hidden)
        self.gate = nn.Linear(hidden, experts, bias=False)
        up = torch.randn(experts, hidden, intermediate) * hidden**-0.5
        down = torch.randn(experts, intermediate, hidden) * intermediate**-0.5
        rank, size = dist.get_rank(), dist.get_world_size()
        own = slice(rank * experts // size, (rank + 1) * experts // size)
        self.up, self.down = nn.Parameter(up[own].clone()), nn.Parameter(down[own].clone())
        self._phases, self._monitor = phases, monitor

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the residual of x [token, hidden], the balance loss, the choice [token, k]."""
        x = self.norm(x)
        shares = self.gate(x).softmax(dim=-1)
        weights, chosen = shares.topk(self.top_k, dim=-1)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        assigned = torch.bincount(chosen.flatten(), minlength=self.experts)
        fraction = assigned.to(x.dtype) / chosen.numel()
        balance = self.experts * (fraction * shares.mean(dim=0)).sum()
        order = chosen.flatten().argsort(stable=True)
        token = order // self.top_k
        outputs = self._at_experts(x.index_select(0, token), assigned)
        weighted = outputs * weights.flatten().index_select(0, order).unsqueeze(1)
        return torch.zeros_like(x).index_add(0, token, weighted), balance, chosen

    def _at_experts(self, x: Tensor, assigned: Tensor) -> Tensor:
        """Return what experts make of tokens [token, hidden] that are sorted by expert."""
        size = dist.get_world_size()
        sends = assigned.view(size, -1)  # [rank, its expert]
        receives = torch.empty_like(sends)
        with self._phases.timed("all_to_all"):
            dist.all_to_all_single(receives, sends)
        goes, comes = sends.sum(1).tolist(), receives.sum(1).tolist()
        self._monitor(goes, comes, x.size(1) * x.element_size())
        came = Exchange.apply(x, comes, goes, self._phases)
        with self._phases.timed("experts"):
            # What came is sorted by rank, then expert; experts want it by expert.
            expert = torch.arange(sends.size(1)).repeat(size).repeat_interleave(receives.flatten())
            order = expert.argsort(stable=True)
            parts = came.index_select(0, order).split(receives.sum(0).tolist())
            made = [
                functional.gelu(part @ up) @ down
                for part, up, down in zip(
                    parts, self.up.unbind(0), self.down.unbind(0), strict=True
                )
            ]
            back = torch.cat(made).index_select(0, order.argsort())
        return Exchange.apply(back, goes, comes, self._phases)


class Exchange(torch.autograd.Function):  # type: ignore[misc, unused-ignore]
    """An all-to-all of rows; its gradient is the all-to-all the other way."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, comes: list[int], goes: list[int], phases: Phases
    ) -> Tensor:  # fmt: skip
        """Return what comes, of x [row, hidden]."""
        ctx.rows, ctx.phases = (comes, goes), phases
        return _exchange(x, comes, goes, phases)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        """Return the gradient of x."""
        comes, goes = ctx.rows
        return _exchange(gradient, goes, comes, ctx.phases), None, None, None


def _exchange(x: Tensor, comes: list[int], goes: list[int], phases: Phases) -> Tensor:
    out = x.new_empty(sum(comes), x.size(1))
    with phases.timed("all_to_all"):
        dist.all_to_all_single(out, x.contiguous(), comes, goes)
    return out
