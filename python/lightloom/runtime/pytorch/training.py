"""Trains a small MoE transformer: data parallel, and expert parallel over all ranks.

Modelled: the model, the text and the balance loss of `lightloom.trace.record`, each rank with its
own shard of the text; gradients of all but the experts are averaged by one all-reduce. Ignored:
pipelines, tensor parallelism, mixed precision. Checked: the losses on lightloom, on gloo and of one
process are the same (``tests/pytorch/test_train.py``).
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import torch
import torch.distributed as dist

from lightloom.errors import InputError, RunError
from lightloom.runtime.pytorch import session
from lightloom.runtime.pytorch.mixture import ExpertParallel
from lightloom.runtime.pytorch.monitor import GateMonitor
from lightloom.runtime.pytorch.phases import Phases
from lightloom.trace.corpus import Corpus
from lightloom.trace.record import Batches, Recording
from lightloom.trace.tiny_moe import TinyMoe


def train(
    settings: Recording, corpus: Corpus, announces: bool, *, blocks: bool = False
) -> dict[str, Any]:
    """Train in this process group, of which every rank calls this.

    Parameters
    ----------
    settings
        The model and the data; its sources are the ranks.
    corpus
        The text.
    announces
        Whether gates' counts are announced to the agents.
    blocks
        Whether what a gate has decided waits for its circuits.

    Returns
    -------
    dict
        ``losses``: by step, the mean over ranks [nats a token]; ``seconds``: of this rank by phase;
        ``wall_s``: of all steps; ``rounds``, ``decided``, ``circuits``: of `GateMonitor`.

    Raises
    ------
    InputError
        If the experts cannot be divided among the ranks.
    RunError
        If the training diverges.
    """
    size, rank = dist.get_world_size(), dist.get_rank()
    if settings.experts % size:
        raise InputError(f"--experts {settings.experts}: must be a multiple of the {size} ranks")
    torch.manual_seed(settings.seed)
    phases, monitor = Phases(), GateMonitor(session.rank() if announces else None, waits=blocks)
    model = TinyMoe(settings, partial(ExpertParallel, phases=phases, monitor=monitor))
    experts = {id(it) for layer in model.mixture for it in (layer.up, layer.down)}
    optimizer = torch.optim.Adam(model.parameters(), lr=settings.learning_rate)
    batches, losses = Batches(corpus, settings), []
    dist.barrier()
    begun = time.perf_counter()
    for step in range(settings.iterations):
        own = batches.at(step).reshape(size, settings.sequences, -1)[rank]
        with phases.timed("forward"):
            nats, balance, _ = model(torch.from_numpy(own))
        optimizer.zero_grad()
        with phases.timed("backward"):
            (nats + settings.balance * balance).backward()
        with phases.timed("all_reduce"):
            loss = _averaged(model, experts, nats.detach(), size)
        with phases.timed("optimizer"):
            optimizer.step()
        if not torch.isfinite(torch.tensor(loss)):
            raise RunError(f"training diverged at step {step}: choose a smaller --learning-rate")
        losses.append(loss)
    monitor.end()
    return {
        "losses": losses, "seconds": phases.seconds, "wall_s": time.perf_counter() - begun,
        "rounds": monitor.rounds, "decided": monitor.decided, "circuits": monitor.circuits,
    }  # fmt: skip


def _averaged(model: TinyMoe, experts: set[int], nats: torch.Tensor, size: int) -> float:
    """Average gradients, and the loss, over ranks; experts have all ranks' gradients already."""
    shared = [it.grad for it in model.parameters() if id(it) not in experts and it.grad is not None]
    row = torch.cat([*(it.flatten() for it in shared), nats.view(1)])
    dist.all_reduce(row)
    row /= size
    for grad, part in zip(shared, row[:-1].split([it.numel() for it in shared]), strict=True):
        grad.copy_(part.view_as(grad))
    for it in model.parameters():
        if id(it) in experts and it.grad is not None:
            it.grad /= size
    return float(row[-1])
