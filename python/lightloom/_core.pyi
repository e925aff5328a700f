"""Types of the compiled module; tested against it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

__version__: str

class Workload:
    """The workload of a specification, built once and run on as many fabrics as one likes."""

    def __init__(
        self, spec_json: str, counts: npt.NDArray[np.uint32], shape: tuple[int, ...]
    ) -> None: ...
    @property
    def tasks(self) -> int: ...
    @property
    def compute_origins(self) -> list[tuple[str, str, str, int]]: ...
    def run(
        self, spec_json: str, progress: Callable[[float], None] | None = None
    ) -> dict[str, Any]: ...

def parse_time(text: str) -> int: ...
def parse_bytes(text: str) -> int: ...
def parse_rate(text: str) -> int: ...
def format_time(ps: int) -> str: ...
def format_bytes(size: int) -> str: ...
def format_rate(bps: int) -> str: ...
def bill(spec_json: str) -> list[dict[str, Any]]: ...
def rails(
    spec_json: str,
    demand: npt.NDArray[np.uint64],
    progress: Callable[[float], None] | None = None,
) -> dict[str, Any]:
    """Run all-to-alls one by one, each on an idle rail-optimized fabric, and measure them.

    ``demand`` is [collective, source GPU, destination GPU] in bytes. ``spec_json`` has the keys
    seed, domains, gpus_per_domain, link_bps, link_delay_ps, scale_up_bps, scale_up_delay_ps,
    engine, scheme.

    The result: ``collectives``, a list of dicts (completion_ps, cct_mean_ps, cct_p80_ps,
    cct_p95_ps, cct_p99_ps, cct_max_ps, inter_domain_bytes, bus_bandwidth_bps, bus_bandwidth_share,
    sender_mse, receiver_mse); ``sender_loads`` and ``receiver_loads``, little-endian u64
    [collective, domain, rail] as bytes; ``flows``, columns as (dtype, bytes): collective, source,
    destination, bytes, start_ps, end_ps, a row a pair of GPUs in different domains; ``packets``,
    counts by name, or None without packets; ``notes``.
    """

def rails_assign(
    demand: npt.NDArray[np.uint64], gpus_per_domain: int, chunk: int, both_ends: bool
) -> tuple[bytes, bytes]:
    """Return what senders and receivers carry by LPT, as bytes of little-endian u64 [domain, rail].

    ``demand`` is [source GPU, destination GPU] in bytes.
    """
