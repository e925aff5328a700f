"""Programs as messages: who sends what to whom, and what each message waits for.

An MSCCL program (XML), or a plan of Lightloom's (JSON, `lightloom.plan`). Of a plan the messages
are taken, not its circuits and times: a message waits for those that its sender and its receiver
send and receive in the step that it comes after.
Modelled of MSCCL: the steps of a thread block follow one another, a step waits for the one that it
depends on; the k-th message that one rank sends another on a channel is the k-th that this one
receives. A message is sent when the steps before it are over; a step that sends is over when its
message has arrived. Receivers have room for whatever comes. Copies and sums take no time.
Ignored: loops over a buffer that is larger than its scratch, protocols, the slots of a channel.
Source: Cowan et al., MSCCLang (ASPLOS 2023). Checked: programs of `lightloom.plan.msccl` are as
fast as the algorithms that they were written from, in ``tests/test_collective.py``.
"""

from __future__ import annotations

from collections import defaultdict
from os import PathLike
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import numpy as np

from lightloom.errors import InputError

MOST_BYTES = 256 << 20
"""Of a program's text."""
_PRIMITIVES = {
    "allreduce": "all-reduce",
    "allgather": "all-gather",
    "reducescatter": "reduce-scatter",
    "reduce_scatter": "reduce-scatter",
    "alltoall": "all-to-all",
    "broadcast": "broadcast",
}
_SENDS = ("s", "rcs", "rrs", "rrcs")
_RECEIVES = ("r", "rcs", "rrc", "rrs", "rrcs")
_LOCAL = ("cpy", "re", "nop")

Message = tuple[int, int, int]
"""From rank, to rank, bytes."""
Channel = tuple[int, int, int]
"""From rank, to rank, number."""


class Program(NamedTuple):
    """Messages, and (before, after) of those that wait for others."""

    messages: list[Message]
    waits: list[tuple[int, int]]


class _Step(NamedTuple):
    rank: int
    block: int
    number: int
    kind: str
    send: int
    receive: int
    channel: int
    chunks: int
    after: tuple[int, int] | None
    """Thread block and step of the same rank."""

    def __str__(self) -> str:
        return f"rank {self.rank}, thread block {self.block}, step {self.number}"


def read_program(path: str | PathLike[str], primitive: str, ranks: int, size: int) -> Program:
    """Read a program for a primitive on so many ranks with buffers of `size` bytes.

    The messages of a plan for buffers of another size are scaled, and rounded up to whole bytes.

    Raises
    ------
    InputError
        Naming file, rank, thread block and step; also if the program deadlocks.
    """
    try:
        if _text(Path(path)).lstrip().startswith(b"{"):
            return _of_plan(path, primitive, ranks, size)
        root, chunks = _parsed(Path(path), primitive, ranks)
        steps = _steps(root, ranks)
        return _messages(steps, size, chunks)
    except _WrongError as error:
        raise InputError(f"{path}: {error}") from None


class _WrongError(Exception):
    """What is wrong with a program."""


def _text(path: Path) -> bytes:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise _WrongError(f"must be at most {MOST_BYTES >> 20} MiB")
        return path.read_bytes()
    except OSError as error:
        raise _WrongError(f"cannot be read: {error.strerror}") from None


