"""``python -m lightloom.runtime.train``: train a small MoE as the ranks of a job.

Example: lightloom testbed run -- python -m lightloom.runtime.train --iterations 20
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from lightloom import extras
from lightloom.errors import InputError, LightloomError
from lightloom.runtime import timeline

if TYPE_CHECKING:
    from lightloom.runtime.checkpoints import Checkpoints
    from lightloom.trace.corpus import Corpus
    from lightloom.trace.gating_trace import Counts, GatingTrace
    from lightloom.trace.record import Recording

WORDS = (
    ("experts", 8, "experts of each layer; a multiple of the ranks"),
    ("top_k", 2, "experts of a token"),
    ("layers", 2, "layers"),
    ("sequences", 4, "sequences of a rank in a step"),
    ("context", 128, "tokens of a sequence"),
    ("hidden", 64, "width of the model"),
    ("intermediate", 128, "width of an expert"),
    ("seed", 1, "of the weights and of the order of the text"),
)
# Steps from one checkpoint to the next, unless given.
EVERY = 10
# What does not change what a step does: a training may go on for longer.
FREE = ("iterations", "warmup", "threads", "sources")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InputError(message)


def main(words: list[str] | None = None) -> int:
    """Run as one rank; return the exit code: 2 for bad input, 1 for a run that failed."""
    try:
        _run(_parser().parse_args(words))
    except LightloomError as error:
        sys.stderr.write(f"error: {error}\n")  # at once: other ranks write there, too
        return error.exit_code
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m lightloom.runtime.train",
        description="Train a small MoE transformer, expert parallel over all ranks of a job.",
        epilog="Example: lightloom testbed run -- python -m lightloom.runtime.train --json",
    )
    parser.add_argument(
        "--backend", choices=("lightloom", "gloo"), default="lightloom", help="(lightloom)"
    )
    parser.add_argument("--iterations", type=int, default=20, help="training steps (20)")
    for name, default, meaning in WORDS:
        flag = f"--{name.replace('_', '-')}"
        parser.add_argument(flag, type=int, default=default, help=f"{meaning} ({default})")
    parser.add_argument("--text", type=Path, help="a file or directory (Python's reference)")
    parser.add_argument(
        "--checkpoint",
        type=Path,
        metavar="DIR",
        help="write checkpoints there, and go on from the last one that is there",
    )
    parser.add_argument(
        "--every", type=int, help=f"steps from one checkpoint to the next ({EVERY})"
    )
    parser.add_argument(
        "--record",
        type=Path,
        metavar="FILE",
        help="write what gates decided as a gating trace (Parquet)",
    )
    parser.add_argument(
        "--no-announce", action="store_true", help="do not tell the agents what gates decide"
    )
    parser.add_argument(
        "--block", action="store_true",
        help="wait for circuits after each gate, before anything is sent",
    )  # fmt: skip
    parser.add_argument(
        "--timeline",
        type=Path,
        metavar="FILE",
        help="write when each rank did what, for ui.perfetto.dev (JSON)",
    )
    parser.add_argument("--out", type=Path, help="a file for what --json prints")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _run(given: argparse.Namespace) -> None:
    for name in ("RANK", "WORLD_SIZE"):
        if not os.environ.get(name, "").isdigit():
            raise InputError(
                f"{name}: is no number in the environment; `lightloom testbed run -- python -m "
                "lightloom.runtime.train` sets it"
            )
    from lightloom.trace.corpus import reference, text_at, tokenize
    from lightloom.trace.place import check_place
    from lightloom.trace.record import Recording

    size = int(os.environ["WORLD_SIZE"])
    settings = Recording(
        sources=size,
        iterations=given.iterations,
        warmup=0,
        **{name: getattr(given, name) for name, *_ in WORDS},
    )
    if settings.experts % size:
        raise InputError(f"--experts {settings.experts}: must be a multiple of the {size} ranks")
    source, description = reference() if given.text is None else text_at(given.text)
    corpus = tokenize(source, description, settings.vocabulary)
    for flag, path in (
        ("--record", given.record), ("--timeline", given.timeline), ("--out", given.out),
    ):  # fmt: skip
        if path is not None:
            check_place(flag, path)
    if given.block and (given.no_announce or given.backend != "lightloom"):
        raise InputError("--block: is read with --backend lightloom, without --no-announce")
    checkpoints = _checkpoints(given, settings, corpus.digest)
    try:
        import torch
        import torch.distributed as dist
    except ImportError:
        raise InputError(f"PyTorch is not installed: {extras.install('torch')}") from None
    from lightloom.runtime.pytorch.training import train

    torch.set_num_threads(1)
    dist.init_process_group(given.backend)
    announces = given.backend == "lightloom" and not given.no_announce
    found = {"backend": given.backend, "ranks": size, "text": corpus.description}
    records = given.record is not None
    found |= train(
        settings, corpus, announces, checkpoints, given.every or EVERY, records, given.block,
        given.timeline is not None,
    )  # fmt: skip
    counts, spans = found.pop("counts", None), found.pop("spans", None)
    if dist.get_rank() == 0:
        if given.out is not None:
            given.out.write_text(json.dumps(found) + "\n")
        if spans is not None:
            timeline.write(spans, given.timeline)
        if records:
            _recorded(settings, corpus, counts, found).save(given.record)
        print(json.dumps(found) if given.json else _words(found))
    dist.destroy_process_group()


def _checkpoints(given: argparse.Namespace, settings: Recording, text: str) -> Checkpoints | None:
    """Return where checkpoints are, if anywhere; what is there is of this training."""
    from lightloom.runtime.checkpoints import Checkpoints

    if given.every is not None and given.checkpoint is None:
        raise InputError(f"--every {given.every}: is read with --checkpoint alone")
    if given.every is not None and given.every < 1:
        raise InputError(f"--every {given.every}: must be at least 1")
    if given.checkpoint is None:
        return None
    theirs: dict[str, object] = {"WORLD_SIZE": settings.sources}
    for item in fields(settings):
        if item.name not in FREE:
            theirs[f"--{item.name.replace('_', '-')}"] = getattr(settings, item.name)
    found = Checkpoints(given.checkpoint, theirs | {"--text of SHA-256": text})
    done = found.latest()
    if done is not None and done > settings.iterations:
        raise InputError(
            f"--iterations {settings.iterations}: the checkpoint in {given.checkpoint} has {done} "
            "steps already"
        )
    return found


def _recorded(
    settings: Recording, corpus: Corpus, counts: Counts, found: dict[str, Any]
) -> GatingTrace:
    """Return what gates decided, with what made it."""
    from lightloom.trace.gating_trace import GatingTrace
    from lightloom.trace.record import described

    flags = ["iterations", *(name for name, *_ in WORDS)]
    words = [f"--{name.replace('_', '-')} {getattr(settings, name)}" for name in flags]
    meta = described(settings, corpus, len(counts), found["losses"][-1])
    meta["command"] = f"python -m lightloom.runtime.train {' '.join(words)}"
    meta["backend"] = found["backend"]
    return GatingTrace(counts, settings.top_k, meta)


def _words(found: dict[str, Any]) -> str:
    losses, wall, steps = found["losses"], found["wall_s"], len(found["step_s"])
    lines = [
        f"{found['backend']}, {found['ranks']} ranks, {found['text']}",
        f"loss {losses[0]:.4f} to {losses[-1]:.4f} nats a token in {len(losses)} steps",
    ]
    if found["from_step"]:
        lines.append(
            f"from a checkpoint of {found['from_step']} steps, which all ranks had read after "
            f"{found['restore_s']:.3f} s"
        )
    if not steps:
        return "\n".join([*lines, "no step was left"])
    lines.append(f"{wall / steps:.3f} s a step in {steps} steps; of rank 0:")
    lines += [
        f"  {name.replace('_', '-'):<12}{seconds / steps * 1e3:9.1f} ms {seconds / wall:6.1%}"
        for name, seconds in found["seconds"].items()
    ]
    if found["rounds"]:
        lines.append(
            f"the gates' counts were announced {found['rounds']} times; the controller answered "
            f"{found['decided']} of them in time, with {found['circuits'] / found['rounds']:.1f} "
            "circuits at this server"
        )
        if not found["circuits"]:
            lines.append("no circuit stood: all bytes went over packet NICs")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
