"""Writes and reads what a rank's training needs to go on: weights, and the optimizer's state.

Modelled: each rank writes its own experts and what its gates have decided so far, rank 0 besides
what all ranks have, and the losses so far. What the data are follows from the step, and no step
draws random numbers. Checked: ``tests/pytorch/test_train_checkpoint.py``.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from lightloom.errors import InputError, RunError
from lightloom.runtime.checkpoints import Checkpoints

# The part that rank 0 writes of what all ranks have.
SHARED = "shared.pt"


class Saved:
    """The checkpoints of a model that is trained in this process group.

    Parameters
    ----------
    checkpoints
        Where they are.
    model, optimizer
        What is saved and restored.
    experts
        The parameters that this rank alone has, by ``id``.
    """

    def __init__(
        self,
        checkpoints: Checkpoints,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        experts: set[int],
    ) -> None:
        self._checkpoints, self._optimizer = checkpoints, optimizer
        named = dict(model.named_parameters())
        self._own = {name: it for name, it in named.items() if id(it) in experts}
        self._shared = {name: it for name, it in named.items() if id(it) not in experts}
        self._part = f"rank-{dist.get_rank():04}.pt"

    def restore(self, step: int) -> tuple[list[float], list[torch.Tensor]]:
        """Set weights and the optimizer's state to those of a checkpoint.

        Returns
        -------
        tuple
            The losses so far, and by step what this rank's gates have decided.

        Raises
        ------
        InputError
            If a part cannot be read.
        """
        counts: list[torch.Tensor] = self._put(self._own, self._checkpoints.part(step, self._part))
        losses: list[float] = self._put(self._shared, self._checkpoints.part(step, SHARED))
        return losses, counts

    def save(self, step: int, losses: list[float], counts: list[torch.Tensor]) -> None:
        """Write a checkpoint after so many steps. All ranks call it, and it counts at its end.

        Raises
        ------
        RunError
            If a part cannot be written.
        """
        first = dist.get_rank() == 0
        if first:
            self._checkpoints.begin(step)
        dist.barrier()
        self._write(self._checkpoints.aside(step, self._part), self._own, counts)
        if first:
            self._write(self._checkpoints.aside(step, SHARED), self._shared, losses)
        dist.barrier()
        if first:
            self._checkpoints.end(step)

    def _write(self, path: Path, parameters: Mapping[str, nn.Parameter], more: Any) -> None:
        said = {
            "weights": {name: it.detach() for name, it in parameters.items()},
            "optimizer": {name: dict(self._optimizer.state[it]) for name, it in parameters.items()},
            "more": more,
        }
        try:
            with path.open("wb") as file:
                torch.save(said, file)
                file.flush()
                os.fsync(file.fileno())
        except (OSError, RuntimeError) as error:
            raise RunError(f"--checkpoint {path}: cannot be written: {error}") from None

    def _put(self, parameters: Mapping[str, nn.Parameter], path: Path) -> Any:
        try:
            said = torch.load(path, weights_only=True)
            for name, parameter in parameters.items():
                with torch.no_grad():
                    parameter.copy_(said["weights"][name])
                self._optimizer.state[parameter] = dict(said["optimizer"][name])
            return said["more"]
        except (OSError, RuntimeError, KeyError, EOFError, pickle.UnpicklingError) as error:
            why = (str(error).splitlines() or [type(error).__name__])[0]
            raise InputError(f"--checkpoint {path}: cannot be read: {why}") from None
