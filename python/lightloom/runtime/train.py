"""``python -m lightloom.runtime.train``: train a small MoE as the ranks of a job.

Example: lightloom testbed run -- python -m lightloom.runtime.train --iterations 20
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any, NoReturn

from lightloom.errors import InputError, LightloomError

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


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InputError(message)


def main(words: list[str] | None = None) -> int:
    """Run as one rank; return the exit code: 2 for bad input, 1 for a run that failed."""
    try:
        _run(_parser().parse_args(words))
    except LightloomError as error:
        print(f"error: {error}", file=sys.stderr)
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
    parser.add_argument("--text", type=Path, help="a file or directory (Python's own library)")
    parser.add_argument(
        "--no-announce", action="store_true", help="do not tell the agents what gates decide"
    )
    parser.add_argument(
        "--block", action="store_true",
        help="wait for circuits after each gate, before anything is sent",
    )  # fmt: skip
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
    from lightloom.trace.corpus import standard_library, text_at, tokenize
    from lightloom.trace.record import Recording

    size = int(os.environ["WORLD_SIZE"])
    settings = Recording(
        sources=size,
        iterations=given.iterations,
        **{name: getattr(given, name) for name, *_ in WORDS},
    )
    if settings.experts % size:
        raise InputError(f"--experts {settings.experts}: must be a multiple of the {size} ranks")
    source, description = standard_library() if given.text is None else text_at(given.text)
    corpus = tokenize(source, description, settings.vocabulary)
    try:
        import torch
        import torch.distributed as dist
    except ImportError:
        raise InputError("PyTorch is not installed: pip install 'lightloom[torch]'") from None
    from lightloom.runtime.pytorch.training import train

    torch.set_num_threads(1)
    dist.init_process_group(given.backend)
    if given.block and (given.no_announce or given.backend != "lightloom"):
        raise InputError("--block: is read with --backend lightloom, without --no-announce")
    announces = given.backend == "lightloom" and not given.no_announce
    found = {"backend": given.backend, "ranks": size, "text": corpus.description}
    found |= train(settings, corpus, announces, blocks=given.block)
    if dist.get_rank() == 0:
        if given.out is not None:
            _write(given.out, found)
        print(json.dumps(found) if given.json else _words(found))
    dist.destroy_process_group()


def _write(place: Path, found: dict[str, Any]) -> None:
    try:
        place.write_text(json.dumps(found) + "\n")
    except OSError as error:
        raise InputError(f"--out: {place}: {error.strerror}") from None


def _words(found: dict[str, Any]) -> str:
    losses, wall = found["losses"], found["wall_s"]
    lines = [
        f"{found['backend']}, {found['ranks']} ranks, {found['text']}",
        f"loss {losses[0]:.4f} to {losses[-1]:.4f} nats a token in {len(losses)} steps, "
        f"{wall / len(losses):.3f} s a step; of rank 0:",
    ]
    lines += [
        f"  {name.replace('_', '-'):<12}{seconds / len(losses) * 1e3:9.1f} ms {seconds / wall:6.1%}"
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
