"""What a training's losses are right against: one process that has all experts and all data."""

from __future__ import annotations

from pathlib import Path

import torch
from lightloom.trace.corpus import text_at, tokenize
from lightloom.trace.record import Batches, Recording
from lightloom.trace.tiny_moe import TinyMoe

TEXT = Path(__file__).parents[2] / "docs" / "validation.md"
# Sums in another order, in float32, through a few steps [nats a token].
ALIKE = 1e-3


def alone(ranks: int, steps: int, experts: int = 8) -> list[float]:
    """Return the losses of one process that has all experts and the data of all ranks."""
    settings = Recording(
        experts=experts, sources=ranks, iterations=steps, layers=2, sequences=4, intermediate=128
    )
    torch.manual_seed(settings.seed)
    model = TinyMoe(settings)
    optimizer = torch.optim.Adam(model.parameters(), lr=settings.learning_rate)
    batches = Batches(tokenize(*text_at(TEXT), settings.vocabulary), settings)
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        mean = torch.zeros(())
        for own in torch.from_numpy(batches.at(step)).chunk(ranks):
            nats, balance, _ = model(own)
            ((nats + settings.balance * balance) / ranks).backward()
            mean += nats.detach() / ranks
        optimizer.step()
        losses.append(float(mean))
    return losses
