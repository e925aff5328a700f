"""Times of a job's matrix products and attention, measured with PyTorch on a device.

What is measured is what `lightloom._core.job_kernels` says that a GPU runs for one micro-batch:
each shape once, in both passes, experts at several loads. Groups are of one size, a batched
product. A time is the median of repeats after a warm-up; data are drawn at random, as zeros let
clocks rise. Before each repeat on a GPU a buffer larger than its cache is cleared: that empties the
cache, and lets the host launch ahead, so that its time does not count. Where what is summed over is
no multiple of 8 (tokens, in a weight's gradient), the first factor is stored token after token, as
activations are: rows of any other length make a product several times as slow, and no layer has
them. Queries of a part of a sequence (context parallelism) meet half of its keys without a mask,
which is as many products. The table is written anew after every shape, so that an interrupt loses
at most one, and the same command goes on where it stopped. Ignored: what runs beside.
Checked: ``tests/pytorch/test_kernel_times.py`` on the CPU.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lightloom import _core, torch_device
from lightloom.compute_table import read_table
from lightloom.errors import InputError, Interrupted, RunError
from lightloom.scenario import Scenario
from lightloom.toml_text import read_toml, value_text

WARM_UP = 3
# No shape is repeated for longer than this, once it was repeated so often.
_LONGEST_S, _LEAST = 5.0, 3
# Bytes cleared before a repeat: ten times an H100's cache, some 0.2 ms.
_CLEARED = 1 << 29

OnKernel = Callable[[int, int, "Kernel", str], None]


@dataclass(frozen=True)
class Kernel:
    """A shape: ``matmul`` or ``attention``, its sizes as a compute table has them, its FLOPs."""

    kind: str
    sizes: Mapping[str, Any]
    flops: float

    @property
    def text(self) -> str:
        """What it is, in a few words.

        Examples
        --------
        >>> Kernel("matmul", dict(m=8, n=4, k=2, groups=3, dtype="bf16"), 384.0).text
        '3 x (8 x 2 by 2 x 4) bf16'
        """
        s = self.sizes
        if self.kind == "matmul":
            many = "" if s["groups"] == 1 else f"{s['groups']} x "
            return f"{many}({s['m']} x {s['k']} by {s['k']} x {s['n']}) {s['dtype']}"
        return f"attention {s['pass']}, {s['heads']} heads, {s['queries']} of {s['keys']} tokens"


def kernels(*jobs: Scenario, loads: Sequence[float] = (1.0,)) -> list[Kernel]:
    """Return the shapes of one or more jobs, each once.

    Parameters
    ----------
    loads
        At which experts are taken, as multiples of an even one.

    Examples
    --------
    >>> found = kernels(Scenario.preset("mixtral-8x7b"))
    >>> len(found), found[0].text
    (20, '(32768 x 4096 by 4096 x 1536) bf16')
    """
    found: dict[tuple[Any, ...], Kernel] = {}
    for job in jobs:
        for row in json.loads(_core.job_kernels(job.to_core_json(), list(loads))):
            kind = "matmul" if "matmul" in row else "attention"
            kernel = Kernel(kind, row[kind], row["flops"])
            found.setdefault((kind, *kernel.sizes.values()), kernel)
    return list(found.values())


def fewer_tokens(job: Scenario, tokens: int) -> Scenario:
    """Return a job whose micro-batch has at most so many tokens on a GPU: one sequence, shortened.

    Raises
    ------
    InputError
        If that is not one token for each GPU that shares a sequence.

    Examples
    --------
    >>> fewer_tokens(Scenario.preset("mixtral-8x7b"), 100).training.sequence_length
    100
    """
    split = job.parallelism
    share = split.tp * split.cp
    length = min(job.training.sequence_length, tokens * split.cp) // share * share
    if length < 1:
        raise InputError(f"--tokens = {tokens}: must be at least tp = {split.tp}")
    return job.with_(training={"micro_batch": 1, "sequence_length": length})


def measure(
    *jobs: Scenario,
    out: Path,
    device: str = "cuda",
    loads: Sequence[float] = (0.5, 1.0, 2.0),
    repeats: int = 20,
    force: bool = False,
    command: str = "lightloom.kernel_times.measure",
    on_kernel: OnKernel = lambda done, of, kernel, said: None,
) -> list[tuple[Kernel, float]]:
    """Measure the kernels of jobs, and write the table that ``compute.table`` reads.

    Parameters
    ----------
    jobs
        Whose shapes are measured: model, split, micro-batch and precision of each.
    out
        The table (TOML). One of the same device and PyTorch goes on; `force` begins anew.
    device
        ``cpu``, ``cuda`` or ``cuda:N``.
    loads
        Loads of experts, as multiples of an even one.
    repeats
        At most so many of each shape.
    on_kernel
        Called for each shape with how many are done, of how many, and what to say.

    Returns
    -------
    list of (Kernel, float)
        Each shape and its time [s].

    Raises
    ------
    InputError
        If PyTorch or the device is missing, or `out` is another table.
    Interrupted
        If it was interrupted; what was measured is in `out`.
    """
    where = torch_device.device(device)
    import torch

    about = {
        "origin": "measured",
        "device": torch_device.device_name(where),
        "torch": str(torch.__version__),
        "cuda": str(torch.version.cuda or "none"),
        "lightloom": _core.__version__,
        "model": (names := ", ".join(job.model.name for job in jobs)),
        "command": command,
    }
    known = {} if force else _known(out, about)
    wanted = kernels(*jobs, loads=loads)
    eight = next((k for k in wanted if k.sizes.get("dtype") == "fp8"), None)
    if eight is not None and where.type != "cuda":
        raise InputError("compute.products = fp8: is measured on a CUDA device; allowed: bf16")
    times: dict[tuple[Any, ...], float] = dict(known)
    try:
        for done, kernel in enumerate(wanted, 1):
            key = (kernel.kind, *kernel.sizes.values())
            if key in times:
                on_kernel(done, len(wanted), kernel, "is in the table already")
                continue
            if (why := _refused(kernel)) is not None:
                on_kernel(done, len(wanted), kernel, f"left out: {why}")
                continue
            seconds = _time(torch, kernel, where, repeats)
            if seconds is None:
                on_kernel(done, len(wanted), kernel, "left out: it does not fit in memory")
                continue
            times[key] = seconds
            _write(out, about, times)
            rate = kernel.flops / seconds / 1e12
            on_kernel(done, len(wanted), kernel, f"{seconds * 1e3:.4g} ms, {rate:.4g} Tflop/s")
    except KeyboardInterrupt as error:
        kept = f"{len(times)} shapes are kept in {out}; the same command goes on"
        raise Interrupted(kept if times else "nothing was measured") from error
    if not times:
        raise RunError(f"no shape of {names} fits on {about['device']}")
    found = [(kernel, times.get((kernel.kind, *kernel.sizes.values()))) for kernel in wanted]
    return [(kernel, seconds) for kernel, seconds in found if seconds is not None]


def _known(out: Path, about: Mapping[str, str]) -> dict[tuple[Any, ...], float]:
    """Return what a table of the same device has; InputError if there is another one."""
    if not out.exists():
        return {}
    there = read_toml(out).get("about")
    for key in ("device", "torch"):
        if not isinstance(there, dict) or there.get(key) != about[key]:
            found = there.get(key) if isinstance(there, dict) else None
            was = f'its {key} is "{found}", here it is "{about[key]}"' if found else "not of here"
            raise InputError(f"{out}: is another table, {was}; allowed: another --out, or --force")
    known = {}
    for kind, entries in read_table(out).items():
        for entry in entries if kind != "measured" else ():
            sizes = [value for key, value in entry.items() if key != "time"]
            known[(kind, *sizes)] = _core.parse_time(entry["time"]) / 1e12
    return known


_SIZES = {
    "matmul": ("m", "n", "k", "groups", "dtype"),
    "attention": ("sequences", "heads", "queries", "keys", "key_width", "value_width", "pass"),
}


def _write(out: Path, about: Mapping[str, str], times: Mapping[tuple[Any, ...], float]) -> None:
    """Write the table; the one before stays until the new one is whole."""
    lines = ["[about]", *(f"{key} = {value_text(value)}" for key, value in about.items())]
    for (kind, *sizes), seconds in times.items():
        said = dict(zip(_SIZES[kind], sizes, strict=True))
        said["time"] = _core.format_time(max(1, round(seconds * 1e12)))
        lines += ["", f"[[{kind}]]", *(f"{key} = {value_text(v)}" for key, v in said.items())]
    draft = out.with_name(f".{out.name}.draft")
    try:
        draft.write_text("\n".join(lines) + "\n", encoding="utf-8")
        draft.replace(out)
    except OSError as error:
        raise InputError(f"{out}: {error.strerror}") from None


def _refused(kernel: Kernel) -> str | None:
    """Return why PyTorch has no such product, if it has none."""
    s = kernel.sizes
    if s.get("dtype") == "fp8" and (s["n"] % 16 or s["k"] % 16):
        return "FP8 products need columns and inner sizes in sixteens"
    return None


def _time(torch: Any, kernel: Kernel, where: Any, repeats: int) -> float | None:
    """Return the median time of a kernel [s]; None if it does not fit in the device's memory."""
    try:
        run = _product(torch, kernel, where) if kernel.kind == "matmul" else None
        run = run or _attention(torch, kernel, where)
        for _ in range(WARM_UP):
            run()
        return statistics.median(_repeated(torch, run, where, repeats))
    except (RuntimeError, MemoryError) as error:
        if isinstance(error, MemoryError) or "memory" in str(error).lower():
            return None
        raise RunError(f"{kernel.text}: {str(error).splitlines()[0]}") from None


