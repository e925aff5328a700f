"""Collectives that move tensors and compute nothing."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from lightloom.errors import InputError
from lightloom.runtime.pytorch.member import Begun, Member
from lightloom.runtime.pytorch.session import empty
from lightloom.runtime.pytorch.tensors import as_bytes, flat, put, split


def all_to_all_single(
    member: Member,
    output: torch.Tensor,
    input_: torch.Tensor,
    output_rows: Sequence[int],
    input_rows: Sequence[int],
) -> Begun:
    """Send rows of a tensor to every member, and receive rows of every member."""
    if output.dtype != input_.dtype:
        raise InputError(f"output: {output.dtype}: must be the input's, {input_.dtype}")
    comes = split(output, output_rows, member.size, "output")
    goes = split(input_, input_rows, member.size, "input")
    row = flat(output)
    work = member.rank.all_to_all(
        as_bytes(row), as_bytes(flat(input_)), comes, goes, group=member.group, wait=False
    )
    return Begun([work], lambda: put(output, row))


def all_to_all(
    member: Member, outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]
) -> Begun:
    """Send a tensor to every member, and receive one of every member."""
    sent, received = _joined(inputs), _room(outputs)
    work = member.rank.all_to_all(
        received.numpy(), sent.numpy(), _lengths(outputs), _lengths(inputs), group=member.group,
        wait=False,
    )  # fmt: skip
    return Begun([work], lambda: _part(received, outputs))


def all_gather(
    member: Member, outputs: Sequence[torch.Tensor], input_: torch.Tensor
) -> Begun:  # fmt: skip
    """Give every member the tensors of all: each in one of its own, or all in one."""
    sent = as_bytes(flat(input_))
    if len(outputs) == 1:
        row = flat(outputs[0])
        work = member.rank.all_gather(as_bytes(row), sent, group=member.group, wait=False)
        return Begun([work], lambda: put(outputs[0], row))
    received = _room(outputs)
    work = member.rank.all_gather(
        received.numpy(), sent, _lengths(outputs), group=member.group, wait=False
    )
    return Begun([work], lambda: _part(received, outputs))


def gather(
    member: Member, outputs: Sequence[torch.Tensor], input_: torch.Tensor, root: int
) -> Begun:
    """Give one member the tensors of all."""
    sent, received = _joined([input_]), _room(outputs)
    goes = [sent.numel() if at == root else 0 for at in range(member.size)]
    comes = _lengths(outputs) or [0] * member.size
    work = member.rank.all_to_all(
        received.numpy(), sent.numpy(), comes, goes, group=member.group, wait=False
    )
    return Begun([work], lambda: _part(received, outputs))


def scatter(
    member: Member, output: torch.Tensor, inputs: Sequence[torch.Tensor], root: int
) -> Begun:
    """Give every member one of a member's tensors."""
    sent, received = _joined(inputs), _room([output])
    comes = [received.numel() if at == root else 0 for at in range(member.size)]
    goes = _lengths(inputs) or [0] * member.size
    work = member.rank.all_to_all(
        received.numpy(), sent.numpy(), comes, goes, group=member.group, wait=False
    )
    return Begun([work], lambda: _part(received, [output]))


def broadcast(member: Member, tensor: torch.Tensor, root: int) -> Begun:
    """Give every member the tensor of one of them, in place."""
    row = flat(tensor)
    work = member.rank.broadcast(
        as_bytes(row), member.ranks[root], group=member.group, wait=False
    )  # fmt: skip
    return Begun([work], lambda: put(tensor, row))


def send(member: Member, tensor: torch.Tensor, to: int) -> Begun:
    """Send a tensor to another member."""
    return Begun([member.rank.send(as_bytes(flat(tensor)), member.ranks[to], wait=False)])


def receive(member: Member, tensor: torch.Tensor, source: int) -> Begun:
    """Receive a tensor of another member."""
    row = flat(tensor)
    work = member.rank.receive(as_bytes(row), member.ranks[source], wait=False)
    return Begun([work], lambda: put(tensor, row))


def _lengths(tensors: Sequence[torch.Tensor]) -> list[int]:
    return [it.numel() * it.element_size() for it in tensors]


def _room(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    return empty(sum(_lengths(tensors)), torch.uint8)


def _joined(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    joined = _room(tensors)
    for part, tensor in zip(joined.split(_lengths(tensors)), tensors, strict=True):
        part.numpy()[:] = as_bytes(flat(tensor))
    return joined


def _part(received: torch.Tensor, tensors: Sequence[torch.Tensor]) -> None:
    for part, tensor in zip(received.split(_lengths(tensors)), tensors, strict=True):
        row = flat(tensor)
        as_bytes(row)[:] = part.numpy()
        put(tensor, row)
