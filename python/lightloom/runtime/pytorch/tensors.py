"""NumPy arrays of tensors, and what the runtime can reduce."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from lightloom.errors import InputError

Array = npt.NDArray[Any]
DEVICES = ("cpu", "cuda")


def flat(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor's elements in one row of the CPU: itself if contiguous there, else a copy.

    A copy of what a GPU has is in pinned memory.

    Raises
    ------
    InputError
        If it is on another device, or not dense.

    Examples
    --------
    >>> flat(torch.zeros(2, 3).T).shape
    torch.Size([6])
    """
    if tensor.device.type not in DEVICES or tensor.layout != torch.strided:
        kind = f"{tensor.layout} on {tensor.device}".removeprefix("torch.")
        devices = " or ".join(DEVICES)
        raise InputError(
            f"a tensor is {kind}: the backend lightloom takes strided ones on {devices}"
        )
    row = tensor.detach().resolve_conj().resolve_neg().contiguous().view(-1)
    if row.device.type == "cpu":
        return row
    # Waits for what is under way on the current stream, whose result it is.
    return torch.empty(row.shape, dtype=row.dtype, pin_memory=True).copy_(row)


def as_bytes(row: torch.Tensor) -> Array:
    """Return the bytes of a row of elements, which share its memory.

    Examples
    --------
    >>> as_bytes(torch.ones(1, dtype=torch.complex64)).tolist()
    [0, 0, 128, 63, 0, 0, 0, 0]
    """
    if row.is_complex():
        row = torch.view_as_real(row).view(-1)
    array: Array = row.view(torch.uint8).numpy()
    return array


def elements(row: torch.Tensor) -> Array:
    """Return an array of a row's elements, which share its memory; bfloat16 as uint16."""
    if row.dtype == torch.bfloat16:
        return np.asarray(row.view(torch.uint16).numpy())
    return np.asarray(row.numpy())


def put(tensor: torch.Tensor, row: torch.Tensor) -> None:
    """Copy a row of elements into a tensor, unless the row is the tensor's own memory.

    Examples
    --------
    >>> whole = torch.zeros(2, 2)
    >>> put(whole.T, torch.arange(4.0))
    >>> whole
    tensor([[0., 2.],
            [1., 3.]])
    """
    if row.device != tensor.device or row.data_ptr() != tensor.data_ptr():
        tensor.detach().copy_(row.view(tensor.shape))


def split(tensor: torch.Tensor, rows: Sequence[int], members: int, name: str) -> list[int]:
    """Return how many bytes of a tensor each member has, by how many rows.

    Raises
    ------
    InputError
        If the rows do not make the tensor.

    Examples
    --------
    >>> split(torch.zeros(4, 3), [], 2, "input"), split(torch.zeros(4, 3), [1, 3], 2, "input")
    ([24, 24], [12, 36])
    """
    count = tensor.size(0) if tensor.ndim else 1
    if not rows:
        if count % members:
            raise InputError(f"{name}: {count} rows cannot be divided among {members} ranks")
        rows = [count // members] * members
    if len(rows) != members or min(rows) < 0 or sum(rows) != count:
        raise InputError(
            f"{name}_split_sizes: {list(rows)}: must be {members} numbers, {count} together"
        )
    row = math.prod(tensor.shape[1:]) * tensor.element_size()
    return [many * row for many in rows]
