"""The workloads of Megatron-LM's token-imbalance benchmark, W0 to W7 (its pull request 7488).

Modelled: what they expect of each expert, from their description: of the tokens that are hot, all
k choices fall in the hot set, h = max(k, E // 4) experts from expert 0 on. Ignored: their draws of
single tokens. W1 and W2 are one formula there, too: which rank owns the hot block is a matter of
the layout. W4 is described as uneven in its sources without a figure; here A(s) is proportional to
s + 1. Checked: closed forms, and the imbalance that they print (``tests/test_trace_servers.py``).
"""

from __future__ import annotations

import numpy as np

from lightloom.errors import InputError
from lightloom.trace.synthetic.apportion import apportion
from lightloom.trace.synthetic.plug import (
    Generator,
    Ints,
    Knob,
    Shape,
    Values,
    Weights,
    even,
    hot_set,
    same_tokens,
)

WORKLOAD = Knob("workload", "number of the workload", 1, 0, 7)


def _weights(shape: Shape, values: Values, rng: np.random.Generator) -> Weights:
    number, experts, top_k = int(values["workload"]), shape.experts, shape.top_k
    width = max(top_k, experts // 4)
    step = np.arange(shape.iterations)[:, None, None]
    block = np.broadcast_to(np.arange(width), (shape.iterations, 1, width))
    # Three of four tokens are hot, from the second on; in a burst every second one, from the first.
    most = (shape.tokens - (shape.tokens + 3) // 4) / shape.tokens
    half = (shape.tokens + 1) // 2 / shape.tokens
    if number in (1, 2):
        return hot_set(shape, block, most)
    if number == 3:
        spread = 2 * np.arange(max(top_k, experts // 2)) % experts
        hot = spread if len(np.unique(spread)) >= top_k else np.arange(experts)
        return hot_set(shape, hot[None, None], most)
    if number == 5:
        alive = experts - experts // 2
        if alive < top_k:
            raise InputError(f"--workload 5: leaves {alive} experts, fewer than --top-k {top_k}")
        return np.where(np.arange(experts) >= experts // 2, 1.0, 0.0)[None, None, None]
    if number == 6:
        return hot_set(shape, (block + step // 3 * width) % experts, most)
    if number == 7:
        return hot_set(shape, block, np.where(step[..., 0] % 4 == 3, half, 0.0))
    return even(shape, values, rng)


def _tokens(shape: Shape, values: Values, rng: np.random.Generator) -> Ints:
    if values["workload"] != 4:
        return same_tokens(shape, values, rng)
    # One token each first: a source without any would not be a rank of the job.
    rest = np.array([shape.sources * (shape.tokens - 1)])
    tokens: Ints = 1 + apportion(np.arange(1.0, shape.sources + 1)[None], rest)[0]
    return tokens


GENERATOR = Generator(
    "megatron",
    "Megatron-LM's W0 balanced, W1 hot set and W2 hot rank (3/4 of the tokens choose among experts "
    "0 to h - 1, h = max(k, E // 4)), W3 spread (3/4 among every second), W4 ragged sources (A(s) "
    "proportional to s + 1), W5 none for experts below E // 2, W6 W1's block, h further every 3 "
    "iterations, W7 1/2 hot in each fourth iteration",
    _weights,
    (WORKLOAD,),
    _tokens,
)
