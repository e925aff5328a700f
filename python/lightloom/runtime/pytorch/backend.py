"""The backend of c10d: a process group's operations, by the runtime."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
from torch._C._distributed_c10d import Backend

from lightloom.errors import InputError
from lightloom.runtime.pytorch import moves, reductions, session
from lightloom.runtime.pytorch.member import Begun, Member
from lightloom.runtime.pytorch.register import NAME
from lightloom.runtime.pytorch.work import Pending
from lightloom.runtime.rank import WORLD

Tensors = Sequence[torch.Tensor]


def create(options: Any) -> Lightloom:
    """Make the backend of a process group; all of its members call it.

    Parameters
    ----------
    options
        What c10d gives to backends: store, ranks, timeout.

    Raises
    ------
    InputError
        If there is no runtime, or the ranks are not those of its job.
    """
    ranks = list(options.global_ranks_in_group)
    if ranks:
        member = Member(session.rank(), session.group(options.store, ranks), ranks)
    else:
        rank = session.begin(options.group_rank, options.group_size)
        member = Member(rank, WORLD, range(rank.size))
    return Lightloom(member, options.timeout)


class Lightloom(Backend):  # type: ignore[misc, unused-ignore]
    """A process group whose operations the server's runtime carries out.

    Parameters
    ----------
    member
        This rank in its group.
    timeout
        How long an operation may take.
    """

    # What c10d may ask of backends and this one has not. (Of a class of Python, the base class asks
    # itself for its own answers, without end.)
    supports_splitting = supports_coalescing = supports_shrinking = False
    supports_reconfigure = supports_window = supports_abort_hooks = False
    _supports_time_estimate = False

    def __init__(self, member: Member, timeout: timedelta) -> None:
        super().__init__(member.at, member.size)
        self._member, self._timeout = member, timeout

    def name(self) -> str:
        """Return what it is called."""
        return NAME

    getBackendName = name  # noqa: N815

    @property
    def options(self) -> Any:
        """Its name and its timeout."""
        return Backend.Options(NAME, self._timeout)

    def set_timeout(self, timeout: timedelta) -> None:
        """Say how long an operation may take from now on."""
        self._timeout = timeout

    _set_default_timeout = set_timeout

    def shutdown(self) -> None:
        """Leave the runtime with the group of all ranks."""
        if self._member.group == WORLD:
            session.end()

    def abort(self) -> None:
        """Do nothing: what is under way ends by itself, or with the process."""

    def all_to_all_single(
        self, output: torch.Tensor, input_: torch.Tensor, output_rows: Sequence[int],
        input_rows: Sequence[int], opts: Any = None,
    ) -> Pending:  # fmt: skip
        """See `moves.all_to_all_single`."""
        begun = moves.all_to_all_single(self._member, output, input_, output_rows, input_rows)
        return self._pending("all_to_all_single", [output], opts, begun)

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Pending:
        """See `moves.all_to_all`."""
        begun = moves.all_to_all(self._member, outputs, inputs)
        return self._pending("all_to_all", outputs, opts, begun)

    def allreduce(self, tensors: Tensors, opts: Any) -> Pending:
        """See `reductions.all_reduce`."""
        begun = [reductions.all_reduce(self._member, it, opts.reduceOp) for it in tensors]
        return self._pending("all_reduce", tensors, opts, *begun)

    allreduce_coalesced = allreduce

    def reduce(self, tensors: Tensors, opts: Any) -> Pending:
        """See `reductions.all_reduce`."""
        only = _only("reduce", tensors)
        begun = reductions.all_reduce(self._member, only, opts.reduceOp, opts.rootRank)
        return self._pending("reduce", tensors, opts, begun)

    def reduce_scatter_single(
        self, output: torch.Tensor, input_: torch.Tensor, opts: Any
    ) -> Pending:
        """See `reductions.reduce_scatter`."""
        begun = reductions.reduce_scatter(self._member, output, [input_], opts.reduceOp)
        return self._pending("reduce_scatter_tensor", [output], opts, begun)

    def reduce_scatter_single_coalesced(
        self, outputs: Tensors, inputs: Tensors, opts: Any
    ) -> Pending:
        """See `reductions.reduce_scatter`."""
        begun = [
            reductions.reduce_scatter(self._member, output, [input_], opts.reduceOp)
            for output, input_ in zip(outputs, inputs, strict=True)
        ]
        return self._pending("reduce_scatter_tensor", outputs, opts, *begun)

    def reduce_scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any) -> Pending:
        """See `reductions.reduce_scatter`."""
        output, parts = _only("reduce_scatter", outputs), _only("reduce_scatter", inputs)
        begun = reductions.reduce_scatter(self._member, output, parts, opts.reduceOp)
        return self._pending("reduce_scatter", outputs, opts, begun)

    def all_gather_single(
        self, output: torch.Tensor, input_: torch.Tensor, opts: Any = None
    ) -> Pending:
        """See `moves.all_gather`."""
        begun = moves.all_gather(self._member, [output], input_)
        return self._pending("all_gather_into_tensor", [output], opts, begun)

    def all_gather_single_coalesced(
        self, outputs: Tensors, inputs: Tensors, opts: Any = None
    ) -> Pending:
        """See `moves.all_gather`."""
        pairs = zip(outputs, inputs, strict=True)
        begun = [moves.all_gather(self._member, [output], input_) for output, input_ in pairs]
        return self._pending("all_gather_into_tensor", outputs, opts, *begun)

    def allgather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any = None) -> Pending:
        """See `moves.all_gather`."""
        pairs = zip(outputs, inputs, strict=True)
        begun = [moves.all_gather(self._member, parts, input_) for parts, input_ in pairs]
        return self._pending("all_gather", [it for part in outputs for it in part], opts, *begun)

    def gather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any) -> Pending:
        """See `moves.gather`."""
        parts = outputs[0] if outputs else []
        only = _only("gather", inputs)
        begun = moves.gather(self._member, parts, only, opts.rootRank)
        return self._pending("gather", parts, opts, begun)

    def scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any) -> Pending:
        """See `moves.scatter`."""
        parts = inputs[0] if inputs else []
        begun = moves.scatter(self._member, _only("scatter", outputs), parts, opts.rootRank)
        return self._pending("scatter", outputs, opts, begun)

    def broadcast(self, tensors: Tensors, opts: Any) -> Pending:
        """See `moves.broadcast`."""
        begun = [moves.broadcast(self._member, it, opts.rootRank) for it in tensors]
        return self._pending("broadcast", tensors, opts, *begun)

    def send(self, tensors: Tensors, to: int, tag: int) -> Pending:
        """See `moves.send`."""
        begun = moves.send(self._member, _only("send", tensors), _untagged(to, tag))
        return self._pending("send", tensors, None, begun)

    def recv(self, tensors: Tensors, source: int, tag: int) -> Pending:
        """See `moves.receive`."""
        begun = moves.receive(self._member, _only("recv", tensors), _untagged(source, tag))
        return self._pending("recv", tensors, None, begun)

    def barrier(self, opts: Any = None) -> Pending:
        """Wait until all members have come here."""
        work = self._member.rank.barrier(group=self._member.group, wait=False)
        return self._pending("barrier", [], opts, Begun([work]))

    def _pending(self, name: str, result: Tensors, opts: Any, *begun: Begun) -> Pending:
        def after() -> None:
            for it in begun:
                if it.after is not None:
                    it.after()

        own = getattr(opts, "timeout", timedelta(0)).total_seconds()
        seconds = own if own > 0 else self._timeout.total_seconds()
        parts = [work for it in begun for work in it.parts]
        return Pending(name, parts, result, after, seconds)


def _only(name: str, items: Sequence[Any]) -> Any:
    if len(items) != 1:
        raise InputError(f"{name}: {len(items)} tensors: must be one")
    return items[0]


def _untagged(peer: int, tag: int) -> int:
    if tag:
        raise InputError(f"tag: {tag}: must be 0; tensors come in the order in which they are sent")
    return peer
