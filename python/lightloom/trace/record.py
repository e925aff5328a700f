"""Record a gating trace: train a small MoE transformer and count where its gates send tokens.

Modelled: a causal language model whose every layer is attention and a top-k mixture of experts
(softmax gate, weights of the chosen renormalised as Mixtral does), the load-balancing loss of
Switch Transformers (equations 4 to 6, one term a layer, top-k shares), Adam. Each source rank has
its own shard of the text, as a data-parallel rank has. Ignored: the width of a real model, expert
capacity (nothing is dropped), the router's z-loss. Checked: counts add up to tokens x k, and no
expert holds more than every token once; same seed and threads, same trace
(``tests/test_trace_record.py``).

The only module here that needs PyTorch (``pip install 'torch>=2.4'``).
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lightloom import __version__
from lightloom.errors import InputError, RunError
from lightloom.torch_device import device, device_name
from lightloom.trace.corpus import Corpus, standard_library, text_at, tokenize
from lightloom.trace.gating_trace import GatingTrace

if TYPE_CHECKING:
    import torch

Progress = Callable[[int, float], None]


@dataclass(frozen=True)
class Recording:
    """What to train and how long; every field is a flag of ``lightloom trace record``.

    Attributes
    ----------
    experts, top_k, layers
        Of the gates: each of the `layers` has `experts`, of which a token chooses `top_k`.
    sources
        Source ranks (the EP degree), each with its own shard of the text.
    iterations, warmup
        Training steps that are recorded, and those before that are not.
    seed
        Of the weights and of the order of the text.
    sequences, context
        A source's sequences in one step, and the tokens of each.
    hidden, heads, intermediate
        Width of the model, attention heads, width of one expert.
    vocabulary
        Token ids, see `lightloom.trace.corpus`.
    learning_rate, balance
        Adam's step and the weight of the load-balancing loss.
    threads
        Of the CPU; part of what makes a recording repeatable.
    device
        ``cpu``, ``cuda`` or ``cuda:N``. A GPU multiplies in TF32 and sums in no fixed order: what
        it records differs a little each time.

    Raises
    ------
    InputError
        If a value is out of range.
    """

    experts: int = 8
    top_k: int = 2
    sources: int = 8
    layers: int = 8
    iterations: int = 200
    warmup: int = 100
    seed: int = 1
    sequences: int = 8
    context: int = 128
    hidden: int = 64
    heads: int = 2
    intermediate: int = 64
    vocabulary: int = 1024
    learning_rate: float = 2e-3
    balance: float = 0.01
    threads: int = 1
    device: str = "cpu"

    def __post_init__(self) -> None:
        """Refuse what cannot be trained."""
        for item in fields(self):
            if item.name == "device":
                continue  # asked of PyTorch
            value = getattr(self, item.name)
            least = {"warmup": 0, "seed": 0, "balance": 0, "context": 2, "vocabulary": 256}
            low = least.get(item.name, 1)
            if item.name == "learning_rate":
                if not 0 < value <= 1:
                    raise InputError(f"--learning-rate {value}: must be more than 0, at most 1")
            elif not low <= value <= 1 << 31:
                flag = item.name.replace("_", "-")
                raise InputError(f"--{flag} {value}: must be {low} to {1 << 31}")
        if self.top_k > self.experts:
            raise InputError(f"--top-k {self.top_k}: must be at most --experts {self.experts}")
        if self.hidden % (2 * self.heads):
            raise InputError(
                f"--hidden {self.hidden}: must be a multiple of twice --heads {self.heads}"
            )

        # Weights, gradients and Adam's moments in float32: 16 bytes each.
        width = 4 * self.hidden + self.experts * (2 * self.intermediate + 1)
        size = self.hidden * (self.layers * width + self.vocabulary)
        if size > 1 << 30:
            raise InputError(
                f"a model of {size} parameters: must be at most {1 << 30}: choose smaller "
                "--experts, --layers, --hidden, --intermediate or --vocabulary"
            )

    def command(self) -> str:
        """Return the command line that repeats this recording.

        Examples
        --------
        >>> Recording(experts=16).command().removeprefix("lightloom trace record ")
        '--experts 16 --top-k 2 --sources 8 --layers 8 --iterations 200 --seed 1'
        """
        always = ("experts", "top_k", "sources", "layers", "iterations", "seed")
        words = ["lightloom trace record"]
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name in always or value != item.default:
                words.append(f"--{item.name.replace('_', '-')} {value}")
        return " ".join(words)


def record(
    recording: Recording, text: Path | None = None, progress: Progress | None = None
) -> GatingTrace:
    """Train, and return where the gates sent the tokens.

    Parameters
    ----------
    recording
        What to train.
    text
        A file or directory to train on; by default the Python standard library's sources.
    progress
        Called after each training step with the number of steps done (of `warmup` + `iterations`)
        and the loss in nats per token.

    Returns
    -------
    GatingTrace
        Fewer iterations than asked for after an interrupt (Ctrl-C), with a `note` that says so.

    Raises
    ------
    InputError
        Without PyTorch, or with less text than one step of every source needs.
    RunError
        If the training was interrupted before its first recorded step, or diverged.
    """
    where = device(recording.device)
    import torch

    from lightloom.trace.tiny_moe import TinyMoe

    source, description = standard_library() if text is None else text_at(text)
    corpus = tokenize(source, description, recording.vocabulary)
    batches = Batches(corpus, recording)
    counts: list[npt.NDArray[np.int64]] = []
    loss = float("nan")
    with _repeatable(recording), suppress(KeyboardInterrupt):
        model = TinyMoe(recording).to(where)
        optimizer = torch.optim.Adam(model.parameters(), lr=recording.learning_rate)
        for step in range(recording.warmup + recording.iterations):
            ids = torch.from_numpy(batches.at(step)).to(where)
            nats, balance, chosen = model(ids)
            optimizer.zero_grad()
            (nats + recording.balance * balance).backward()
            optimizer.step()
            loss = float(nats.detach())
            if not np.isfinite(loss):
                raise RunError(
                    f"training diverged at step {step}: choose a --learning-rate below "
                    f"{recording.learning_rate}"
                )
            if step >= recording.warmup:
                counts.append(_count(chosen, recording))
            if progress is not None:
                progress(step + 1, loss)
    if not counts:
        raise RunError(
            f"interrupted before the first recorded iteration (after {recording.warmup} "
            "of warm-up): there is nothing to save"
        )
    return GatingTrace(
        np.stack(counts), recording.top_k, described(recording, corpus, len(counts), loss)
    )


class Batches:
    """The text, cut into sequences that are shuffled and dealt out: each source has its own shard.

    As data loaders do (Megatron's shuffles sequences over the whole data set), so that no source
    keeps to one part of the text.

    Parameters
    ----------
    corpus
        The text.
    recording
        Gives the shape and the seed.

    Raises
    ------
    InputError
        If a shard is shorter than one step.
    """

    def __init__(self, corpus: Corpus, recording: Recording) -> None:
        self._recording = recording
        # One token more than the context: the last one is only predicted.
        width = recording.context + 1
        rows = len(corpus.tokens) // width
        share = rows // recording.sources
        if share < recording.sequences:
            needed = recording.sources * recording.sequences * width
            raise InputError(
                f"--text: {len(corpus.tokens)} tokens ({corpus.description}): one step of "
                f"{recording.sources} sources x {recording.sequences} sequences needs {needed}"
            )
        order = np.random.default_rng(recording.seed).permutation(rows)
        dealt = order[: share * recording.sources].reshape(recording.sources, share)
        self._shards = corpus.tokens[: rows * width].reshape(rows, width)[dealt]

    def at(self, step: int) -> npt.NDArray[np.int64]:
        """Return the ids of one step, [source x sequence, context + 1]; shards repeat when read."""
        share, sequences = self._shards.shape[1], self._recording.sequences
        rows = np.arange(step * sequences, (step + 1) * sequences) % share
        return self._shards[:, rows].reshape(-1, self._shards.shape[2])


@contextmanager
def _repeatable(recording: Recording) -> Iterator[None]:
    """Fix what decides a training's numbers, and give the process back its own settings after."""
    import torch

    threads, strict = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    precision = torch.get_float32_matmul_precision()
    try:
        with torch.random.fork_rng(devices=[]):
            torch.set_num_threads(recording.threads)
            torch.manual_seed(recording.seed)
            if recording.device == "cpu":
                torch.use_deterministic_algorithms(True)
            else:
                torch.set_float32_matmul_precision("high")
            yield
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(strict)
        torch.set_float32_matmul_precision(precision)


def _count(chosen: list[torch.Tensor], recording: Recording) -> npt.NDArray[np.int64]:
    """Count the experts chosen, [layer, source, expert], from [token, k] per layer."""
    sources, experts = recording.sources, recording.experts
    counts = np.empty((len(chosen), sources, experts), dtype=np.int64)
    for layer, choice in enumerate(chosen):
        ids = choice.cpu().numpy().reshape(sources, -1)
        for source in range(sources):
            counts[layer, source] = np.bincount(ids[source], minlength=experts)
    return counts


def described(recording: Recording, corpus: Corpus, recorded: int, loss: float) -> dict[str, Any]:
    """Return what a trace says of where it comes from.

    Parameters
    ----------
    recording, corpus
        What was trained, and on what.
    recorded
        How many iterations were recorded.
    loss
        Of the last one [nats a token].
    """
    import torch

    meta: dict[str, Any] = {
        f"recording.{f.name}": getattr(recording, f.name) for f in fields(recording)
    }
    meta |= {
        "origin": "recorded",
        "command": recording.command(),
        "seed": recording.seed,
        "final_loss_nats": round(loss, 4),
        "text": corpus.description,
        "text_sha256": corpus.digest,
        "tokens_per_source": recording.sequences * recording.context,
        "sources": f"{recording.sources} ranks, each with its own shard of the shuffled text",
        "lightloom": __version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
    }
    if recording.device != "cpu":
        meta["device"] = device_name(device(recording.device))
    if recorded < recording.iterations:
        meta["note"] = f"interrupted after {recorded} of {recording.iterations} iterations"
    return meta
