"""Measure what ``compute.efficiency`` assumes of a GPU, on one that is there.

``python reproduce/gpu.py --out gpu.json``: rates of large products at once and after seconds, in
bf16 and FP8; the memory's bandwidth; what a small kernel takes from one start to the next; the
passes of a loss in fp32; experts as a grouped product, evenly and unevenly loaded.
Needs PyTorch and a CUDA device; two minutes. docs/compute.md has what an H100 said, where the
host's time for a start, some 10 us, still counted.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

# Products of Llama 70B as SemiAnalysis measured them, and a square.
PRODUCTS = ((16384, 8192, 1280), (16384, 1024, 8192), (16384, 8192, 7168), (16384, 3584, 8192),
            (8192, 8192, 8192))  # fmt: skip
# Tokens, experts here, hidden, intermediate, k and all experts: gpt-oss-120b, Qwen3-30B-A3B,
# DeepSeek-V3 and Mixtral 8x7B on one GPU of their expert-parallel group.
EXPERTS = {
    "gpt-oss-120b, EP 16": (4096, 8, 2880, 2880, 4, 128),
    "Qwen3-30B-A3B, EP 16": (4096, 8, 2048, 768, 8, 128),
    "Qwen3-30B-A3B, EP 1": (4096, 128, 2048, 768, 8, 128),
    "DeepSeek-V3, EP 64": (4096, 4, 7168, 2048, 8, 256),
    "Mixtral 8x7B, EP 8": (4096, 1, 4096, 14336, 2, 8),
}
DEVICE = torch.device("cuda")


def seconds(run: Callable[[], object], repeats: int = 20) -> float:
    """Return the median time of a call on the device, after three that are not counted."""
    for _ in range(3):
        run()
    found = []
    idle = torch.empty(1 << 29, device=DEVICE, dtype=torch.int8)
    for _ in range(repeats):
        idle.zero_()  # the host launches ahead meanwhile
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        run()
        end.record()
        end.synchronize()
        found.append(start.elapsed_time(end) / 1e3)
    return statistics.median(found)


def lasting(run: Callable[[], object], flops: float, last: float) -> dict[str, float]:
    """Return the rates of the first tenth of a second after a pause and of the last half."""
    run()
    torch.cuda.synchronize()
    time.sleep(1.0)
    once = seconds(run, 3)
    batch = max(1, round(0.1 / once))
    time.sleep(2.0)
    rates = []
    began = time.perf_counter()
    while (now := time.perf_counter()) - began < last:
        for _ in range(batch):
            run()
        torch.cuda.synchronize()
        rates.append((now - began, batch * flops / (time.perf_counter() - now)))
    late = [rate for at, rate in rates if at >= last / 2]
    return {"first": rates[0][1], "lasting": statistics.median(late)}


def products(last: float) -> dict[str, Any]:
    """Rates of large products of normally distributed numbers, in bf16 and FP8, and of zeros."""
    found: dict[str, Any] = {}
    for m, n, k in PRODUCTS:
        a = torch.randn(m, k, device=DEVICE, dtype=torch.bfloat16)
        b = torch.randn(n, k, device=DEVICE, dtype=torch.bfloat16).t()
        flops, name = 2.0 * m * n * k, f"{m} x {n} x {k}"
        found[f"bf16 {name}"] = lasting(lambda a=a, b=b: a @ b, flops, last)
        one = torch.ones((), device=DEVICE)
        x, y = a.to(torch.float8_e4m3fn), b.t().contiguous().to(torch.float8_e4m3fn).t()
        found[f"fp8 {name}"] = lasting(
            lambda x=x, y=y, one=one: torch._scaled_mm(
                x, y, scale_a=one, scale_b=one, out_dtype=torch.bfloat16
            ),
            flops, last,
        )  # fmt: skip
        say(name, found[f"bf16 {name}"], found[f"fp8 {name}"])
    a = torch.zeros(8192, 8192, device=DEVICE, dtype=torch.bfloat16)
    found["bf16 zeros 8192"] = lasting(lambda: a @ a, 2.0 * 8192**3, last)
    return found


def memory() -> dict[str, float]:
    """Bytes a second that a copy reads and writes, and that a sum of two in fp32 does."""
    a = torch.randn(1 << 30, device=DEVICE, dtype=torch.bfloat16)
    b = torch.empty_like(a)
    copy = 2 * a.numel() * 2 / seconds(lambda: b.copy_(a))
    c, d = (torch.randn(1 << 28, device=DEVICE) for _ in range(2))
    add = 3 * c.numel() * 4 / seconds(lambda: c.add_(d))
    mixed = torch.randn(1 << 28, device=DEVICE, dtype=torch.bfloat16)
    into = (2 * 4 + 2) * c.numel() / seconds(lambda: c.add_(mixed))
    return {"copy": copy, "add_fp32": add, "add_bf16_to_fp32": into}


def starts() -> dict[str, float]:
    """Seconds from one small kernel to the next: launched by the host, and in a graph."""
    x = torch.ones(256, device=DEVICE)

    def many() -> None:
        for _ in range(1000):
            x.mul_(1.0)

    by_host = seconds(many, 5) / 1000
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        many()
    return {"by_host": by_host, "in_a_graph": seconds(graph.replay, 5) / 1000}


def loss(tokens: int = 4096, vocabulary: int = 128256) -> dict[str, float]:
    """Measure cross entropy in fp32, pass by pass, and PyTorch's own [bytes a logit]."""
    logits = torch.randn(tokens, vocabulary, device=DEVICE, dtype=torch.bfloat16)
    ids = torch.randint(0, vocabulary, (tokens, 1), device=DEVICE)

    def passes() -> torch.Tensor:
        x = logits.float()
        x -= x.max(dim=-1, keepdim=True).values
        picked = x.gather(1, ids)
        x.exp_()
        total = x.sum(dim=-1, keepdim=True)
        value = total.log() - picked
        x.div_(total)
        x.scatter_add_(1, ids, torch.full_like(picked, -1.0))
        x.mul_(value)  # the gradient that comes in, a factor a token
        return x.to(torch.bfloat16)

    took = seconds(passes)
    wanted = logits.clone().requires_grad_()

    def torchs() -> None:
        value = torch.nn.functional.cross_entropy(wanted.float(), ids.flatten())
        torch.autograd.grad(value, wanted)

    its = seconds(torchs)
    copy = memory()["copy"]
    return {
        "passes_s": took,
        "pytorch_s": its,
        "passes_bytes_a_logit": took * copy / logits.numel(),
        "pytorch_bytes_a_logit": its * copy / logits.numel(),
    }