def _of_plan(path: str | PathLike[str], primitive: str, ranks: int, size: int) -> Program:
    from lightloom import kinds
    from lightloom.plan.file import AllToAllTask, CollectiveTask
    from lightloom.plan.file import read as read_plan
    from lightloom.runs.collective import own_size

    plan = read_plan(Path(path))
    task, nodes = plan.task, plan.machine.nodes
    own, made = size, primitive
    if isinstance(task, CollectiveTask):
        name = task.algorithm.partition(":")[0]
        known = kinds.family("collective").kinds
        own = task.size_bytes
        made = known[name].capabilities["primitive"] if name in known else primitive
    elif isinstance(task, AllToAllTask):
        own, made = own_size(np.array(task.demand, dtype=np.uint64)), "all-to-all"
    if made != primitive:
        raise _WrongError(f"is of {made}, not of {primitive}")
    if nodes != ranks:
        raise _WrongError(f"machine.nodes = {nodes}: must be the number of ranks, {ranks}")
    sent = [(one, track.node) for track in plan.nodes for one in track.transmissions]
    # Whatever the order of a step's messages is, those of the steps before come first.
    sent.sort(key=lambda pair: (pair[0].step, pair[0].start_ps, pair[1], pair[0].plane))
    waits_for = {one.step: one.after_step for one, _ in sent}
    at: dict[tuple[int, int], list[int]] = defaultdict(list)
    messages: list[Message] = []
    waits: list[tuple[int, int]] = []
    for message, (one, node) in enumerate(sent):
        if one.after_step is not None:
            # The step it waits for, and those that begin together with that; over a grid none do.
            last = one.after_step - 1 if plan.machine.grid else waits_for.get(one.after_step)
            steps = range(0 if last is None else last + 1, one.after_step + 1)
            before = {m for step in steps for end in (node, one.peer) for m in at[step, end]}
            waits += [(other, message) for other in sorted(before)]
        messages.append((node, one.peer, -(-one.bytes * size // own)))
        for end in (node, one.peer):
            at[one.step, end].append(message)
    return Program(messages, waits)


def _parsed(path: Path, primitive: str, ranks: int) -> tuple[ElementTree.Element, int]:
    try:
        root = ElementTree.fromstring(_text(path))
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        allowed = "an MSCCL program, or a plan of lightloom plan"
        raise _WrongError(f"not XML: {error}; allowed: {allowed}") from None
    if root.tag != "algo":
        raise _WrongError(f"<{root.tag[:40]}>: must be an MSCCL program, <algo>")
    coll = root.get("coll", "")
    if coll != "custom" and _PRIMITIVES.get(coll) != primitive:
        raise _WrongError(f'coll="{coll}": is no {primitive}; allowed: a program of one, or custom')
    gpus = _number(root, "ngpus", "algo")
    if gpus != ranks:
        raise _WrongError(f'ngpus="{gpus}": must be the number of ranks, {ranks}')
    return root, max(1, _number(root, "nchunksperloop", "algo"))


def _number(element: ElementTree.Element, key: str, what: str) -> int:
    text = element.get(key, "")
    if not (text.removeprefix("-").isascii() and text.removeprefix("-").isdecimal()):
        raise _WrongError(f'{what}: {key}="{text[:40]}": must be a whole number')
    return int(text[:12])


def _steps(root: ElementTree.Element, ranks: int) -> list[list[list[_Step]]]:
    """Return the steps by rank and thread block."""
    found: list[list[list[_Step]]] = [[] for _ in range(ranks)]
    for gpu in root.iter("gpu"):
        rank = _number(gpu, "id", "gpu")
        if not 0 <= rank < ranks or found[rank]:
            raise _WrongError(f"gpu {rank}: must be 0 to {ranks - 1}, each once")
        for block, thread in enumerate(gpu.iter("tb")):
            what = f"rank {rank}, thread block {block}"
            if _number(thread, "id", what) != block:
                raise _WrongError(f"{what}: ids must count from 0")
            send, receive = _number(thread, "send", what), _number(thread, "recv", what)
            channel = _number(thread, "chan", what)
            steps = []
            for number, step in enumerate(thread.iter("step")):
                name = f"{what}, step {number}"
                kind = step.get("type", "")
                if kind not in (*_SENDS, *_RECEIVES, *_LOCAL):
                    allowed = ", ".join(dict.fromkeys((*_SENDS, *_RECEIVES, *_LOCAL)))
                    raise _WrongError(f'{name}: type="{kind[:40]}"; allowed: {allowed}')
                for peer, uses in ((send, kind in _SENDS), (receive, kind in _RECEIVES)):
                    if uses and (not 0 <= peer < ranks or peer == rank):
                        raise _WrongError(
                            f"{name}: peer {peer}: must be another rank below {ranks}"
                        )
                depends = _number(step, "depid", name)
                after = (depends, _number(step, "deps", name)) if depends >= 0 else None
                count = _number(step, "cnt", name)
                moves = kind not in _LOCAL
                if moves and count < 1:
                    raise _WrongError(f"{name}: cnt={count}: must be at least 1")
                steps.append(_Step(rank, block, number, kind, send, receive, channel, count, after))
            found[rank].append(steps)
    return found


def _messages(by_rank: list[list[list[_Step]]], size: int, chunks: int) -> Program:
    steps = [step for blocks in by_rank for block in blocks for step in block]
    at = {(step.rank, step.block, step.number): index for index, step in enumerate(steps)}
    ends: dict[Channel, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for index, step in enumerate(steps):
        if step.kind in _SENDS:
            ends[step.rank, step.send, step.channel][0].append(index)
        if step.kind in _RECEIVES:
            ends[step.receive, step.rank, step.channel][1].append(index)
    sender_of: dict[int, int] = {}
    place: dict[int, tuple[Channel, int]] = {}
    for channel, (sent, received) in ends.items():
        if len(sent) != len(received):
            lone = (sent if len(sent) > len(received) else received)[min(len(sent), len(received))]
            other = channel[1] if len(sent) > len(received) else channel[0]
            does = "receives" if len(sent) > len(received) else "sends"
            raise _WrongError(
                f"deadlocks: {steps[lone]} waits for rank {other}, which {does} only "
                f"{min(len(sent), len(received))} messages between the two on channel {channel[2]}"
            )
        for number, (one, other) in enumerate(zip(sent, received, strict=True)):
            if steps[one].chunks != steps[other].chunks:
                raise _WrongError(
                    f"{steps[one]}: sends {steps[one].chunks} chunks, of which {steps[other]} "
                    f"receives {steps[other].chunks}"
                )
            sender_of[other] = one
            place[one] = channel, number
    before = [_before(step, index, at, sender_of) for index, step in enumerate(steps)]
    # What a step has behind it: of each channel, the last message.
    behind: list[dict[Channel, int]] = [{} for _ in steps]
    messages: list[Message] = []
    waits: list[tuple[int, int]] = []
    number_of: dict[tuple[Channel, int], int] = {}
    for index in _order(steps, before):
        step = steps[index]
        last: dict[Channel, int] = {}
        for other in before[index]:
            for channel, number in behind[other].items():
                last[channel] = max(number, last.get(channel, -1))
        if index in place:
            message = len(messages)
            number_of[place[index]] = message
            messages.append((step.rank, step.send, -(-size * step.chunks // chunks)))
            waits += [(number_of[one], message) for one in last.items()]
            last = dict([place[index]])
        behind[index] = last
    return Program(messages, waits)


def _before(
    step: _Step,
    index: int,
    at: dict[tuple[int, int, int], int],
    sender_of: dict[int, int],
) -> list[int]:
    """Return the steps that one waits for: the one before it, its dependency, its sender."""
    found = [index - 1] if step.number else []
    if step.after is not None:
        depends = at.get((step.rank, *step.after))
        if depends is None:
            raise _WrongError(f"{step}: depends on thread block {step.after[0]}, step "
                         f"{step.after[1]}, which there is not")  # fmt: skip
        found.append(depends)
    if index in sender_of:
        found.append(sender_of[index])
    return found


def _order(steps: list[_Step], before: list[list[int]]) -> list[int]:
    """Return the steps, each after those that it waits for."""
    after: dict[int, list[int]] = defaultdict(list)
    left = [len(some) for some in before]
    for index, some in enumerate(before):
        for other in some:
            after[other].append(index)
    order = [index for index, count in enumerate(left) if not count]
    for index in order:
        for other in after[index]:
            left[other] -= 1
            if not left[other]:
                order.append(other)
    if len(order) == len(steps):
        return order
    # Backwards along what waits, a step comes twice.
    at = next(index for index, count in enumerate(left) if count)
    seen: set[int] = set()
    while at not in seen:
        seen.add(at)
        at = next(other for other in before[at] if left[other])
    waited = next(other for other in before[at] if left[other])
    raise _WrongError(f"deadlocks: {steps[at]} waits for {steps[waited]}, and that for it")
