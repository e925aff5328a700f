"""The nodes' track of a collective's plan as a program that MSCCL runtimes read (XML).

Modelled: a thread block a peer, plane and direction; the plane is the channel. Blocks of the buffer
are cut into equal chunks so that each step's split over the planes is, nearly, a whole number of
chunks; a step waits for what last wrote or read its chunks, so every order of execution gives the
same result. Channels hold little: what two nodes exchange in place goes chunk by chunk, so that
neither fills its channel before it takes what the other has sent.
Lost: MSCCL knows neither times nor circuits nor barriers. A runtime on switched planes must itself
hold a step back until its circuits stand; what the program keeps is which chunk goes over which
plane, and in which order. Refused, with the reason: broadcasts, splits that need too many chunks,
and programs beyond MSCCL's limits.

Source: Cowan et al., MSCCLang (ASPLOS 2023), for what a program is; names and limits are those of
the runtime that Azure and RCCL have (64 steps a thread block in some builds, 256 in most).
Checked: by an interpreter of the XML whose channels hold one chunk.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from xml.etree import ElementTree

from lightloom.errors import InputError

MOST_CHANNELS = 32
MOST_STEPS = 256
"""Steps of a thread block."""
MOST_THREADS = 128
"""Thread blocks of a GPU: who waits for one has its number in a signed byte."""
MOST_PEERS = 32
"""Thread blocks of a channel that send, or that receive."""
MOST_COUNT = 71
"""Chunks of one step."""
MOST_PLACES = 1 << 15
"""Chunks of a buffer: places in it have 16 bits, with a sign."""
MOST_CHUNKS_A_BLOCK = 256
"""Enough for any split within the tolerance."""
TOLERANCE = 0.005
"""How far, of a step's volume, a plane's share may be from a whole number of chunks."""

_COLLECTIVES = {
    "all-reduce": ("allreduce", True),
    "reduce-scatter": ("reducescatter", True),
    "all-gather": ("allgather", True),
    "all-to-all": ("alltoall", False),
}

Place = tuple[str, int]
"""A buffer (i, o or s) and a chunk of it."""


@dataclass
class _Step:
    kind: str
    source: Place
    target: Place
    count: int
    waits: list[tuple[int, int]] = field(default_factory=list)
    """(thread block, step) of the same GPU."""


@dataclass
class _Block:
    send: int
    receive: int
    channel: int
    steps: list[_Step] = field(default_factory=list)


@dataclass
class _Gpu:
    blocks: dict[tuple[int, int, int], int] = field(default_factory=dict)
    threads: list[_Block] = field(default_factory=list)
    scratch: dict[tuple[int, int], int] = field(default_factory=dict)
    wrote: dict[Place, tuple[int, int]] = field(default_factory=dict)
    read: dict[Place, list[tuple[int, int]]] = field(default_factory=dict)


def program(
    name: str,
    nodes: int,
    planes: int,
    messages: Mapping[str, Any],
    splits: Sequence[Sequence[tuple[int, int]]],
) -> str:
    """Return the program as XML.

    Parameters
    ----------
    name
        Of the program.
    nodes, planes
        N and k.
    messages
        What ``_core.plan_messages`` says: primitive, blocks, and the messages of each step.
    splits
        For each step, (plane, bytes) of each plane that serves it.

    Raises
    ------
    InputError
        If MSCCL cannot say it, with the reason.

    Examples
    --------
    Two nodes exchange halves over two planes, three quarters of them on the first:

    >>> import json
    >>> from lightloom import _core
    >>> messages = json.loads(_core.plan_messages("pairwise-alltoall", 2, 8000))
    >>> text = program("demo", 2, 2, messages, [[(0, 3000), (1, 1000)]])
    >>> text.splitlines()[0][:44]
    '<algo name="demo" proto="Simple" nchannels="'
    >>> 'nchunksperloop="8"' in text  # Two blocks of four chunks.
    True
    """
    primitive = messages["primitive"]
    if primitive not in _COLLECTIVES:
        raise InputError(
            f"--msccl: a program cannot say whose buffer a {primitive} is of; allowed: "
            f"{', '.join(_COLLECTIVES)}"
        )
    _allow(planes, MOST_CHANNELS, "channels, one a plane")
    collective, in_place = _COLLECTIVES[primitive]
    blocks = int(messages["blocks"])
    _allow(blocks, MOST_PLACES, "blocks of a buffer")
    cut = _chunks(blocks, messages["steps"], splits)
    gpus = [_Gpu() for _ in range(nodes)]
    total = blocks * cut
    # Blocks of a pair of nodes: more than one over a grid.
    pieces = blocks // nodes if primitive == "all-to-all" else 1
    share = pieces * cut

    def place(node: int, block: int, part: int) -> Place:
        """Where a node keeps a part of a block."""
        if primitive != "all-to-all":
            return ("o" if primitive == "all-gather" else "i", block * cut + part)
        pair, piece = divmod(block, pieces)
        source, target = divmod(pair, nodes)
        if source == node:
            return ("i", target * share + piece * cut + part)
        if target == node:
            return ("o", source * share + piece * cut + part)
        scratch = gpus[node].scratch
        return ("s", scratch.setdefault((block, part), len(scratch)))

    if primitive == "all-to-all":
        for node, gpu in enumerate(gpus):
            for part in range(0, share, MOST_COUNT):
                at = node * share + part
                count = min(MOST_COUNT, share - part)
                _add(gpu, (-1, -1, 0), _Step("cpy", ("i", at), ("o", at), count))
    for of_step, split in zip(messages["steps"], splits, strict=True):
        sends: list[tuple[int, int, list[Place], list[Place], str]] = []
        for message in of_step:
            node, peer = message["node"], message["peer"]
            parts = [(block, part) for block in message["blocks"] for part in range(cut)]
            sources = [place(node, *part) for part in parts]
            targets = [place(peer, *part) for part in parts]
            kind = "rrc" if message["reduce"] else "r"
            sends.append((node, peer, sources, targets, kind))
        leaving = {node: set(sources) for node, _, sources, _, _ in sends}
        received = []
        for node, peer, sources, targets, kind in sends:
            exchanged = not leaving.get(peer, set()).isdisjoint(targets)
            at = 0
            for plane, count in _counts(split, len(sources)):
                runs = _runs(sources, targets, at, at + count, 1 if exchanged else MOST_COUNT)
                for source, target, length in runs:
                    _add(gpus[node], (peer, -1, plane), _Step("s", source, target, length))
                    received.append((peer, node, plane, _Step(kind, source, target, length)))
                at += count
        # What arrives in a step arrives after what leaves in it.
        for peer, node, plane, step in received:
            _add(gpus[peer], (-1, node, plane), step)
    return _xml(name, collective, in_place, planes, total, primitive, nodes, gpus)


def _chunks(blocks: int, steps: Sequence[Any], splits: Sequence[Sequence[tuple[int, int]]]) -> int:
    """Return into how few chunks a block can be cut."""
    most = min(MOST_CHUNKS_A_BLOCK, MOST_PLACES // blocks)
    worst = 0
    for cut in range(1, most + 1):
        for number, (of_step, split) in enumerate(zip(steps, splits, strict=True)):
            volume = sum(part for _, part in split)
            chunks = cut * len(of_step[0]["blocks"])
            if any(
                abs(count / chunks - part / volume) > TOLERANCE
                for (_, part), (_, count) in zip(split, _counts(split, chunks), strict=True)
            ):
                worst = max(worst, number)
                break
        else:
            return cut
    parts = [part for _, part in splits[worst]]
    shares = ", ".join(f"{part / sum(parts):.2%}" for part in parts)
    raise InputError(
        f"--msccl: no {most} equal chunks a block or fewer come within {TOLERANCE:.1%} of how all "
        f"steps are split over the planes; step {worst + 1} is as {shares}"
    )


def _counts(split: Sequence[tuple[int, int]], chunks: int) -> list[tuple[int, int]]:
    """Return whole chunks for each plane, rounding the running sum.

    >>> _counts([(0, 10), (2, 30)], 6)
    [(0, 2), (2, 4)]
    """
    volume, running, before, counts = sum(part for _, part in split), 0, 0, []
    for plane, part in split:
        running += part
        until = round(running * chunks / volume)
        counts.append((plane, until - before))
        before = until
    return counts


def _runs(
    sources: list[Place], targets: list[Place], first: int, end: int, most: int
) -> list[tuple[Place, Place, int]]:
    """Return stretches, of `most` chunks or fewer, that follow each other at both ends."""
    runs: list[tuple[Place, Place, int]] = []
    for i in range(first, end):
        if runs:
            source, target, length = runs[-1]
            follows = (source[0], source[1] + length) == sources[i]
            follows = follows and (target[0], target[1] + length) == targets[i]
            if follows and length < most:
                runs[-1] = (source, target, length + 1)
                continue
        runs.append((sources[i], targets[i], 1))
    return runs


def _add(gpu: _Gpu, key: tuple[int, int, int], step: _Step) -> None:
    """Append a step to its thread block, after what it must wait for."""
    if key not in gpu.blocks:
        gpu.blocks[key] = len(gpu.threads)
        gpu.threads.append(_Block(*key))
    number = gpu.blocks[key]
    block = gpu.threads[number]
    reads = [] if step.kind in ("r", "rrc") else [(step.source[0], step.source[1] + i)
                                                  for i in range(step.count)]  # fmt: skip
    writes = [] if step.kind == "s" else [(step.target[0], step.target[1] + i)
                                          for i in range(step.count)]  # fmt: skip
    waits = {gpu.wrote[chunk] for chunk in reads + writes if chunk in gpu.wrote}
    waits |= {other for chunk in writes for other in gpu.read.get(chunk, ())}
    # Of each other thread block the last suffices; the own one is in order.
    last: dict[int, int] = {}
    for thread, at in waits:
        if thread != number:
            last[thread] = max(last.get(thread, -1), at)
    # A step waits for one other; for more, steps that do nothing wait before it.
    *before, final = [[wait] for wait in sorted(last.items())] or [[]]
    block.steps += [_Step("nop", ("i", -1), ("o", -1), 0, wait) for wait in before]
    step.waits = final
    block.steps.append(step)
    here = (number, len(block.steps) - 1)
    for chunk in reads:
        gpu.read.setdefault(chunk, []).append(here)
    for chunk in writes:
        gpu.wrote[chunk] = here
        gpu.read[chunk] = []


def _check(rank: int, gpu: _Gpu) -> None:
    """Refuse what the runtime would."""
    _allow(len(gpu.threads), MOST_THREADS, f"thread blocks of GPU {rank}")
    for name, at in (("sends", 0), ("receives", 1)):
        ends = Counter(key[2] for key in gpu.blocks if key[at] >= 0)
        _allow(max(ends.values(), default=0), MOST_PEERS, f"{name} of GPU {rank} on a channel")
    steps = max((len(block.steps) for block in gpu.threads), default=0)
    _allow(steps, MOST_STEPS, f"steps in one thread block of GPU {rank}")
    _allow(len(gpu.scratch), MOST_PLACES, f"chunks of scratch of GPU {rank}")


def _allow(count: int, most: int, what: str) -> None:
    if count > most:
        raise InputError(f"--msccl: {count} {what}; MSCCL has {most} at most")


def _xml(
    name: str, collective: str, in_place: bool, planes: int, total: int, primitive: str,
    nodes: int, gpus: list[_Gpu],
) -> str:  # fmt: skip
    algo = ElementTree.Element("algo", {
        "name": name, "proto": "Simple", "nchannels": str(planes), "nchunksperloop": str(total),
        "ngpus": str(nodes), "coll": collective, "inplace": str(int(in_place)),
        "outofplace": str(int(not in_place)), "minBytes": "0", "maxBytes": "0",
    })  # fmt: skip
    for rank, gpu in enumerate(gpus):
        inputs = total // nodes if primitive == "all-gather" else total
        outputs = {"all-reduce": 0, "reduce-scatter": total // nodes}.get(primitive, total)
        element = ElementTree.SubElement(algo, "gpu", {
            "id": str(rank), "i_chunks": str(inputs), "o_chunks": str(outputs),
            "s_chunks": str(len(gpu.scratch)),
        })  # fmt: skip
        _check(rank, gpu)
        needed = {wait for block in gpu.threads for step in block.steps for wait in step.waits}
        for number, block in enumerate(gpu.threads):
            thread = ElementTree.SubElement(element, "tb", {
                "id": str(number), "send": str(block.send), "recv": str(block.receive),
                "chan": str(block.channel),
            })  # fmt: skip
            for at, step in enumerate(block.steps):
                thread_block, after = step.waits[0] if step.waits else (-1, -1)
                ElementTree.SubElement(thread, "step", {
                    "s": str(at), "type": step.kind,
                    "srcbuf": step.source[0], "srcoff": str(step.source[1]),
                    "dstbuf": step.target[0], "dstoff": str(step.target[1]),
                    "cnt": str(step.count), "depid": str(thread_block), "deps": str(after),
                    "hasdep": str(int((number, at) in needed)),
                })  # fmt: skip
    ElementTree.indent(algo)
    return ElementTree.tostring(algo, encoding="unicode") + "\n"
