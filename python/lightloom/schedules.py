"""What a schedule cannot have: all-to-alls beside computation, and runs without a backward pass.

Part of `shapes.py`, and the same rules as the core's. Checked: one malformed specification a rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lightloom.model import Misfit

if TYPE_CHECKING:
    from lightloom.scenario import Scenario


def misfits(scenario: Scenario) -> Iterator[Misfit]:
    """Yield every rule that overlap and mode break."""
    training, split = scenario.training, scenario.parallelism
    trains = training.mode == "train"
    if not trains and training.schedule != "1f1b":
        yield (
            "training.schedule",
            f'orders forwards and backwards; allowed with mode "{training.mode}": "1f1b"',
        )
    if not trains and training.recompute in ("selective", "full"):
        yield (
            "training.recompute",
            f'there is no backward pass with mode "{training.mode}"; allowed: "none", "untimed"',
        )
    if training.mode == "decode" and split.cp != 1:
        yield "parallelism.cp", 'one token is not shared; allowed with mode "decode": 1'
    if training.overlap == "none":
        return
    beside = f'for overlap "{training.overlap}"'
    if not scenario.model.experts or split.ep == 1:
        yield (
            "training.overlap",
            "there are no all-to-alls with parallelism.ep = 1; allowed: "
            '"none", or a model with experts and an ep of at least 2',
        )
    if training.schedule == "zero-bubble":
        yield "training.schedule", f'allowed {beside}: "1f1b"'
    if training.recompute == "full":
        yield (
            "training.recompute",
            f'whole layers anew have no place {beside}; allowed: "none", "selective", "untimed"',
        )
    if training.overlap == "dualpipe":
        if not trains:
            yield (
                "training.overlap",
                f'needs backwards, which mode "{training.mode}" has not; allowed: "none", '
                '"two-batches"',
            )
        if training.schedule == "interleaved":
            yield "training.schedule", f'allowed {beside}: "1f1b"'
        if split.pp % 2:
            yield "parallelism.pp", f"must be even {beside}: stages work in mirrored pairs"
    least = 2 * split.pp if trains else 2
    if training.micro_batches < least:
        why = f"2 * pp = {least}" if trains else str(least)
        yield "training.micro_batches", f"must be at least {why} {beside}"
    elif training.overlap == "dualpipe" and training.micro_batches % 2:
        yield "training.micro_batches", f"must be even {beside}: half enter from either end"