def experts() -> dict[str, Any]:
    """Measure experts' first product [s]: batched, grouped, and grouped with uneven loads."""
    found: dict[str, Any] = {}
    draw = np.random.default_rng(1)
    for name, (tokens, here, hidden, inner, k, every) in EXPERTS.items():
        each = tokens * k * (every // here) // every
        rows = each * here
        x = torch.randn(rows, hidden, device=DEVICE, dtype=torch.bfloat16)
        w = torch.randn(here, hidden, 2 * inner, device=DEVICE, dtype=torch.bfloat16)
        even = torch.arange(1, here + 1, device=DEVICE, dtype=torch.int32) * each
        shares = draw.dirichlet(np.full(here, 4.0))
        cut = np.maximum(16, np.round(shares * rows / 16) * 16).astype(np.int32)
        cut[-1] = rows - cut[:-1].sum()
        row: dict[str, Any] = {"rows_an_expert": each, "flops": 2.0 * rows * hidden * 2 * inner}
        batch = x.view(here, -1, hidden)
        row["batched_s"] = seconds(lambda x=batch, w=w: torch.bmm(x, w))
        try:
            row["grouped_s"] = seconds(lambda x=x, w=w, e=even: torch._grouped_mm(x, w, offs=e))
            if cut[-1] > 0:
                offs = torch.from_numpy(np.cumsum(cut).astype(np.int32)).to(DEVICE)
                row["uneven_s"] = seconds(lambda x=x, w=w, o=offs: torch._grouped_mm(x, w, offs=o))
                row["heaviest"] = float(cut.max() / each)
        except (RuntimeError, AttributeError) as error:
            row["grouped"] = str(error).splitlines()[0]
        found[name] = row
        say(name, row)
    return found


def say(*words: object) -> None:
    """Tell how far it is."""
    print(*words, file=sys.stderr, flush=True)


def main() -> int:
    """Measure all of it and write it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="the JSON to write")
    parser.add_argument("--seconds", type=float, default=4.0, help="of each lasting product")
    given = parser.parse_args()
    if not torch.cuda.is_available():
        print("error: PyTorch sees no CUDA device", file=sys.stderr)
        return 2
    found = {
        "device": torch.cuda.get_device_name(),
        "torch": str(torch.__version__),
        "command": f"python reproduce/gpu.py --seconds {given.seconds:g}",
        "starts": starts(),
        "memory": memory(),
        "loss": loss(),
        "experts": experts(),
        "products": products(given.seconds),
    }
    given.out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print(f"{given.out}: written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
