"""Trains a small MoE transformer: data parallel, and expert parallel over all ranks.

Modelled: the model, the text and the balance loss of `lightloom.trace.record`, each rank with its
own shard of the text; gradients of all but the experts are averaged by one all-reduce. Ignored:
pipelines, tensor parallelism, mixed precision. Checked: the losses on lightloom, on gloo and of one
process are the same (``tests/pytorch/test_train.py``), and so are those of a training that was
killed and went on from its checkpoint (``tests/pytorch/test_train_checkpoint.py``).
"""

from __future__ import annotations

import time
from functools import partial
from itertools import pairwise
from typing import Any

import torch
import torch.distributed as dist

from lightloom.errors import InputError, RunError
from lightloom.runtime.checkpoints import Checkpoints
from lightloom.runtime.pytorch import session
from lightloom.runtime.pytorch.mixture import ExpertParallel
from lightloom.runtime.pytorch.monitor import GateMonitor
from lightloom.runtime.pytorch.phases import Phases
from lightloom.runtime.pytorch.saved import Saved
from lightloom.runtime.timeline import Spans
from lightloom.trace.corpus import Corpus
from lightloom.trace.gating_trace import Counts
from lightloom.trace.record import Batches, Recording
from lightloom.trace.tiny_moe import TinyMoe


def train(
    settings: Recording,
    corpus: Corpus,
    announces: bool,
    checkpoints: Checkpoints | None = None,
    every: int = 1,
    records: bool = False,
    blocks: bool = False,
    spans: bool = False,
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
    checkpoints
        Where they are written, and where the training goes on from if there is one.
    every
        After how many steps one is written; another one after the last.
    records
        Whether rank 0 is given what all gates have decided.
    blocks
        Whether what a gate has decided waits for its circuits.
    spans
        Whether rank 0 is given when each rank did what.

    Returns
    -------
    dict
        ``losses``: by step from the first, the mean over ranks [nats a token]; ``from_step``: how
        many steps a checkpoint had done, and ``restore_s``: how long it took until all ranks had
        read it, none without one; of this rank and the steps since: ``step_s``: by step,
        ``seconds``: by phase, ``wall_s``: of all; ``rounds``, ``decided``, ``circuits``,
        ``waited_s``: of `GateMonitor`. If asked for, at rank 0, ``counts``: tokens, int64
        [step, layer, source rank, expert], and ``spans``: by rank, `Phases.spans`, from where the
        training began.

    Raises
    ------
    InputError
        If the experts cannot be divided among the ranks, or the checkpoint cannot be read or is of
        other settings or of more steps.
    RunError
        If the training diverges.
    """
    size, rank = dist.get_world_size(), dist.get_rank()
    if settings.experts % size:
        raise InputError(f"--experts {settings.experts}: must be a multiple of the {size} ranks")
    torch.manual_seed(settings.seed)
    phases, monitor = (
        Phases(spans),
        GateMonitor(session.rank() if announces else None, waits=blocks),
    )
    model = TinyMoe(settings, partial(ExpertParallel, phases=phases, monitor=monitor))
    experts = {id(it) for layer in model.mixture for it in (layer.up, layer.down)}
    optimizer = torch.optim.Adam(model.parameters(), lr=settings.learning_rate)
    batches = Batches(corpus, settings)
    saved = None if checkpoints is None else Saved(checkpoints, model, optimizer, experts)
    dist.barrier()
    begun = time.perf_counter()
    losses: list[float] = []
    counts: list[torch.Tensor] = []  # by step, [layer, expert]
    done = None if checkpoints is None else checkpoints.latest()
    if saved is not None and done is not None:
        losses, counts = saved.restore(done)
    dist.barrier()
    restore_s = None if done is None else time.perf_counter() - begun
    begun = time.perf_counter()
    times = [begun]
    for step in range(done or 0, settings.iterations):
        own = batches.at(step).reshape(size, settings.sequences, -1)[rank]
        with phases.timed("forward"):
            nats, balance, chosen = model(torch.from_numpy(own))
        counts.append(
            torch.stack([it.flatten().bincount(minlength=settings.experts) for it in chosen])
        )
        optimizer.zero_grad()
        with phases.timed("backward"):
            (nats + settings.balance * balance).backward()
        with phases.timed("all_reduce"):
            loss, late = _averaged(model, experts, nats.detach(), monitor.late, size)
        monitor.over(late)
        with phases.timed("optimizer"):
            optimizer.step()
        if not torch.isfinite(torch.tensor(loss)):
            raise RunError(f"training diverged at step {step}: choose a smaller --learning-rate")
        losses.append(loss)
        if saved is not None and ((step + 1) % every == 0 or step + 1 == settings.iterations):
            with phases.timed("checkpoint"):
                saved.save(step + 1, losses, counts)
        times.append(time.perf_counter())
    monitor.end()
    wall_s = time.perf_counter() - begun
    return {
        "losses": losses, "from_step": done or 0, "restore_s": restore_s,
        "step_s": [after - before for before, after in pairwise(times)],
        "seconds": phases.seconds, "wall_s": wall_s,
        "rounds": monitor.rounds, "decided": monitor.decided, "circuits": monitor.circuits,
        "waited_s": monitor.waited_s,
        **({"counts": _gathered(torch.stack(counts))} if records else {}),
        **({"spans": _timeline(phases, begun)} if spans else {}),
    }  # fmt: skip


def _timeline(phases: Phases, begun: float) -> list[Spans] | None:
    """Return when each rank did what; at rank 0 alone."""
    own = [(name, at - begun, took) for name, at, took in phases.spans]
    rows: list[Spans] | None = None if dist.get_rank() else [()] * dist.get_world_size()
    dist.gather_object(own, rows)
    return rows


def _gathered(counts: torch.Tensor) -> Counts | None:
    """Return what all ranks have, [step, layer, source rank, expert]; at rank 0 alone."""
    if dist.get_rank():
        dist.gather(counts)
        return None
    all_ = [torch.empty_like(counts) for _ in range(dist.get_world_size())]
    dist.gather(counts, all_)
    found: Counts = torch.stack(all_, 2).numpy()
    return found


def _averaged(
    model: TinyMoe, experts: set[int], nats: torch.Tensor, late: int, size: int
) -> tuple[float, bool]:
    """Average gradients, and the loss, over ranks; experts have all ranks' gradients already.

    Return the loss, and whether an answer was late at some rank.
    """
    shared = [it.grad for it in model.parameters() if id(it) not in experts and it.grad is not None]
    row = torch.cat([*(it.flatten() for it in shared), nats.view(1), nats.new_full((1,), late)])
    dist.all_reduce(row)
    row /= size
    for grad, part in zip(shared, row[:-2].split([it.numel() for it in shared]), strict=True):
        grad.copy_(part.view_as(grad))
    for it in model.parameters():
        if id(it) in experts and it.grad is not None:
            it.grad /= size
    return float(row[-2]), bool(row[-1])
