"""The points of the study: one job, skewed, on MixNet and on its rivals.

Modelled: one MoE block of DeepSeek-R1, four layers of it, on eight servers of eight GPUs at 400
Gbps, eight micro-batches of one sequence. In each layer the servers are drawn anew in twos, or in a
circle; each sends its partner, or the next one, `skew` times the mean of a pair (`lightloom trace
generate pair-skew`). Experts are even, so that skew lies between servers alone. A layer computes
longer or shorter as the GPU multiplies slower or faster (`compute.peak_flops`); memory is as fast
as the preset's.
Ignored: pipelines and gradients between regions, which share packet NICs with all-to-alls.
Checked: that runs are told apart and shared, in ``tests/test_study.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from lightloom import _core, presets
from lightloom.cost import on_fabrics
from lightloom.layers import look_up
from lightloom.papers.mixnet.jobs import PRINTED, when
from lightloom.papers.runs import Run
from lightloom.units import Rate

MODEL = "deepseek-r1"
GPUS = 64
LAYERS, MICRO_BATCHES = 4, 8
RATE = "400 Gbps"
SKEWS = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
"""Demand of the heaviest pair of servers over the mean; 7 of eight servers is one circle alone."""
PARTNERS = {"in twos": 1, "in a circle": 0}
"""Who sends whom most: what partners exchange fills both directions of a circuit, a circle one."""
SPEEDS = (4.0, 2.0, 1.0, 0.5, 0.25)
"""How fast the GPU multiplies, beside an H100 at half of its peak."""


class At(NamedTuple):
    """A point's demand and compute."""

    partners: str
    """Of `PARTNERS`."""
    skew: float
    speed: float


class Delay(NamedTuple):
    """How long a switch is dark, and a switch of that kind."""

    text: str
    device: str
    """None is known with ports for a region: hypothetical."""

    @property
    def seconds(self) -> float:
        """The delay [s]."""
        return _core.parse_time(self.text) / 1e12


# Ports are those of python/lightloom/presets/devices; a region of eight servers needs 48.
DELAYS = (
    Delay("10 us", "RotorNet, 128 ports"),
    Delay("200 us", "hypothetical (SWOT's)"),
    Delay("1 ms", "hypothetical"),
    Delay("5 ms", "hypothetical"),
    Delay("15 ms", "Calient, 320 ports"),
    Delay("25 ms", "Polatis, 576 ports"),
    Delay("50 ms", "Polatis as measured at 16 pairs"),
)

POLICIES: Mapping[str, Mapping[str, Any]] = {
    "timed": {},
    "algorithm-1": PRINTED,
}
"""Of circuits that change: the preset, and Algorithm 1 at every demand, as printed."""
RIVALS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "never changed": ("mixnet", when("reuse", "reuse")),
    "eight packet NICs": ("mixnet-all-packet", {}),
    "the same money": ("mixnet-same-money", {}),
    "two packet NICs": ("mixnet-unplugged", {}),
    "rail-optimized": ("rail-optimized", {}),
}
"""What does not depend on the switch's delay: fabrics, and what is changed of them."""


def run(fabric: str, at: At, changes: Mapping[str, Any]) -> Run:
    """Return a run at a point.

    >>> run("rail-optimized", At("in twos", 3.0, 1.0), {}).gpus
    64
    """
    values: dict[str, Any] = {
        "model.layers": LAYERS,
        "model.dense_layers": 0,
        "model.dense_intermediate": 0,
        "parallelism.pp": 1,
        "training.micro_batch": 1,
        "training.micro_batches": MICRO_BATCHES,
        "compute.peak_flops": f"{989 * at.speed:g} Tflop/s",
        "gating.trace": "pair-skew",
        "gating.knobs.servers": 8,
        "gating.knobs.skew": at.skew,
        "gating.knobs.mutual": PARTNERS[at.partners],
        "fabric.link_bandwidth": RATE,
        "fabric.carrier": "auto",
    }
    return Run(MODEL, fabric, GPUS, tuple((values | dict(changes)).items()))


def changing(policy: str, at: At, delay: Delay) -> Run:
    """Return a run with circuits that change."""
    return run("mixnet", at, {**POLICIES[policy], "fabric.ocs.delay": delay.text})


def standing(rival: str, at: At) -> Run:
    """Return a run of a rival."""
    fabric, changes = RIVALS[rival]
    if presets.load("fabrics", fabric).same_bill is not None:
        changes = {"fabric.oversubscription": _for_the_money(fabric)}
    return run(fabric, at, changes)


@cache
def _for_the_money(fabric: str) -> float:
    """Return a preset's over-subscription as a comparison finds it; demand has no part in it."""
    job = run("mixnet", At("in twos", SKEWS[0], SPEEDS[0]), {}).scenario()
    (found,) = on_fabrics(job, [fabric], [Rate.parse(RATE)])
    return round(float(look_up(found.to_tree(), "fabric", "oversubscription")), 3)
