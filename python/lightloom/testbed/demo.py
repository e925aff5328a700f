"""What ``lightloom testbed demo`` runs: MixNet's prototype, hot pairs, and a model that is trained.

Modelled: the prototype of MixNet, Section 6 and Appendix C: four servers, eight GPUs and four NICs
each, three models cut to 7, 16 and 12 layers, in replays (`lightloom.testbed.replay`) of one
micro-batch. GPUs of a server share one scale-up network, so that what is left is the fabric. Rows
differ in one thing each; circuits are changed by the preset's rule, by Algorithm 1 at every demand
as printed (``block`` waits for the first all-to-all of a layer, ``reuse`` does not), or never.
Eight servers as in docs/when-reconfiguring-pays.md, where pairs of servers send each other five
times the mean, and where all send alike. Training is `lightloom.runtime.train`. Ignored: the
prototype's switch, whose delay varies: here it is 25 ms, times what everything is slower. Checked:
``tests/test_testbed_replay.py``, and figures in docs/testbed.md.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from lightloom.errors import InputError
from lightloom.papers.mixnet import figure10
from lightloom.papers.mixnet.jobs import run
from lightloom.scenario import Scenario
from lightloom.simulation import simulate
from lightloom.studies.reconfiguration import points
from lightloom.testbed.commands import down, up
from lightloom.testbed.job import Job
from lightloom.testbed.replay import Replay, replay
from lightloom.testbed.runtimes import Settings
from lightloom.testbed.shape import Shape
from lightloom.units import Rate

# By what a row is called: the fabric, or kind of MixNet, of `lightloom.papers.mixnet.jobs`.
ROWS = {
    "all NICs on the Ethernet switch": "fat-tree",
    "MixNet, the preset": "mixnet",
    "MixNet, block": "mixnet block",
    "MixNet, reuse": "mixnet reuse",
    "MixNet, never changed": "mixnet never",
}
ONE: dict[str, Any] = {"training.micro_batches": 1}
HOT, EVEN = points.At("in twos", 5.0, 1.0), points.At("in twos", 1.0, 1.0)


@dataclass(frozen=True)
class Trained:
    """A row of training: what it is called, NICs on switches, and how it is run."""

    name: str
    eps_nics: int
    ocs_nics: int
    path: str
    words: tuple[str, ...]
    decision: str = "timed"
    hysteresis: bool = True


ANNOUNCES_NOT = ("--no-announce",)
TRAINED = (
    Trained("gloo, all NICs on the Ethernet switch", 4, 1, "stripe", ("--backend", "gloo")),
    Trained("lightloom, all NICs on the Ethernet switch", 4, 1, "stripe", ANNOUNCES_NOT),
    Trained("MixNet, the preset", 1, 3, "delegate", ()),
    Trained("MixNet, block", 1, 3, "delegate", ("--block",), "algorithm-1", hysteresis=False),
    Trained("MixNet, reuse", 1, 3, "delegate", (), "algorithm-1", hysteresis=False),
    Trained("MixNet, never changed", 1, 3, "delegate", ANNOUNCES_NOT),
)


@dataclass(frozen=True)
class Demo:
    """What came of it.

    Attributes
    ----------
    replays
        Part by part: its title, and rows.
    trained
        A row each: ``name``, ``step_ms`` and ``all_to_all_ms`` (means of rank 0),
        ``first_loss``, ``last_loss`` [nats a token]; empty without PyTorch.
    """

    replays: tuple[tuple[str, tuple[Replay, ...]], ...]
    trained: tuple[dict[str, Any], ...]

    def said(self) -> dict[str, Any]:
        """Return it for JSON."""
        replays = [
            {"title": title, "rows": [row.said() for row in rows]} for title, rows in self.replays
        ]
        return {"replays": replays, "trained": list(self.trained)}


def prototype(model: str) -> Iterator[tuple[str, Scenario]]:
    """Yield the rows of one of the prototype's models.

    Examples
    --------
    >>> rows = dict(prototype("llama-moe"))
    >>> rows["MixNet, block"].fabric.decision, rows["MixNet, block"].model.layers
    ('algorithm-1', 16)
    """
    for name, fabric in ROWS.items():
        changes = {
            "model.layers": figure10.LAYERS[model], "parallelism.pp": 1, "compute.gpu": "a100",
            "fabric.carrier": "auto", **figure10.HOST, "cluster.host.nvlink_gpus": 8, **ONE,
        }  # fmt: skip
        if fabric != "fat-tree":
            changes |= {"fabric.optical_nics": 3}
        yield name, run(fabric, model, 100, changes=changes, gpus=32).scenario()


def eight(at: points.At) -> Iterator[tuple[str, Scenario]]:
    """Yield the rows of eight servers."""
    never = points.run("mixnet", at, dict(points.RIVALS["never changed"][1]) | ONE)
    yield "all NICs on the Ethernet switch", points.run("mixnet-all-packet", at, ONE).scenario()
    yield "MixNet, the preset", points.run("mixnet", at, ONE).scenario()
    yield "MixNet, never changed", never.scenario()


def demo(
    rate: Rate, seconds: float, iterations: int, told: Callable[[str], None] = lambda line: None
) -> Demo:
    """Run it, on testbeds that are built for it and taken down.

    Parameters
    ----------
    rate
        Of NICs; of eight servers' half as much, which have four times as many; twice as much where
        a model is trained, which is as long as it is.
    seconds
        About how long an iteration of a replay shall take [s].
    iterations
        Steps that are trained; with none, or without PyTorch, nothing is.
    told
        Is called with what is done next.

    Raises
    ------
    InputError
        If a testbed cannot be built here, or a number makes no sense.
    RunError
        If a rank fails, or a byte is wrong.
    """
    for flag, number, least, most in (
        ("--seconds", seconds, 1, 600), ("--iterations", iterations, 0, 100_000),
    ):  # fmt: skip
        if not least <= number <= most:
            raise InputError(f"{flag}: {number:g}: must be from {least} to {most}")
    parts = [
        (f"{model}, {layers} layers, four servers", prototype(model), rate)
        for model, layers in figure10.LAYERS.items()
    ]
    half = Rate(int(rate) // 2)
    parts += [
        ("eight servers, hot pairs (5 times the mean)", eight(HOT), half),
        ("eight servers, an even demand", eight(EVEN), half),
    ]
    replays = tuple((title, _replayed(list(rows), at, seconds, told)) for title, rows, at in parts)
    if not iterations or importlib.util.find_spec("torch") is None:
        return Demo(replays, ())
    twice = Rate(2 * int(rate))
    return Demo(replays, tuple(trained(row, twice, iterations, told) for row in TRAINED))


def _replayed(
    rows: list[tuple[str, Scenario]], rate: Rate, seconds: float, told: Callable[[str], None]
) -> tuple[Replay, ...]:
    """Replay rows, all as much slower as lets the first one take so long."""
    slower = max(1.0, seconds / float(simulate(rows[0][1]).rows[0]["iteration_s"]))
    return tuple(replace(replay(job, rate, slower, told=told), name=name) for name, job in rows)


def trained(
    row: Trained, rate: Rate, iterations: int, told: Callable[[str], None]
) -> dict[str, Any]:
    """Train on a testbed of four servers, a rank each, that is built for it and taken down.

    Raises
    ------
    RunError
        If a rank fails.
    """
    told(f"training: {row.name}: {iterations} steps")
    shape = Shape(
        name="demo", servers=4, ranks_per_server=1, eps_nics=row.eps_nics, ocs_nics=row.ocs_nics,
        rate=rate, decision=row.decision, hysteresis=row.hysteresis,
    )  # fmt: skip
    up(shape)
    try:
        with Job(shape.name, Settings(path=row.path)) as job:
            out = job.directory / "trained.json"
            words = [sys.executable, "-m", "lightloom.runtime.train", *row.words]
            words += ["--iterations", str(iterations), "--out", str(out)]
            job.run(words)
            found = json.loads(out.read_text())
    finally:
        down(shape.name)
    losses, steps = found["losses"], len(found["losses"])
    return {
        "name": row.name, "step_ms": found["wall_s"] / steps * 1e3,
        "all_to_all_ms": found["seconds"]["all_to_all"] / steps * 1e3,
        "first_loss": losses[0], "last_loss": losses[-1],
    }  # fmt: skip
