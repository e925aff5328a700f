"""Cases of what models are trained with: DDP, FSDP2, functional collectives with gradients."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.distributed.nn.functional as differentiable
from case import Outcome, Ranks, case
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel


def model() -> nn.Module:
    torch.manual_seed(7)
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))


def alone(ranks: Ranks, steps: int) -> list[torch.Tensor]:
    """The weights after steps on the data of all ranks in one process."""
    one = model()
    optimizer = torch.optim.SGD(one.parameters(), 0.1)
    for step in range(steps):
        losses = [one(it).square().mean() for it in ranks.all([5, 8], torch.float32, 300 + step)]
        optimizer.zero_grad()
        (sum(losses) / ranks.size).backward()
        optimizer.step()
    return [it.detach() for it in one.parameters()]


@case("DDP", "three steps", exact=False)
def _(ranks: Ranks) -> Outcome:
    one = DistributedDataParallel(model(), bucket_cap_mb=0.0005)
    optimizer = torch.optim.SGD(one.parameters(), 0.1)
    for step in range(3):
        optimizer.zero_grad()
        one(ranks.data([5, 8], torch.float32, 300 + step)).square().mean().backward()
        optimizer.step()
    return [it.detach().clone() for it in one.parameters()], alone(ranks, 3)


@case("FSDP2", "three steps", exact=False)
def _(ranks: Ranks) -> Outcome:
    one = model()
    mesh = init_device_mesh("cpu", (ranks.size,))
    for part in one:
        if isinstance(part, nn.Linear):
            fully_shard(part, mesh=mesh)
    fully_shard(one, mesh=mesh)
    optimizer = torch.optim.SGD(one.parameters(), 0.1)
    for step in range(3):
        optimizer.zero_grad()
        one(ranks.data([5, 8], torch.float32, 300 + step)).square().mean().backward()
        optimizer.step()
    return [it.full_tensor().detach().clone() for it in one.parameters()], alone(ranks, 3)


@case("functional collectives", "all-to-all with a gradient")
def _(ranks: Ranks) -> Outcome:
    sends = [ranks.rank + 1] * ranks.size
    receives = [rank + 1 for rank in range(ranks.size)]
    sent = ranks.data([sum(sends), 2], torch.float64, 320).requires_grad_()
    out = functional.all_to_all_single_autograd(sent, receives, sends, dist.group.WORLD)
    weights = torch.arange(out.numel(), dtype=torch.float64).view_as(out) + ranks.rank
    (out * weights).sum().backward()
    begin = sum(receives[: ranks.rank])
    right = []
    for target in range(ranks.size):
        rows = torch.arange(2 * sum(receives), dtype=torch.float64).view(-1, 2) + target
        right.append(rows[begin : begin + ranks.rank + 1])
    return [out.detach(), sent.grad], [out.detach(), torch.cat(right)]


@case("functional collectives", "all-gather and reduce-scatter with gradients", exact=False)
def _(ranks: Ranks) -> Outcome:
    sent = ranks.data([2, 3], torch.float64, 330).requires_grad_()
    every = functional.all_gather_single_autograd(sent, 0, dist.group.WORLD)
    own = functional.reduce_scatter_single_autograd(every * 2, "sum", 0, dist.group.WORLD)
    own.sum().backward()
    right = sent.detach() * 2 * ranks.size
    return [own.detach(), sent.grad], [right, torch.full_like(right, 2.0 * ranks.size)]


@case("functional collectives", "all-reduce, all-gather, waited for late")
def _(ranks: Ranks) -> Outcome:
    mine = ranks.data(6, torch.int64, 340)
    total = functional.all_reduce(mine, "sum", dist.group.WORLD)
    every = functional.all_gather_single(mine, 0, dist.group.WORLD)
    got = [functional.wait_tensor(it) for it in (every, total)]
    all_ = ranks.all(6, torch.int64, 340)
    return [it.clone() for it in got], [torch.cat(all_), torch.stack(all_).sum(0)]


@case("torch.distributed.nn", "all-reduce with a gradient", exact=False)
def _(ranks: Ranks) -> Outcome:
    mine = ranks.data(3, torch.float64, 350).requires_grad_()
    differentiable.all_reduce(mine).square().sum().backward()
    total = torch.stack(ranks.all(3, torch.float64, 350)).sum(0)
    return [mine.grad], [2 * total * ranks.size]
