"""Reductions of tensors by the runtime, and of those that it does not know.

The runtime reduces `ELEMENTS`. A smaller type is reduced as a wider one and converted once, so a
float16 is rounded once. Truths are reduced as bytes. Bitwise reductions gather what all have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from lightloom.errors import InputError
from lightloom.runtime.pytorch.member import Begun, Member
from lightloom.runtime.pytorch.session import empty
from lightloom.runtime.pytorch.tensors import as_bytes, elements, flat, put

ELEMENTS = {
    torch.float32: "float32", torch.float64: "float64", torch.bfloat16: "bfloat16",
    torch.int32: "int32", torch.int64: "int64", torch.uint8: "uint8",
}  # fmt: skip
WIDER = {torch.float16: torch.float32, torch.int8: torch.int32, torch.int16: torch.int32}
PAIRS = {torch.complex64: torch.float32, torch.complex128: torch.float64}
SUM, PRODUCT = dist.ReduceOp.SUM, dist.ReduceOp.PRODUCT
MIN, MAX, AVERAGE = dist.ReduceOp.MIN, dist.ReduceOp.MAX, dist.ReduceOp.AVG
REDUCTIONS = {SUM: "sum", PRODUCT: "product", MIN: "min", MAX: "max", AVERAGE: "sum"}
# Of truths: a sum is an or, a product an and.
TRUTHS = {SUM: "max", MAX: "max", PRODUCT: "min", MIN: "min"}
BITWISE = {
    dist.ReduceOp.BAND: torch.bitwise_and, dist.ReduceOp.BOR: torch.bitwise_or,
    dist.ReduceOp.BXOR: torch.bitwise_xor,
}  # fmt: skip


@dataclass(frozen=True)
class How:
    """How the runtime reduces a type: as which, by which reduction; then divided or not."""

    dtype: torch.dtype
    reduction: str
    divided: bool

    def inside(self, row: torch.Tensor) -> torch.Tensor:
        """Return a row as the runtime takes it: the row itself, or a converted copy."""
        if row.is_complex():
            return torch.view_as_real(row).view(-1)
        if row.dtype == torch.bool:
            return row.view(torch.uint8)
        return row.to(self.dtype)

    def outside(self, row: torch.Tensor, inside: torch.Tensor, members: int) -> None:
        """Put the result into a row."""
        if self.divided:
            inside.div_(members)
        own = self.inside(row)
        if inside.data_ptr() == own.data_ptr():
            return
        if own.data_ptr() == row.data_ptr():
            own.copy_(inside)
        else:
            row.copy_(inside)


def how(op: Any, dtype: torch.dtype) -> How:
    """Return how a type is reduced.

    Raises
    ------
    InputError
        If it cannot be; with what can.

    Examples
    --------
    >>> how(dist.ReduceOp.SUM, torch.float16)
    How(dtype=torch.float32, reduction='sum', divided=False)
    >>> how(dist.ReduceOp.MAX, torch.complex64)
    Traceback (most recent call last):
    ...
    lightloom.errors.InputError: MAX of complex64: complex numbers have a sum or an average
    """
    op = kind(op)
    name = f"{op.name} of {str(dtype).removeprefix('torch.')}"
    if op not in REDUCTIONS:
        raise InputError(f"{name}: can be SUM, AVG, PRODUCT, MIN or MAX; BAND, BOR, BXOR at all")
    if op == AVERAGE and not (dtype.is_floating_point or dtype in PAIRS):
        raise InputError(f"{name}: only floating-point and complex numbers have an average")
    if dtype == torch.bool:
        return How(torch.uint8, TRUTHS[op], False)
    if dtype in PAIRS:
        if REDUCTIONS[op] != "sum":
            raise InputError(f"{name}: complex numbers have a sum or an average")
        return How(PAIRS[dtype], "sum", op == AVERAGE)
    wide = WIDER.get(dtype, dtype)
    if wide not in ELEMENTS:
        known = (str(it).removeprefix("torch.") for it in (*ELEMENTS, *WIDER, *PAIRS, torch.bool))
        raise InputError(f"{name}: can be of {', '.join(known)}")
    return How(wide, REDUCTIONS[op], op == AVERAGE)


def kind(op: Any) -> Any:
    """Return which reduction an operator is: it may bring a factor, which makes it another."""
    return getattr(op, "op", op)


def all_reduce(member: Member, tensor: torch.Tensor, op: Any, root: int | None = None) -> Begun:
    """Reduce a tensor of all members, in place: at all of them, or at one."""
    row = flat(tensor)
    if kind(op) in BITWISE:
        return _bitwise(member, tensor, row, op, root)
    plan = how(op, row.dtype)
    inside = plan.inside(row)
    if root is not None and root != member.at and inside.data_ptr() == row.data_ptr():
        inside = inside.clone()  # only the root's tensor changes
    work = member.rank.all_reduce(
        elements(inside), plan.reduction, element=ELEMENTS[plan.dtype], group=member.group,
        wait=False,
    )  # fmt: skip

    def after() -> None:
        if root is None or root == member.at:
            plan.outside(row, inside, member.size)
            put(tensor, row)

    return Begun([work], after)


def reduce_scatter(
    member: Member, output: torch.Tensor, inputs: Sequence[torch.Tensor], op: Any
) -> Begun:
    """Reduce the tensors of all members, and leave each with its part of the result.

    Parameters
    ----------
    member
        Of the group.
    output
        This member's part.
    inputs
        A part for each member; or one tensor, which is divided alike.
    op
        The reduction, none of the bitwise ones.
    """
    plan = how(op, output.dtype)
    rows = [plan.inside(flat(it)) for it in inputs]
    counts = [row.numel() for row in rows]
    if len(rows) == 1:
        if counts[0] % member.size:
            raise InputError(f"input: {counts[0]} elements cannot be divided by {member.size}")
        counts = [counts[0] // member.size] * member.size
    # The runtime reduces in this memory, and the inputs must stay as they are.
    sent = empty(sum(counts), plan.dtype)
    torch.cat(rows, out=sent)
    row = flat(output)
    inside = plan.inside(row)
    if inside.numel() != counts[member.at]:
        raise InputError(f"output: {row.numel()} elements: this rank gets {counts[member.at]}")
    work = member.rank.reduce_scatter(
        elements(inside), elements(sent), counts, plan.reduction, element=ELEMENTS[plan.dtype],
        group=member.group, wait=False,
    )  # fmt: skip

    def after() -> None:
        plan.outside(row, inside, member.size)
        put(output, row)

    return Begun([work], after)


def _bitwise(
    member: Member, tensor: torch.Tensor, row: torch.Tensor, op: Any, root: int | None
) -> Begun:
    every = empty(row.numel() * member.size, row.dtype)
    work = member.rank.all_gather(
        as_bytes(every), as_bytes(row), group=member.group, wait=False
    )  # fmt: skip

    def after() -> None:
        if root is None or root == member.at:
            first, *others = every.view(member.size, -1).unbind(0)
            for other in others:
                first = BITWISE[kind(op)](first, other)
            put(tensor, first)

    return Begun([work], after)