def _repeated(torch: Any, run: Callable[[], object], where: Any, repeats: int) -> Iterator[float]:
    cuda = where.type == "cuda"
    idle = torch.empty(_CLEARED if cuda else 0, device=where, dtype=torch.int8)
    began = time.perf_counter()
    for count in range(repeats):
        if cuda:
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            idle.zero_()
            start.record()
            run()
            end.record()
            end.synchronize()
            yield start.elapsed_time(end) / 1e3
        else:
            before = time.perf_counter()
            run()
            yield time.perf_counter() - before
        if count + 1 >= _LEAST and time.perf_counter() - began > _LONGEST_S:
            return


def _product(torch: Any, kernel: Kernel, where: Any) -> Callable[[], object]:
    m, n, k, groups = (kernel.sizes[key] for key in ("m", "n", "k", "groups"))
    rows_of_tokens = bool(k % 8)
    shape = (groups, k, m) if rows_of_tokens else (groups, m, k)
    a = torch.randn(shape, device=where, dtype=torch.bfloat16)
    a = a.transpose(1, 2) if rows_of_tokens else a
    b = torch.randn(groups, k, n, device=where, dtype=torch.bfloat16)
    if kernel.sizes["dtype"] == "bf16":
        out = torch.empty(groups, m, n, device=where, dtype=torch.bfloat16)
        if groups == 1:
            x, y, into = a[0], b[0], out[0]
            return lambda: torch.mm(x, y, out=into)
        return lambda: torch.bmm(a, b, out=out)
    eight = torch.float8_e4m3fn
    one = torch.ones((), device=where)
    left = [each.contiguous().to(eight) for each in a]
    # Its second factor is read by columns.
    right = [each.t().contiguous().to(eight).t() for each in b]

    def scaled() -> None:
        for x, y in zip(left, right, strict=True):
            torch._scaled_mm(x, y, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)

    return scaled


def _attention(torch: Any, kernel: Kernel, where: Any) -> Callable[[], object]:
    s = kernel.sizes
    whole = s["queries"] == s["keys"]
    keys = s["keys"] if whole else max(1, s["keys"] // 2)
    backward = s["pass"] == "backward"

    def drawn(tokens: int, width: int) -> Any:
        shape = (s["sequences"], s["heads"], tokens, width)
        made = torch.randn(shape, device=where, dtype=torch.bfloat16)
        return made.requires_grad_(backward)

    q, k = drawn(s["queries"], s["key_width"]), drawn(keys, s["key_width"])
    v = drawn(keys, s["value_width"])
    fused = torch.nn.functional.scaled_dot_product_attention
    if not backward:
        return lambda: fused(q, k, v, is_causal=whole)
    out = fused(q, k, v, is_causal=whole)
    gradient = torch.randn_like(out)
    return lambda: torch.autograd.grad(out, (q, k, v), gradient, retain_graph=True)
